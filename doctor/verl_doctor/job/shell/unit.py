"""A text of shell that is being read, and where its positions are in a file."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from verl_doctor.job.shell.syntax import Tree, parse
from verl_doctor.report import Location


@dataclass
class Unit:
    """A script, a block of an outer file, or the text of a substitution inside another unit.

    A script has `file`, the line and the indentation that its text starts at. A part of one (a substitution, the text of
    `eval`) has `outer`, and all of it is where its `offset` there is.
    """

    text: str
    file: str = ""
    first_line: int = 1
    indent: int = 0
    outer: Unit | None = None
    offset: int = 0
    line_starts: list[int] = field(default_factory=list)
    tree: Tree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = parse(self.text)
        if self.outer is None:
            self.line_starts = [0] + [place + 1 for place, char in enumerate(self.text) if char == "\n"]

    def location(self, position: int) -> Location:
        """Where a position of the text is."""
        if self.outer is not None:
            return self.outer.location(self.offset)
        line = bisect.bisect_right(self.line_starts, position)
        column = position - self.line_starts[line - 1] + 1
        return Location(self.file, self.first_line + line - 1, column + self.indent)

    def line(self, position: int) -> int:
        """The line of a position."""
        return self.location(position).line or 1
