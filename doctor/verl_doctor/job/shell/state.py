"""What a shell knows at one line: variables, positional parameters, directory, options; and how two branches are merged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from verl_doctor.job.model import UNKNOWN, Variable
from verl_doctor.report import Location

if TYPE_CHECKING:
    from verl_doctor.job.shell.syntax import Statement
    from verl_doctor.job.shell.unit import Unit


CHARACTERS_A_STEP = 50
"""So many characters that are read or kept count as one step of the budget."""


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


_MAX_ALTERNATIVES = 4


Array = dict[int | str, Value]


@dataclass(frozen=True)
class Cell:
    """A variable. `content` is None when it is declared but not set; the keys of an array are text when it is `associative`.

    `unsure` says why the array may have more or fewer elements, or why the variable may be unset. `inherited` is the
    variable of the environment that it still is. `alternatives` are the arrays that it may be, each with its condition.
    """

    content: Value | Array | None
    exported: bool = False
    location: Location | None = None
    associative: bool = False
    integer: bool = False
    case: str = ""
    readonly: bool = False
    unsure: str = ""
    inherited: Variable | None = None
    alternatives: tuple[tuple[str, Array], ...] = ()

    @property
    def scalar(self) -> Value | None:
        """The value that `$name` gives: of an array the element 0."""
        if isinstance(self.content, Value) or self.content is None:
            return self.content
        if self.unsure:
            return unknown(self.unsure)
        return self.content.get("0" if self.associative else 0)


class Function(NamedTuple):
    """A function of the script, with the text that it stands in."""

    unit: Unit
    body: Statement


@dataclass
class State:
    """A state of the shell.

    `stopped` is `exit`, `return`, `break` or `continue` while statements are skipped, and `levels` how many loops are left.
    `status` is whether the last command succeeded, None when that cannot be known. `output` is what was printed inside a
    command substitution. `functions` are None where it is not known which one it is. `unseen` says why any variable may have
    been set or changed.
    """

    variables: dict[str, Cell]
    positional: list[Value]
    directory: str
    functions: dict[str, Function | None] = field(default_factory=dict)
    options: frozenset[str] = frozenset()
    status: bool | None = True
    output: Value | None = None
    stopped: str = ""
    levels: int = 0
    unseen: str = ""
    positional_unsure: str = ""
    stack: tuple[str, ...] = ()

    def copy(self) -> State:
        """A state of its own."""
        return replace(self, variables=dict(self.variables), positional=list(self.positional), functions=dict(self.functions))


class Reason(NamedTuple):
    """Why values are not known after a merge, and the conditions of the two sides."""

    text: str
    left: str = ""
    right: str = ""


def merge(left: State, right: State, why: Reason) -> State:
    """The state after one of two branches, of which it is not known which one ran. Both must be running, or both stopped."""
    merged, reason = left.copy(), why.text
    for name in left.variables.keys() | right.variables.keys():
        merged.variables[name] = _merge_cells(left.variables.get(name), right.variables.get(name), why)
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


def _merge_cells(left: Cell | None, right: Cell | None, why: Reason) -> Cell:
    if left is not None and (left is right or left == right):
        return left
    reason = why.text
    if left is None or right is None:
        present = left or right
        assert present is not None
        if present.content is None:
            return present
        if isinstance(present.content, dict):
            empty: Array = {}
            return _merge_arrays(present, replace(present, content=empty), Reason(reason))
        return replace(present, content=unknown(reason), unsure=present.unsure or reason, inherited=None)
    exported = left.exported or right.exported
    unsure = left.unsure or right.unsure
    if left.exported != right.exported:
        return Cell(unknown(reason), exported=True, location=right.location or left.location, unsure=unsure or reason)
    if isinstance(left.content, dict) and isinstance(right.content, dict):
        return _merge_arrays(left, right, why)
    if left.content == right.content:
        return replace(left, unsure=unsure, inherited=left.inherited if left.inherited is right.inherited else None)
    known_set = left.content is not None and right.content is not None
    return Cell(unknown(reason), exported, right.location or left.location, unsure=unsure or ("" if known_set else reason))


def _merge_arrays(left: Cell, right: Cell, why: Reason) -> Cell:
    assert isinstance(left.content, dict)
    assert isinstance(right.content, dict)
    reason, unsure = why.text, left.unsure or right.unsure
    if left.content == right.content:
        return replace(left, unsure=unsure, inherited=None, alternatives=())
    if left.associative or right.associative:
        return replace(left, content={0: unknown(reason)}, associative=False, unsure=reason)
    first, second = list(left.content.values()), list(right.content.values())
    cell = replace(left, inherited=None, alternatives=_alternatives(left, right, why))
    if left.content.keys() == right.content.keys():
        pairs = zip(left.content.items(), second, strict=True)
        same = {key: one if one == other else _either(one, other, reason) for (key, one), other in pairs}
        return replace(cell, content=same, unsure=unsure)
    start = _common(first, second)
    end = _common(first[start:][::-1], second[start:][::-1])
    middle = first[start : len(first) - end] + second[start : len(second) - end]
    words = first[:start] + _perhaps(middle, reason) + first[len(first) - end :]
    return replace(cell, content=dict(enumerate(words)), unsure=unsure or reason)


def _alternatives(left: Cell, right: Cell, why: Reason) -> tuple[tuple[str, Array], ...]:
    if not (why.left and why.right):
        return ()
    found: list[tuple[str, Array]] = []
    for cell, label in ((left, why.left), (right, why.right)):
        for condition, content in cell.alternatives or (("", cell.content),):
            if isinstance(content, dict) and all(content != other for _, other in found):
                found.append((" and ".join(text for text in (label, condition) if text), content))
    return tuple(found) if len(found) <= _MAX_ALTERNATIVES else ()


def _common(first: list[Value], second: list[Value]) -> int:
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length


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
