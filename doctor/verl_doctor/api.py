"""Everything the author of a check or a fact imports."""

from __future__ import annotations

from typing import Any

from verl_doctor.job.model import (
    Argument,
    ConfigProblem,
    Environment,
    Job,
    Packages,
    Request,
    ScriptNote,
    Setting,
    Source,
    Variable,
    plain,
)
from verl_doctor.registry import NotAsked, Unavailable, Undetermined, check, fact
from verl_doctor.report import Finding, Fix, Location, Message, Severity
from verl_doctor.secrets import Secret, capture, protect

__all__ = [
    "Argument",
    "ConfigProblem",
    "Environment",
    "Finding",
    "Fix",
    "Job",
    "Location",
    "Message",
    "NotAsked",
    "Packages",
    "Request",
    "ScriptNote",
    "Secret",
    "Setting",
    "Severity",
    "Source",
    "Unavailable",
    "Undetermined",
    "Variable",
    "capture",
    "check",
    "fact",
    "finding",
    "protect",
]


def finding(
    template: str,
    *,
    at: Setting | Variable | None = None,
    target: str = "",
    source: Source | None = None,
    fix: str = "",
    commands: list[str] | None = None,
    evidence: dict[str, Any] | None = None,
    severity: Severity | None = None,
    **values: Any,
) -> Finding:
    """A finding whose message is `template` with `values` filled in; `fix` is a template over the same values.

    `at` is the setting or variable that is at fault: it gives the target and the place.
    """
    if at is not None:
        target = target or (at.key if isinstance(at, Setting) else at.name)
        source = source or at.source
    shown = {name: plain(value) for name, value in values.items()}
    return Finding(
        message=Message(template, shown),
        target=target,
        source=source.text if source else "",
        location=source.location if source else None,
        evidence={name: plain(value) for name, value in (evidence or {}).items()},
        fix=Fix(Message(fix, shown), list(commands or [])) if fix else None,
        severity=severity,
    )
