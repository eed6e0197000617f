"""Checks the launches of verl that a command makes, at the moment when it makes them.

`verl-doctor run` puts two doors before the programs of a command and then becomes that command (exec). Front doors are small
programs of the names `python3`, `torchrun`, ... first in PATH; the hook is a `sitecustomize.py` first in PYTHONPATH, for
interpreters that are called by their path or that come first in PATH (an activated environment). Either passes everything on to
the real program unless the words may be a launch of verl. Those go to `judge`, which checks them and then becomes the real
program, with the environment as it would have been without the doors.

The doors are Python and not sh, although sh starts 4 ms sooner: dash drops variables whose name is no identifier (functions
that bash exports: `BASH_FUNC_module%%`) and rewrites PWD, so it cannot pass an environment on unchanged.
"""
