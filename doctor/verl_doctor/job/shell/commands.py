"""Other programs: those whose output is known without running them, and scripts that a script starts or sources."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.shell.expand import absolute
from verl_doctor.job.shell.state import State, Value, unknown
from verl_doctor.job.shell.unit import Unit
from verl_doctor.job.variables import brief

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell

MAX_SCRIPT_BYTES = 1_000_000
_MAX_SOURCED = 8
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_IN_FRONT = frozenset(
    {"nohup", "time", "exec", "command", "setsid", "stdbuf", "nice", "timeout", "env", "numactl", "srun", "sudo"}
)


class Output(NamedTuple):
    """What a program prints, and whether it succeeds."""

    text: Value
    status: bool | None


def runs_in_place(words: list[Argument]) -> bool:
    """Whether the command replaces the shell."""
    return words[0].text == "exec"


def known_output(words: list[Argument], state: State) -> Output | None:
    """The output of a program that only works on its arguments, None for any other."""
    name = words[0].text.rsplit("/", 1)[-1]
    handler = _PURE.get(name)
    if handler is None:
        return None
    arguments = [Value(word.text, word.unknown) for word in words[1:]]
    if any(not argument.known for argument in arguments):
        reason = next(argument.unknown for argument in arguments if not argument.known)
        return Output(unknown(reason), None)
    text = handler([argument.text for argument in arguments], state)
    return None if text is None else Output(Value(text + "\n") if text else Value(""), True)


def _dirname(arguments: list[str], _state: State) -> str | None:
    paths = [argument for argument in arguments if argument != "--"]
    if not paths or any(path.startswith("-") for path in paths):
        return None
    return "\n".join(_parent(path) for path in paths)


def _parent(path: str) -> str:
    stripped = path.rstrip("/")
    if not stripped:
        return "/" if path else "."
    head, slash, _ = stripped.rpartition("/")
    return head.rstrip("/") or "/" if slash else "."


def _basename(arguments: list[str], _state: State) -> str | None:
    paths = [argument for argument in arguments if argument != "--"]
    if not 1 <= len(paths) <= 2 or paths[0].startswith("-"):
        return None
    name = paths[0].rstrip("/").rsplit("/", 1)[-1] or ("/" if paths[0] else "")
    suffix = paths[1] if len(paths) == 2 else ""
    return name[: -len(suffix)] if suffix and name.endswith(suffix) and name != suffix else name


def _realpath(arguments: list[str], state: State) -> str | None:
    paths = [argument for argument in arguments if argument not in ("--", "-f", "-e", "-m")]
    if len(paths) != 1 or paths[0].startswith("-") or not paths[0]:
        return None
    if not paths[0].startswith("/") and (UNKNOWN in state.directory or not state.directory):
        return None
    return os.path.realpath(os.path.join(state.directory or "/", paths[0]))


def _seq(arguments: list[str], _state: State) -> str | None:
    if not 1 <= len(arguments) <= 3 or not all(re.fullmatch(r"-?\d{1,9}", argument) for argument in arguments):
        return None
    numbers = [int(argument) for argument in arguments]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) == 3 else 1
    last = numbers[-1]
    if step == 0 or abs(last - first) // abs(step) > 2000:
        return None
    return "\n".join(str(number) for number in range(first, last + (1 if step > 0 else -1), step))


_PURE = {"dirname": _dirname, "basename": _basename, "realpath": _realpath, "readlink": _realpath, "seq": _seq}


def follow_script(shell: Shell, words: list[Argument]) -> bool:
    """Read a script that the command starts, in a shell of its own; False when the command starts none that exists."""
    found = _script_word(words)
    if found is None:
        return False
    place, through_shell = found
    path = find_file(shell, words[place].text)
    if path is None or not (through_shell or _is_shell_script(path)):
        return False
    shell.note("delegated", {"word": brief(words[place].text), "line": str(shell.here().line)})
    text = read_script_text(path)
    if text is None or len(shell.sources) > _MAX_SOURCED:
        return False
    arguments = [Value(word.text, word.unknown) for word in words[place + 1 :]]

    def body() -> None:
        state = shell.state
        state.variables = {
            name: cell for name, cell in state.variables.items() if cell.exported and not isinstance(cell.content, dict)
        }
        state.functions, state.options, state.positional = {}, frozenset(), arguments
        state.positional_unsure = next((value.unknown for value in arguments if not value.text.strip(UNKNOWN)), "")
        outer, shell.script = shell.script, words[place].text
        exempt, shell.exempt = shell.exempt, 0
        frames, shell.assigner.frames = shell.assigner.frames, []
        shell.sources.append(words[place].text)
        try:
            shell.read(Unit(text, file=path))
        finally:
            shell.sources.pop()
            shell.script, shell.exempt, shell.assigner.frames = outer, exempt, frames
        if state.status is not True:
            shell.state.status = None

    shell.subshell(body, captures=False)
    if shell.state.status is not True:
        shell.state.status = None
    return True


def _script_word(words: list[Argument]) -> tuple[int, bool] | None:
    """The word that names a script, and whether a shell is told to run it."""
    texts = [word.text for word in words]
    place = 0
    while place < len(texts) and texts[place].rsplit("/", 1)[-1] in _IN_FRONT:
        name, place = texts[place], place + 1
        while place < len(texts) and (texts[place].startswith("-") or (name == "env" and "=" in texts[place])):
            place += 1
        if name == "timeout":
            place += 1
    if place >= len(texts):
        return None
    if texts[place].rsplit("/", 1)[-1] not in _SHELLS:
        return (place, False) if "/" in texts[place] and UNKNOWN not in texts[place] else None
    place += 1
    while place < len(texts) and texts[place][:1] in ("-", "+"):
        if not texts[place].startswith("--") and "c" in texts[place]:
            return None
        place += 2 if texts[place] in ("-o", "-O", "--rcfile", "--init-file") else 1
    return (place, True) if place < len(texts) and UNKNOWN not in texts[place] else None


def find_file(shell: Shell, name: str) -> str | None:
    """The path of an existing file, None when there is none or its directory is not known."""
    if UNKNOWN in name or (not name.startswith("/") and (UNKNOWN in shell.state.directory or not shell.state.directory)):
        return None
    path = absolute(name, shell.state.directory) if not name.startswith("/") else name
    return path if os.path.isfile(path) else None


def _is_shell_script(path: str) -> bool:
    if path.endswith((".sh", ".bash", ".slurm", ".sbatch")):
        return True
    try:
        with open(path, "rb") as file:
            return re.match(rb"#!\s*\S*(?:/env\s+)?(ba|da|z|k)?sh\b", file.read(80)) is not None
    except OSError:
        return False


def read_script_text(path: str) -> str | None:
    """The text of a script that another names, None when it cannot be read or is too large."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError:
        return None
    return None if len(content) > MAX_SCRIPT_BYTES else decode(content)


