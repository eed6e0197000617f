"""The value of a parameter before its operator: variables, arrays, positional and special parameters."""

from __future__ import annotations

import re
from typing import NamedTuple

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell.state import Cell, State, Value, unknown

_SCHEDULER = re.compile(
    r"(SLURM|SLURMD|SBATCH|PMI|PMIX|OMPI|MPI|PBS|LSB|LSF|SGE|TORCHELASTIC|SKYPILOT|DSTACK|MLP|PAI|VC|VK|ARNOLD|KUBERNETES|RUNPOD)_\w+"
    r"|(LOCAL_|NODE_|GROUP_|ROLE_)?RANK|(LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|(MASTER|HEAD_NODE|CHIEF|COORDINATOR)_(ADDR|PORT|IP)"
    r"|PET_\w+|NODELIST|JOB_ID|HOSTFILE|NODE_COUNT|NODEID"
)
_SHELL_OWN = frozenset((
    "RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "BASHPID", "PPID", "UID", "EUID", "HOSTNAME", "OSTYPE",
    "MACHTYPE", "HOSTTYPE", "BASH_VERSION", "BASH_VERSINFO", "BASH", "OLDPWD", "PATH", "SHLVL", "SHELL", "TERM", "PIPESTATUS",
    "GROUPS", "DIRSTACK", "LINENO", "BASH_LINENO", "FUNCNAME", "BASH_COMMAND", "BASH_SUBSHELL", "COLUMNS", "LINES", "REPLY",
    "BASH_REMATCH", "BASHOPTS", "SHELLOPTS", "_", "!", "$", "BASH_ARGV0", "COMP_WORDBREAKS", "PS4",
))  # fmt: skip


class Looked(NamedTuple):
    """A value, None when it is not set; `unsure` says why it may be unset all the same."""

    value: Value | None
    unsure: str = ""


class Elements(NamedTuple):
    """The elements of `name[@]` or of `$@`; `unsure` says why there may be more or fewer."""

    values: list[Value]
    unsure: str = ""


def implicit(name: str, state: State) -> Looked:
    """A variable that no command and no environment has set."""
    if name == "PWD":
        return Looked(directory_value(state))
    if name == "IFS":
        return Looked(Value(" \t\n"))
    if name == "OPTIND":
        return Looked(Value("1"))
    if name in _SHELL_OWN:
        return Looked(unknown(f"${name} is only known when the script runs"))
    if state.unseen:
        return Looked(unknown(state.unseen), state.unseen)
    if _SCHEDULER.fullmatch(name):
        reason = f"${name} is set by the scheduler"
        return Looked(unknown(reason), reason)
    return Looked(None)


def directory_value(state: State) -> Value:
    """The working directory."""
    if not state.directory or UNKNOWN in state.directory:
        return unknown("the working directory is not known")
    return Value(state.directory)


def special(name: str, state: State, script: str) -> Looked:
    """`$0`, `$1`, `$#`, `$?`, `$-` and the like."""
    if name == "0":
        return Looked(Value(script))
    if name.isdigit():
        if state.positional_unsure:
            return Looked(unknown(state.positional_unsure), state.positional_unsure)
        place = int(name) - 1
        return Looked(state.positional[place] if place < len(state.positional) else None)
    if name == "#":
        if state.positional_unsure:
            return Looked(unknown(state.positional_unsure))
        return Looked(Value(str(len(state.positional))))
    if name == "?":
        return Looked(Value("0") if state.status else unknown("the exit status of a command is only known when it runs"))
    if name == "-":
        letters = "".join(letter for letter in "efhuvxB" if letter in "hB" or letter in state.options)
        return Looked(Value(letters))
    return Looked(unknown(f"${name} is only known when the script runs"))


def scalar(name: str, state: State, script: str, sources: list[str]) -> Looked:
    """The value of `$name`."""
    if not (name[:1].isalpha() or name[:1] == "_") or name == "_":
        return special(name, state, script)
    if name == "BASH_SOURCE":
        return Looked(Value(sources[-1]))
    cell = state.variables.get(name)
    if cell is None:
        return implicit(name, state)
    return Looked(cell.scalar, cell.unsure)


def elements(name: str, state: State, sources: list[str]) -> Elements:
    """The elements of an array; a plain variable is an array of one."""
    if name in ("@", "*"):
        return Elements(state.positional, state.positional_unsure)
    if name == "BASH_SOURCE":
        return Elements([Value(source) for source in reversed(sources)])
    cell = state.variables.get(name)
    if cell is None:
        looked = implicit(name, state)
        return Elements([looked.value] if looked.value else [], looked.unsure)
    if isinstance(cell.content, dict):
        values = [cell.content[key] for key in in_order(cell)]
        if cell.associative and len(values) > 1:
            return Elements([unknown(f"the order of {name} is not known")], f"the order of {name} is not known")
        return Elements(values, cell.unsure)
    return Elements([cell.content] if cell.content is not None else [], cell.unsure)


def in_order(cell: Cell) -> list[int | str]:
    """The keys of an array, in the order in which bash goes through them (of an associative one that is not known)."""
    keys = cell.content if isinstance(cell.content, dict) else {}
    return sorted(keys, key=lambda key: (key if isinstance(key, int) else 0, str(key)))


def element(cell: Cell | None, key: int | str) -> Looked:
    """One element of an array variable."""
    if isinstance(key, int) and key < 0 and (cell is None or not cell.content):
        return Looked(unknown("a negative index of an empty array"))
    if cell is None:
        return Looked(None)
    if cell.unsure:
        return Looked(unknown(cell.unsure), cell.unsure)
    if isinstance(cell.content, dict):
        if isinstance(key, int) and key < 0:
            key += max((number for number in cell.content if isinstance(number, int)), default=-1) + 1
        return Looked(cell.content.get(key))
    return Looked(cell.content if key in (0, -1, "0") else None)
