"""What Hydra refuses, before it is known which correction composes."""

from __future__ import annotations

import msgspec

from verl_doctor.job.model import Argument, ConfigProblem, ProblemKind, Source
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
        """The problem as it is reported, without credentials."""
        return ConfigProblem(
            kind=self.kind,
            override=scrub(self.argument.text),
            key=scrub(self.key),
            reason=scrub(self.reason),
            source=Source("override", "override", self.argument.location),
            column=self.column,
            corrected=scrub(corrected) if corrected else None,
            character=self.character,
        )
