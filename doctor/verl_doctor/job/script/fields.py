"""Collects what the parts of a word expand to, and splits it into fields at IFS (POSIX 2.6.5, as bash does it)."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from verl_doctor.job.script.patterns import escape
from verl_doctor.job.script.state import Value
from verl_doctor.report import Location

_GLOB = re.compile(r"[*?\[]|[?*+@!]\(")


@dataclass(slots=True)
class Field:
    """One word in the making: pieces of text, each quoted or not."""

    pieces: list[tuple[str, bool]] = field(default_factory=list)
    present: bool = False
    reason: str = ""
    unset: tuple[str, ...] = ()
    place: Location | None = None

    def value(self, place: Location | None) -> Value:
        """The text with quotes removed."""
        return Value("".join(text for text, _ in self.pieces), self.reason, self.place or place, self.unset)

    @property
    def has_glob(self) -> bool:
        """Whether an unquoted piece holds a character of a pattern."""
        return any(not quoted and _GLOB.search(text) for text, quoted in self.pieces)

    @property
    def pattern(self) -> str:
        """The pattern that the pieces make."""
        return "".join(escape(text) if quoted else text for text, quoted in self.pieces)


class Fields:
    """Takes pieces of text in their order; `done` are the finished fields."""

    def __init__(self, separators: str, *, splitting: bool) -> None:
        self.separators = separators if splitting else ""
        self.splitting = splitting
        self.done: list[Field] = []
        self.current = Field()
        self._after_blank = False

    def add(self, text: str, *, quoted: bool) -> None:
        """Text that is not split."""
        if text or quoted:
            self.current.pieces.append((text, quoted))
        if quoted:
            self.current.present = True
        self._after_blank = self._after_blank and not text and not quoted

    def add_value(self, value: Value, *, quoted: bool) -> None:
        """The result of an expansion, which is split unless it is quoted."""
        if quoted or not self.separators:
            self.add(value.text, quoted=quoted)
            self._explain(value)
            return
        place = 0
        for match in _delimiters(self.separators).finditer(value.text):
            self._piece(value.text[place : match.start()], value)
            self._delimiter(match[0])
            place = match.end()
        self._piece(value.text[place:], value)

    def _piece(self, text: str, value: Value) -> None:
        if text:
            self.add(text, quoted=False)
        if text or not value.text:
            self._explain(value)

    def _explain(self, value: Value) -> None:
        self.current.reason = self.current.reason or value.reason
        if value.unset:
            self.current.unset += value.unset

    def add_list(self, values: list[Value], *, quoted: bool) -> None:
        """The elements of `$@` or `${array[@]}`: each starts a new field."""
        for place, value in enumerate(values):
            if place:
                self._break(force=False)
            alone = not self.current.pieces
            self.add_value(value, quoted=quoted)
            if alone and quoted:
                self.current.place = value.place

    def _delimiter(self, text: str) -> None:
        hard = text.strip(" \t\n") != ""
        if hard and self._after_blank:
            self._after_blank = False
            return
        self._break(force=hard)
        self._after_blank = not hard

    def _break(self, *, force: bool) -> None:
        if force or self.current.pieces or self.current.present:
            self.done.append(self.current)
        self.current = Field()

    def finish(self) -> list[Field]:
        """All fields; an empty one counts only when something quoted was in it."""
        self._break(force=False)
        return self.done


@functools.lru_cache(maxsize=32)
def _delimiters(separators: str) -> re.Pattern[str]:
    blank = "".join(char for char in separators if char in " \t\n")
    hard = "".join(re.escape(char) for char in separators if char not in " \t\n")
    if not hard:
        return re.compile(f"[{blank}]+")
    blanks = f"[{blank}]*" if blank else ""
    return re.compile(f"{blanks}[{hard}]{blanks}" + (f"|[{blank}]+" if blank else ""))
