"""What a shell knows at one moment: variables, functions, options, directory. One `State` is one way a script may have gone."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from verl_doctor.job.model import UNKNOWN, Source, Variable
from verl_doctor.job.script.shell_text import ShellText
from verl_doctor.job.script.syntax import Node
from verl_doctor.report import Location

_SCHEDULER = re.compile(
    r"(SLURM_\w+|PBS_\w+|LSB_\w+|SGE_\w+|JOB_COMPLETION_INDEX|SKYPILOT_\w+|DSTACK_\w+|KUBERNETES_\w+|VC_\w+|MLP_\w+|PET_\w+|OMPI_\w+|PMI_\w+"
    r"|(LOCAL_|NODE_|GROUP_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_ADDR|MASTER_PORT)\Z"
)
_DYNAMIC = {
    "RANDOM": "a random number",
    "SRANDOM": "a random number",
    "SECONDS": "the seconds since the start of the script",
    "EPOCHSECONDS": "the time",
    "EPOCHREALTIME": "the time",
    "BASHPID": "a process number",
    "PPID": "a process number",
    "HOSTNAME": "the name of the machine",
    "HOSTTYPE": "the kind of machine",
    "MACHTYPE": "the kind of machine",
    "OSTYPE": "the operating system",
    "UID": "the number of the user",
    "EUID": "the number of the user",
    "BASH_VERSION": "the version of bash",
    "COLUMNS": "the size of the terminal",
    "LINES": "the size of the terminal",
    "_": "the last word of the command before",
}


class Value(NamedTuple):
    """A text. Parts that are not known are `UNKNOWN` and `reason` says why; `unset` names variables that gave nothing."""

    text: str
    reason: str = ""
    place: Location | None = None
    unset: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether all of the text is known."""
        return UNKNOWN not in self.text


def unknown(reason: str, place: Location | None = None) -> Value:
    """A text of which nothing is known."""
    return Value(UNKNOWN, reason, place)


@dataclass(frozen=True, slots=True)
class Var:
    """A variable of the shell. `value` is a text, the elements of an array (by index or by key), or None before it is set."""

    value: Value | dict[int, Value] | dict[str, Value] | None = None
    exported: bool = False
    readonly: bool = False
    integer: bool = False
    case: str = ""
    is_map: bool = False
    is_reference: bool = False
    inherited: Variable | None = None
    place: Location | None = None

    def with_value(self, value: Value | dict[int, Value] | dict[str, Value] | None, place: Location | None) -> Var:
        """The variable with another value, its attributes kept."""
        return dataclasses.replace(self, value=value, place=place, inherited=None)


@dataclass(frozen=True, slots=True)
class Function:
    """A function and the text that it stands in."""

    body: Node
    source: ShellText


@dataclass(frozen=True, slots=True)
class Decision:
    """One way that something undecidable went: `outcome` of `outcomes` at one place."""

    place: tuple[str, int, int]
    outcome: int
    outcomes: int
    text: str


class Flow(NamedTuple):
    """Why the next command is not reached: `break`, `continue` (with a count), `return` or `exit`."""

    kind: str
    count: int = 1


