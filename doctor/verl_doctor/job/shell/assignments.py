"""Setting variables: plain ones, arrays, attributes, and the local ones of functions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell import operators
from verl_doctor.job.shell.lexer import cut
from verl_doctor.job.shell.splitting import Piece, joined
from verl_doctor.job.shell.state import CHARACTERS_A_STEP, Array, Cell, Value, unknown
from verl_doctor.report import Location

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell

_MAX_ELEMENTS = 4_000
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[((?:[^\[\]]|\[[^\]]*\])*)\])?(\+?)=")


def is_assignment(raw: str) -> bool:
    """Whether a raw word is `name=...`, `name+=...` or `name[...]=...`."""
    return _ASSIGNMENT.match(raw) is not None


class Assigner:
    """Sets variables in the present state of a shell. `frames` hold what `local` hid, one for each function that runs."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.frames: list[dict[str, Cell | None]] = []

    def assign(self, raw: str, location: Location, *, associative: bool = False) -> str:
        """Carry out an assignment as written; the result is the name."""
        match = _ASSIGNMENT.match(raw)
        assert match is not None
        name, index, plus = match[1], match[2], bool(match[3])
        rest = raw[match.end() :]
        if rest.startswith("(") and rest.endswith(")") and index is None:
            self._array(name, rest[1:-1], location, plus=plus, associative=associative)
        elif index is not None:
            self._element(name, index, self.shell.expander.text(rest, assignment=True), location, plus=plus)
        else:
            self.shell.unset_names = set()
            value = self.shell.expander.text(rest, assignment=True)
            self.note_empty(name, value)
            self.put(name, value, location, plus=plus)
        return name

    def note_empty(self, name: str, value: Value) -> None:
        """Remember that a variable is empty because others are not set."""
        if not value.text and self.shell.unset_names:
            self.shell.empty_sources[name] = set(self.shell.unset_names)
        else:
            self.shell.empty_sources.pop(name, None)
            self.shell.remember_empty(value)

    def put_named(self, left: str, value: Value, location: Location) -> None:
        """Set what stands left of the `=`: `name`, `name+` or `name[index]`."""
        match = _ASSIGNMENT.match(left + "=")
        if match is None:
            return
        if match[2] is not None:
            self._element(match[1], match[2], value, location, plus=bool(match[3]))
        else:
            self.put(match[1], value, location, plus=bool(match[3]))

    def put(self, name: str, value: Value, location: Location, *, plus: bool = False) -> None:
        """Set a variable to a text, or append to it."""
        self.shell.spend(len(value.text) // CHARACTERS_A_STEP)
        variables = self.shell.state.variables
        cell = variables.get(name, Cell(None))
        if cell.readonly:
            return
        value = self._shaped(cell, value, plus=plus)
        if isinstance(cell.content, dict):
            first: int | str = "0" if cell.associative else 0
            content: Array = {**cell.content, first: value}
            variables[name] = replace(cell, content=content, inherited=None, alternatives=(), location=location)
            return
        unsure = cell.unsure if plus and cell.unsure and not value.known else ""
        exported = cell.exported or "a" in self.shell.state.options
        variables[name] = replace(
            cell, content=value, inherited=None, alternatives=(), location=location, unsure=unsure, exported=exported
        )

    def _shaped(self, cell: Cell, value: Value, *, plus: bool) -> Value:
        before = cell.scalar or Value("")
        if cell.integer:
            text = f"{before.text or 0}+({value.text or 0})" if plus else value.text
            if not before.known and plus:
                return before
            return self.shell.expander.number(text) if value.known else value
        if plus:
            value = joined([Piece(before, True), Piece(value, True)])
        return operators.change_case(value, cell.case) if cell.case else value

    def _array(self, name: str, text: str, location: Location, *, plus: bool, associative: bool) -> None:
        variables = self.shell.state.variables
        cell = variables.get(name, Cell(None))
        if cell.readonly:
            return
        associative = associative or cell.associative
        content: Array = {}
        unsure = ""
        if plus:
            content = dict(cell.content) if isinstance(cell.content, dict) else {}
            if isinstance(cell.content, Value):
                content = {0: cell.content}
            unsure = cell.unsure
        unsure = self._associative(text, content, unsure) if associative else self._indexed(text, content, unsure, location)
        variables[name] = replace(
            cell,
            content=content,
            inherited=None,
            alternatives=(),
            location=location,
            unsure=unsure,
            associative=associative,
        )

    def _indexed(self, text: str, content: Array, unsure: str, location: Location) -> str:
        place = _next_place(content)
        for raw, line in self._raw_words(text, location.line or 1):
            match = re.match(r"\[([^\]]+)\](\+?)=", raw)
            if match:
                index = self.shell.expander.number(match[1])
                if not index.known:
                    return index.unknown
                place = int(index.text)
                content[place] = self.shell.expander.text(raw[match.end() :], assignment=True)
                place += 1
                continue
            self.shell.unset_names = set()
            values = self.shell.expander.fields(raw)
            if len(content) + len(values) > _MAX_ELEMENTS:
                return unsure or "the array is too long to be followed"
            for value in values:
                self.shell.remember_empty(value)
                self.shell.element_places[value.text] = Location(location.file, line)
                if not value.known and not value.text.strip(UNKNOWN):
                    unsure = unsure or ("" if _is_quoted(raw) else value.unknown)
                content[place] = value
                place += 1
        return unsure

    def _associative(self, text: str, content: Array, unsure: str) -> str:
        for raw, _ in self._raw_words(text, 1):
            match = re.match(r"\[(.+?)\](\+?)=", raw)
            if match is None:
                return operators.NOT_FOLLOWED
            key = self.shell.expander.text(match[1])
            if not key.known:
                return key.unknown
            content[key.text] = self.shell.expander.text(raw[match.end() :], assignment=True)
        return unsure

    @staticmethod
    def _raw_words(text: str, first_line: int) -> list[tuple[str, int]]:
        """The words of a list as written, each with its line."""
        tokens = [token for token in cut(text).tokens if token.kind in ("word", "keyword")]
        return [(text[token.start : token.end], first_line + text.count("\n", 0, token.start)) for token in tokens]

    def _element(self, name: str, index: str, value: Value, location: Location, *, plus: bool) -> None:
        variables = self.shell.state.variables
        cell = variables.get(name, Cell(None))
        if cell.readonly:
            return
        content: Array = {}
        if isinstance(cell.content, dict):
            content = dict(cell.content)
        elif isinstance(cell.content, Value):
            content = {0: cell.content}
        text = self.shell.expander.text(index) if cell.associative else self.shell.expander.number(index)
        if not text.known:
            variables[name] = replace(cell, content={0: unknown(text.unknown)}, unsure=text.unknown, inherited=None)
            return
        key: int | str = text.text if cell.associative else int(text.text)
        if isinstance(key, int) and key < 0:
            key += _next_place(content)
        before = content.get(key, Value(""))
        content[key] = Value(before.text + value.text, before.unknown or value.unknown) if plus else value
        variables[name] = replace(cell, content=content, inherited=None, alternatives=(), location=location)

    def make_local(self, name: str) -> None:
        """Hide a variable until the function ends."""
        if self.frames and name not in self.frames[-1]:
            before = self.shell.state.variables.get(name)
            self.frames[-1][name] = before
            exported = before is not None and before.exported
            self.shell.state.variables[name] = Cell(None, exported, self.shell.here())

    def leave_function(self) -> None:
        """Bring back what `local` hid."""
        for name, cell in self.frames.pop().items():
            if cell is None:
                self.shell.state.variables.pop(name, None)
            else:
                self.shell.state.variables[name] = cell

    def update(self, name: str, **changes: Any) -> None:
        """Change attributes of a variable, which need not be set."""
        cell = self.shell.state.variables.get(name, Cell(None, location=self.shell.here()))
        self.shell.state.variables[name] = replace(cell, **changes)


def _next_place(content: Array) -> int:
    """The index behind the last element."""
    return max((key for key in content if isinstance(key, int)), default=-1) + 1


def _is_quoted(raw: str) -> bool:
    return raw.startswith('"') and raw.endswith('"') and "@" not in raw
