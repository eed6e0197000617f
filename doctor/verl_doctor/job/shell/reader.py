"""From the path of a script to its launches."""

from __future__ import annotations

import os

from verl_doctor.errors import BadInput
from verl_doctor.job.model import Variable
from verl_doctor.job.shell.commands import MAX_SCRIPT_BYTES, decode
from verl_doctor.job.shell.model import Script
from verl_doctor.job.shell.run import OutOfSteps, Shell, starting_state
from verl_doctor.job.shell.unit import Unit
from verl_doctor.job.variables import brief


def read_script(path: str, arguments: list[str], environment: dict[str, Variable], directory: str) -> Script:
    """The launches of verl in a script that is started with these arguments, in this environment and directory.

    The script is read, never run; files that it names may be looked at. Raises BadInput for a file that cannot be read.
    """
    text = _read(path)
    shell = Shell(path, starting_state(arguments, environment, directory))
    script = Script(path, shell.launches, shell.notes)
    try:
        shell.read(Unit(text, file=path))
    except OutOfSteps:
        shell.note("undecidable", {"word": "too many steps", "line": str(shell.here().line) if shell.units else "1"})
    return script


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise BadInput(f"the script {brief(path)} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_SCRIPT_BYTES:
        raise BadInput(f"the script {brief(path)} is larger than {MAX_SCRIPT_BYTES // 1_000_000} MB: is it the right file?")
    if os.path.isdir(path) or b"\0" in content[:1000]:
        raise BadInput(f"the script {brief(path)} is not a text file")
    return decode(content)