def decode(content: bytes) -> str:
    """The text of a script. A byte that is not UTF-8 becomes a part that is not known, as does the marker of such parts."""
    text = content.decode("utf-8", "replace")
    return text.replace("\ufffd", UNKNOWN).removeprefix("\ufeff").replace("\0", "")


def follow_source(shell: Shell, words: list[Argument]) -> None:
    """`source file arguments`: read the file in the present shell."""
    if len(words) < 2:
        shell.state.status = None
        return
    name = words[1].text
    path = find_file(shell, name)
    text = read_script_text(path) if path else None
    if path is None or text is None or len(shell.sources) > _MAX_SOURCED:
        shell.note("undecidable", {"word": brief(f"source {name}"), "line": str(shell.here().line)})
        shell.state.unseen = f"{brief(name)} is sourced and could not be read"
        shell.state.status = None
        return
    positional = shell.state.positional
    if len(words) > 2:
        shell.state.positional = [Value(word.text, word.unknown) for word in words[2:]]
    parked, shell.parked = shell.parked, []
    shell.sources.append(name)
    line = shell.here().line or 1
    try:
        shell.read(Unit(text, file=path))
    finally:
        shell.sources.pop()
    ends = [shell.state, *(end for end in shell.parked if end.stopped == "return")]
    shell.parked = parked + [end for end in shell.parked if end.stopped != "return"]
    for end in ends:
        if end.stopped == "return":
            end.stopped = ""
    shell.join(ends, line)
    if len(words) > 2:
        shell.state.positional = positional
