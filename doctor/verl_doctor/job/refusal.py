"""What Hydra refuses, before it is known which correction composes."""

from __future__ import annotations

import msgspec

from verl_doctor.job.model import UNKNOWN, Argument, ConfigProblem, ProblemKind, Source
from verl_doctor.secrets import scrub


class Refusal(msgspec.Struct, kw_only=True):
    """A refused override. `candidates` are corrections in order of preference; the first that composes is shown."""

    kind: ProblemKind
    argument: Argument
    key: str
    reason: str
    column: int | None = None
    character: str = ""
    candidates: list[str] = msgspec.field(default_factory=list)

    def problem(self, corrected: str | None) -> ConfigProblem:
        """The problem as it is reported, without credentials; a correction that nobody can type is not shown."""
        return ConfigProblem(
            kind=self.kind,
            override=shown(self.argument.text),
            key=shown(self.key),
            reason=shown(self.reason),
            source=Source("override", "override", self.argument.location),
            column=self.column,
            corrected=scrub(corrected) if corrected and UNKNOWN not in corrected else None,
            character=self.character,
        )


def shown(text: str) -> str:
    """A word of the command as it may be printed: without credentials, and with a place for what is unknown."""
    return scrub(text.replace(UNKNOWN, "<unknown>"))


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
