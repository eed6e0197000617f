"""The report as one JSON document, with a published schema."""

from __future__ import annotations

from typing import Any

import msgspec

from verl_doctor.report import FactTiming, Location, Message, Report, Result, Severity, State, Summary
from verl_doctor.secrets import scrub, scrub_all


class FixDocument(msgspec.Struct, kw_only=True):
    """What to do: prose, and commands that are safe to copy."""

    text: str
    commands: list[str]


class ResultDocument(msgspec.Struct, kw_only=True):
    """One finding, or one check that passed or could not be decided. `fingerprint` is the same across runs."""

    code: str
    slug: str
    severity: Severity
    state: State
    job: str
    message: str
    reason: str
    target: str
    source: str
    location: Location | None
    evidence: dict[str, Any]
    fix: FixDocument | None
    fingerprint: str
    duration_ms: float


class ReportDocument(msgspec.Struct, kw_only=True):
    """The whole report. `started` is UTC, ISO 8601; durations are in the unit of their name."""

    schema_version: str
    tool: str
    tool_version: str
    started: str
    duration_s: float
    exit_status: int
    jobs: list[dict[str, Any]]
    notices: list[str]
    summary: Summary
    results: list[ResultDocument]
    facts: list[FactTiming]


def write(report: Report) -> str:
    """The report as indented JSON, ending with a newline."""
    document = ReportDocument(
        schema_version=report.schema_version,
        tool=report.tool,
        tool_version=report.tool_version,
        started=report.started,
        duration_s=round(report.duration_s, 3),
        exit_status=report.exit_status,
        jobs=scrub_all(report.jobs),
        notices=[scrub(notice.text) for notice in report.notices],
        summary=report.summary,
        results=[_result(result) for result in report.results],
        facts=report.facts,
    )
    return encode(document)


def encode(document: msgspec.Struct) -> str:
    """A document as indented JSON, ending with a newline."""
    # A word of a command line may hold bytes that are no UTF-8 (surrogates in Python), which JSON cannot carry.
    encoded = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(document)))
    return msgspec.json.format(encoded, indent=2).decode("utf-8") + "\n"


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value


def _result(result: Result) -> ResultDocument:
    fix = result.fix
    return ResultDocument(
        code=result.code,
        slug=result.slug,
        severity=result.severity,
        state=result.state,
        job=scrub(result.job),
        message=_text(result.message),
        reason=scrub(result.reason),
        target=scrub(result.target),
        source=scrub(result.source),
        location=result.location,
        evidence=scrub_all(result.evidence),
        fix=FixDocument(text=_text(fix.message), commands=[scrub(line) for line in fix.commands]) if fix else None,
        fingerprint=result.fingerprint,
        duration_ms=round(result.duration_ms, 3),
    )


def _text(message: Message | None) -> str:
    return scrub(message.text) if message else ""


def schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    built = msgspec.json.schema(ReportDocument)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "verl-doctor report", **built}
