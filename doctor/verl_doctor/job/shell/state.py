"""What a shell knows at one line: variables, positional parameters, directory, options; and how two branches are merged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Union

from verl_doctor.job.model import UNKNOWN, Variable
from verl_doctor.report import Location


class Value(NamedTuple):
    """A text, in which `UNKNOWN` stands for parts that cannot be known; `unknown` says why."""

    text: str
    unknown: str = ""

    @property
    def known(self) -> bool:
        """Whether all of the text is known."""
        return UNKNOWN not in self.text


def unknown(reason: str) -> Value:
    """A value of which nothing is known."""
    return Value(UNKNOWN, reason)


Content = Union[Value, dict[str, Value], dict[int, Value]]


@dataclass(frozen=True)
class Cell:
    """A variable. `content` is None when it is declared but not set, a dict for an array (keys are text when `associative`).

    `unsure` says why the array may have more or fewer elements, or why the variable may be unset. `inherited` is the
    variable of the environment that it still is.
    """

    content: Value | dict[int, Value] | dict[str, Value] | None
    exported: bool = False
    location: Location | None = None
    associative: bool = False
    integer: bool = False
    case: str = ""
    readonly: bool = False
    unsure: str = ""
    inherited: Variable | None = None

    @property
    def scalar(self) -> Value | None:
        """The value that `$name` gives: of an array the element 0."""
        if isinstance(self.content, Value) or self.content is None:
            return self.content
        if self.unsure:
            return unknown(self.unsure)
        return self.content.get("0" if self.associative else 0)  # type: ignore[call-overload,no-any-return]


@dataclass
class State:
    """A state of the shell. `stopped` is `exit`, `return`, `break` or `continue` while statements are skipped; `levels` how far.

    `status` is whether the last command succeeded, None when that cannot be known. `output` is what was printed inside a
    command substitution. `unseen` says why any variable may have been set or changed.
    """

    variables: dict[str, Cell]
    positional: list[Value]
    directory: str
    functions: dict[str, object] = field(default_factory=dict)
    options: frozenset[str] = frozenset()
    status: bool | None = True
    output: Value | None = None
    stopped: str = ""
    levels: int = 0
    unseen: str = ""
    positional_unsure: str = ""

    def copy(self) -> State:
        """A state of its own."""
        return replace(
            self, variables=dict(self.variables), positional=list(self.positional), functions=dict(self.functions)
        )


def merge(left: State, right: State, reason: str) -> State:
    """The state after one of two branches, of which it is not known which one ran. Both must be running, or both stopped."""
    merged = left.copy()
    for name in left.variables.keys() | right.variables.keys():
        merged.variables[name] = _merge_cells(left.variables.get(name), right.variables.get(name), reason)
    if left.positional != right.positional or left.positional_unsure != right.positional_unsure:
        merged.positional, merged.positional_unsure = [unknown(reason)], reason
    if left.directory != right.directory:
        merged.directory = UNKNOWN
    merged.functions = {name: body for name, body in left.functions.items() if right.functions.get(name) is body}
    for name in (left.functions.keys() | right.functions.keys()) - merged.functions.keys():
        merged.functions[name] = None
    merged.options = left.options & right.options
    merged.status = left.status if left.status == right.status else None
    merged.unseen = left.unseen or right.unseen
    if left.output is not None and right.output is not None and left.output != right.output:
        merged.output = _merge_output(left.output, right.output, reason)
    return merged


def _merge_output(left: Value, right: Value, reason: str) -> Value:
    common = 0
    while common < min(len(left.text), len(right.text)) and left.text[common] == right.text[common]:
        common += 1
    return Value(left.text[:common] + UNKNOWN, left.unknown or reason)


def _merge_cells(left: Cell | None, right: Cell | None, reason: str) -> Cell:
    if left == right and left is not None:
        return left
    if left is None or right is None:
        present = left or right
        assert present is not None
        if isinstance(present.content, dict):
            empty: dict[int, Value] | dict[str, Value] = {}
            return _merge_arrays(present, replace(present, content=empty), reason)
        return replace(present, content=unknown(reason), unsure=present.unsure or reason, inherited=None)
    exported = left.exported or right.exported
    unsure = left.unsure or right.unsure
    if left.exported != right.exported:
        return Cell(unknown(reason), exported=True, location=right.location or left.location, unsure=unsure or reason)
    if isinstance(left.content, dict) and isinstance(right.content, dict):
        return _merge_arrays(left, right, reason)
    if left.content == right.content:
        return replace(left, unsure=unsure, inherited=left.inherited if left.inherited is right.inherited else None)
    known_set = left.content is not None and right.content is not None
    return Cell(
        unknown(reason), exported, right.location or left.location, unsure=unsure or ("" if known_set else reason)
    )


def _merge_arrays(left: Cell, right: Cell, reason: str) -> Cell:
    assert isinstance(left.content, dict)
    assert isinstance(right.content, dict)
    if left.content == right.content:
        return replace(left, unsure=left.unsure or right.unsure)
    if left.associative or right.associative or left.unsure or right.unsure:
        if left.associative != right.associative or left.content.keys() != right.content.keys():
            return replace(left, content={0: unknown(reason)}, associative=False, unsure=reason)
    first, second = list(left.content.values()), list(right.content.values())
    if left.content.keys() == right.content.keys():
        pairs = zip(left.content.items(), second)
        same = {key: one if one == other else _either(one, other, reason) for (key, one), other in pairs}
        return replace(left, content=same, unsure=left.unsure or right.unsure)  # type: ignore[arg-type]
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    words = first[:common] + _perhaps(first[common:] + second[common:], reason)
    return replace(left, content=dict(enumerate(words)), unsure=reason)


def _either(one: Value, other: Value, reason: str) -> Value:
    """One of two words: when both set the same key, only its value is unknown."""
    key, equals, _ = one.text.partition("=")
    if equals and UNKNOWN not in key and other.text.startswith(key + "="):
        return Value(key + "=" + UNKNOWN, reason)
    return unknown(reason)


def _perhaps(words: list[Value], reason: str) -> list[Value]:
    """Words that may be there or not. Of `key=value` the key stays, so that it is clear which settings are not known."""
    kept: dict[str, Value] = {}
    for word in words:
        key, equals, _ = word.text.partition("=")
        if not equals or UNKNOWN in key or key.startswith("-"):
            return [unknown(reason)]
        kept[key] = Value(key + "=" + UNKNOWN, reason)
    return list(kept.values())
