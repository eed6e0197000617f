"""What a run of the checks found, as typed data. Writers turn it into text, JSON and other formats; they know nothing else."""

from __future__ import annotations

import enum
import hashlib
from typing import Any, Literal

import msgspec

SCHEMA_VERSION = "1"


class Severity(str, enum.Enum):
    """How bad a finding is: `error` fails a gate, `warning` and `info` do not by default."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 is worst."""
        return list(Severity).index(self)


State = Literal["pass", "fail", "unknown", "skip", "crash"]
"""`unknown`: a value that decides the check cannot be known without running the job. `skip`: a fact could not be had."""


class Location(msgspec.Struct, frozen=True):
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class Message(msgspec.Struct, frozen=True):
    """A text with named places, kept apart from its values so that it can be shown in another language."""

    template: str
    values: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text in English."""
        return self.template.format_map(self.values)


class Fix(msgspec.Struct, frozen=True):
    """What to do: prose for people, and commands that are safe to show and to copy."""

    message: Message
    commands: list[str] = msgspec.field(default_factory=list)


class Finding(msgspec.Struct, kw_only=True):
    """One failed code at one place. `severity` overrides that of the code when the case is milder or worse."""

    message: Message
    target: str = ""
    source: str = ""
    location: Location | None = None
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    fix: Fix | None = None
    severity: Severity | None = None


class Result(msgspec.Struct, kw_only=True):
    """The outcome of one check: a row for each finding, or one row that says that it passed or why it could not be decided."""

    code: str
    slug: str
    severity: Severity
    state: State
    job: str = ""
    message: Message | None = None
    reason: str = ""
    target: str = ""
    source: str = ""
    location: Location | None = None
    evidence: dict[str, Any] = msgspec.field(default_factory=dict)
    fix: Fix | None = None
    essential: bool = False
    duration_ms: float = 0.0

    @property
    def fingerprint(self) -> str:
        """Identifies the finding across runs; does not depend on line numbers or on the wording of the values."""
        template = self.message.template if self.message else ""
        identity = f"{self.code}|{self.target}|{template}".encode("utf-8", "surrogateescape")
        return hashlib.blake2b(identity, digest_size=8).hexdigest()


class FactTiming(msgspec.Struct, kw_only=True):
    """How a fact was had: seconds of wall time, and what went wrong if something did."""

    name: str
    job: str = ""
    state: Literal["gathered", "unavailable", "timeout", "crash", "skipped"]
    duration_s: float
    reason: str = ""


class Summary(msgspec.Struct, kw_only=True):
    """Counts of results; findings by severity."""

    errors: int = 0
    warnings: int = 0
    infos: int = 0
    passed: int = 0
    unknown: int = 0
    skipped: int = 0
    crashed: int = 0


class Report(msgspec.Struct, kw_only=True):
    """A finished run of the checks. Durations are seconds; `started` is UTC, ISO 8601."""

    schema_version: str = SCHEMA_VERSION
    tool: str = "verl-doctor"
    tool_version: str
    started: str
    duration_s: float
    exit_status: int = 0
    jobs: list[dict[str, Any]] = msgspec.field(default_factory=list)
    notices: list[Message] = msgspec.field(default_factory=list)
    summary: Summary = msgspec.field(default_factory=Summary)
    results: list[Result] = msgspec.field(default_factory=list)
    facts: list[FactTiming] = msgspec.field(default_factory=list)

    @property
    def findings(self) -> list[Result]:
        """The failed results, worst first."""
        return [result for result in self.results if result.state == "fail"]


def sort_results(results: list[Result]) -> list[Result]:
    """Worst first, then by code and place, so that two runs over the same input give the same order."""

    def order(result: Result) -> tuple[Any, ...]:
        line = (result.location.line or 0) if result.location else 0
        text = result.message.text if result.message else result.reason
        return (result.state != "fail", result.severity.rank, result.code, result.job, line, result.target, text)

    return sorted(results, key=order)


def summarise(results: list[Result]) -> Summary:
    """Count the results."""
    failed = [result.severity for result in results if result.state == "fail"]
    states = [result.state for result in results]
    return Summary(
        errors=failed.count(Severity.ERROR),
        warnings=failed.count(Severity.WARNING),
        infos=failed.count(Severity.INFO),
        passed=states.count("pass"),
        unknown=states.count("unknown"),
        skipped=states.count("skip"),
        crashed=states.count("crash"),
    )


def exit_status(results: list[Result], *, fail_on: Severity = Severity.ERROR, allow_incomplete: bool = False) -> int:
    """0 nothing at or above `fail_on`; 1 findings; 3 an error-level check could not look and nothing worse was found."""
    if any(result.state == "fail" and result.severity.rank <= fail_on.rank for result in results):
        return 1
    if not allow_incomplete and any(_could_not_look(result) for result in results):
        return 3
    return 0


def _could_not_look(result: Result) -> bool:
    if result.state == "crash":
        return True
    return result.severity is Severity.ERROR and result.state in {"skip", "unknown"} and result.essential
