"""What the doors start when a command may be a launch of verl: checks it, then becomes the real program."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from verl_doctor.gate.entrance import GATE, SEEN, own_environment, own_words, restored, start

_CONSOLE_SCRIPTS = frozenset(("ray", "torchrun", "accelerate", "deepspeed"))


def main() -> NoReturn:
    """The words of this process: the interpreter, its option, `judge.py` in the folder of the doors, the program, its words.

    Exit status when the program does not start: that of the report, or 126.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the check as it would have ended the job
    _, _, script, program, *words = own_words()
    environment = own_environment()
    real_environment = restored(environment, os.path.dirname(script))
    options = json.loads(environment[GATE])

    from verl_doctor.gate.examine import examine, may_start

    command = command_of(os.fsdecode(program), [os.fsdecode(word) for word in words[1:]])
    status = examine(command, real_environment, options)
    if status is None and os.path.basename(words[0]) != b"ray":
        start(program, [program, *words[1:]], environment | {SEEN: str(os.getpid()).encode()})
    elif status is None or may_start(status, options):
        start(program, words, real_environment)
    else:
        sys.exit(status)
    sys.exit(126)


def command_of(program: str, words: Sequence[str]) -> list[str]:
    """The command as a person would have typed it: `python /bin/torchrun ...` is how the system starts `torchrun ...`."""
    place = next((place for place, word in enumerate(words) if not word.startswith("-")), len(words))
    if "-m" not in words[:place] and place < len(words) and os.path.basename(words[place]) in _CONSOLE_SCRIPTS:
        return list(words[place:])
    return [program, *words]