@dataclass(slots=True, eq=False)
class State:
    """One way a script may have gone so far. `status` is None when it is not known."""

    variables: dict[str, Var] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    positional: list[Value] = field(default_factory=list)
    name: Value = Value("bash")
    directory: str | None = None
    directory_reason: str = ""
    options: frozenset[str] = frozenset()
    status: int | None = 0
    flow: Flow | None = None
    frames: list[dict[str, Var | None]] = field(default_factory=list)
    calls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unseen: str = ""
    decisions: tuple[Decision, ...] = ()
    decided: dict[str, tuple[tuple[Var | None, ...], bool]] = field(default_factory=dict)
    output: tuple[Value, ...] | None = None
    stdin: Value | None = None
    late_exports: tuple[tuple[str, Location | None], ...] | None = None

    def copy(self) -> State:
        """A state that can go its own way."""
        return State(
            dict(self.variables),
            dict(self.functions),
            list(self.positional),
            self.name,
            self.directory,
            self.directory_reason,
            self.options,
            self.status,
            self.flow,
            [dict(frame) for frame in self.frames],
            self.calls,
            self.files,
            self.unseen,
            self.decisions,
            dict(self.decided),
            self.output,
            self.stdin,
            self.late_exports,
        )

    def same(self, other: State) -> bool:
        """Whether both go on alike, whatever decided between them and whatever status they have."""
        return (
            self.flow == other.flow
            and self.directory == other.directory
            and self.options == other.options
            and self.output == other.output
            and self.unseen == other.unseen
            and self.late_exports == other.late_exports
            and self.variables == other.variables
            and self.positional == other.positional
            and self.functions == other.functions
            and self.frames == other.frames
        )

    def get(self, name: str) -> Var | None:
        """The variable, None when it is certainly not set; special ones and those of a scheduler are unknown."""
        var = self.variables.get(name)
        if var is not None:
            return var
        if name == "PWD":
            return Var(self.directory_value())
        if name in _DYNAMIC:
            return Var(unknown(f"${name} is {_DYNAMIC[name]}"))
        if _SCHEDULER.match(name):
            return Var(unknown(f"${name} is set by the scheduler or the launcher"))
        if self.unseen:
            return Var(unknown(f"${name} may be set, because {self.unseen}"))
        return None

    def directory_value(self) -> Value:
        """The working directory as a text."""
        return unknown(self.directory_reason or "the directory is not known") if self.directory is None else Value(self.directory)

    def has(self, option: str) -> bool:
        """Whether an option of `set` or `shopt` is on."""
        return option in self.options

    def assign(self, name: str, value: Value | dict[int, Value] | dict[str, Value] | None, place: Location | None) -> None:
        """Give a variable a value; a variable that is read-only keeps its own."""
        var = self.variables.get(name)
        if var is None:
            exported = self.has("allexport")
            inherited = _SCHEDULER.match(name) is not None
            self.variables[name] = Var(value, exported=exported or inherited and False, place=place)
        elif not var.readonly:
            self.variables[name] = var.with_value(_converted(var, value), place)
        if self.has("allexport") and not self.variables[name].exported:
            self.variables[name] = dataclasses.replace(self.variables[name], exported=True)

    def unset(self, name: str) -> None:
        """Forget a variable."""
        var = self.variables.get(name)
        if var is not None and not var.readonly:
            del self.variables[name]

    def text(self, name: str, default: str = "") -> str:
        """The text of a plain variable, `default` when it is not set."""
        var = self.variables.get(name)
        return var.value.text if var is not None and isinstance(var.value, Value) else default

    def exports(self) -> dict[str, Variable]:
        """The variables that a command gets."""
        found: dict[str, Variable] = {}
        for name, var in self.variables.items():
            if not var.exported or var.value is None:
                continue
            if var.inherited is not None:
                found[name] = var.inherited
            elif isinstance(var.value, Value):
                found[name] = script_variable(name, var.value, var.place)
        return found


def _converted(var: Var, value: Value | dict[int, Value] | dict[str, Value] | None) -> Value | dict[int, Value] | dict[str, Value] | None:
    """The value as the attributes of the variable make it, and kept as element 0 of an array."""
    if isinstance(value, Value):
        if var.case:
            value = value._replace(text=value.text.upper() if var.case == "upper" else value.text.lower())
        if isinstance(var.value, dict) and not var.is_map:
            return {**var.value, 0: value}  # type: ignore[dict-item]
    return value


def script_variable(name: str, value: Value, place: Location | None) -> Variable:
    """A variable that the script sets, as it may be kept."""
    from verl_doctor.job.variables import make_variable

    reason = "" if value.known else value.reason or "it is not known"
    return make_variable(name, value.text, Source("script", "launch script", place or value.place), reason)
