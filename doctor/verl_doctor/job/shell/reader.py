"""From the path of a script, or of a file with shell in it, to its launches."""

from __future__ import annotations

import os
import re

from verl_doctor.errors import BadInput
from verl_doctor.job.model import Variable
from verl_doctor.job.shell.commands import MAX_SCRIPT_BYTES, decode
from verl_doctor.job.shell.expand import absolute
from verl_doctor.job.shell.inherited import starting_state
from verl_doctor.job.shell.model import Script
from verl_doctor.job.shell.notes import note_late_exports
from verl_doctor.job.shell.outer import MARKDOWN_SUFFIXES, YAML_SUFFIXES, Block, markdown_blocks, yaml_blocks
from verl_doctor.job.shell.run import OutOfSteps, Shell
from verl_doctor.job.shell.unit import Unit
from verl_doctor.job.variables import brief
from verl_doctor.report import Location

_ZSH = re.compile(r"#!\s*\S*(/|env\s+)zsh\b")
_SBATCH_DIRECTORY = re.compile(r"^#SBATCH\s+(?:--chdir[= ]|-D\s*)(\S+)", re.MULTILINE)


def read_script(path: str, arguments: list[str], environment: dict[str, Variable], directory: str) -> Script:
    """The launches of verl in a script that is started with these arguments, in this environment and directory.

    Besides scripts, YAML files of SkyPilot, Kubernetes, Ray and dstack and Markdown files are read for the shell in them. The
    script is read, never run; files that it names may be looked at. Raises BadInput for a file that cannot be read.
    """
    text = _read(path)
    script = Script(path)
    for block in _blocks(path, text):
        inherited = {} if block.elsewhere else environment
        shell = Shell(path, starting_state(arguments, inherited | block.variables, directory), script)
        if block.elsewhere:
            shell.state.unseen = "the job runs on a machine that sets variables of its own"
        if path.endswith(".zsh") or _ZSH.match(text):
            shell.state.options = frozenset({"zsh"})
        chosen = _SBATCH_DIRECTORY.search(text) if path.endswith((".slurm", ".sbatch", ".sh")) else None
        if chosen:
            shell.state.directory = absolute(chosen[1].strip("'\""), directory)
        _walk(shell, block)
    return script


def _walk(shell: Shell, block: Block) -> None:
    try:
        for unit in block.units:
            shell.read(unit)
    except (OutOfSteps, RecursionError):
        values = {"word": "too many steps", "line": str(shell.last_line)}
        shell.note("undecidable", values, Location(shell.script_path, shell.last_line))
    note_late_exports(shell)


def _blocks(path: str, text: str) -> list[Block]:
    lowered = path.lower()
    if lowered.endswith(YAML_SUFFIXES):
        return yaml_blocks(text, path)
    if lowered.endswith(MARKDOWN_SUFFIXES):
        return markdown_blocks(text, path)
    return [Block([Unit(text, file=path)])]


def _read(path: str) -> str:
    if os.path.isdir(path):
        raise BadInput(f"the script {brief(path)} is a folder: name a file in it")
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadInput(f"the script {brief(path)} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > MAX_SCRIPT_BYTES:
        raise BadInput(f"the script {brief(path)} is larger than {MAX_SCRIPT_BYTES // 1_000_000} MB: is it the right file?")
    if b"\0" in content[:1000]:
        raise BadInput(f"the script {brief(path)} is not a text file")
    return decode(content)
