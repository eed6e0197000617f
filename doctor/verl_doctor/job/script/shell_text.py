"""A piece of shell text that knows where it stands: in a script, or inside a YAML or Markdown file."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from verl_doctor.report import Location


@dataclass(slots=True, eq=False)
class ShellText:
    """Shell text of `file`. `lines` gives for each of its lines the line of the file and the column before which it starts.

    Text that was made while reading (the argument of `bash -c`) has one `fixed` place for all of it.
    """

    file: str
    text: str
    lines: list[tuple[int, int]] | None = None
    fixed: Location | None = None
    is_fixed: bool = False
    _starts: list[int] = field(default_factory=list)

    def location(self, offset: int) -> Location | None:
        """The place of a character in the file."""
        if self.is_fixed:
            return self.fixed
        if not self._starts:
            self._starts = line_starts(self.text)
        index = bisect.bisect_right(self._starts, offset) - 1
        column = offset - self._starts[index] + 1
        if self.lines is None:
            return Location(self.file, index + 1, column)
        line, before = self.lines[min(index, len(self.lines) - 1)]
        return Location(self.file, line, before + column)

    def line(self, offset: int) -> int:
        """The line of a character in the file, 0 when it has none."""
        location = self.location(offset)
        return (location.line or 0) if location else 0

    def part(self, start: int, end: int, text: str) -> ShellText:
        """Text that was taken from `start` to `end` of this one and cleaned (leading tabs, backslashes of backquotes)."""
        if self.text[start:end] == text:
            places = [self.location(start + begin) for begin in line_starts(text)]
            lines = [(place.line or 1, (place.column or 1) - 1) for place in places if place]
            return ShellText(self.file, text, lines) if len(lines) == len(places) else self.at(start, text)
        return self.at(start, text)

    def at(self, offset: int, text: str) -> ShellText:
        """Text all of which stands at one place of this one."""
        return ShellText(self.file, text, fixed=self.location(offset), is_fixed=True)


def line_starts(text: str) -> list[int]:
    """The offset at which each line starts."""
    starts = [0]
    place = text.find("\n")
    while place >= 0:
        starts.append(place + 1)
        place = text.find("\n", place + 1)
    return starts
