"""The report for a person: one screen, worst first, in English or Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from verl_doctor.report import Report, Result, Severity
from verl_doctor.secrets import scrub
from verl_doctor.translation import Translator

if TYPE_CHECKING:
    from rich.console import Console

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
_MARK = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "·"}
_SHOWN_OF_ONE_CODE = 3
_CODES_OF_A_CAUSE = 5
_NEEDED_FACTS = re.compile(r"^(needs \w+: )+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def write(report: Report, console: Console, translator: Translator, verbosity: int = 0) -> None:
    """Print the report. `verbosity`: -1 the counts alone, 0 findings, 1 also evidence and what is undecided, 2 also facts."""
    page = _Page(console, translator, verbosity)
    if verbosity >= 0:
        page.jobs(report)
        for result, others in _folded(report.findings, verbosity):
            page.finding(result, show_job=len(report.jobs) > 1)
            page.others(others)
        page.not_looked_at(report)
    if verbosity >= 2:
        page.facts(report)
    page.counts(report)


def printable(text: str) -> str:
    """The text without credentials, and with control characters made visible, so that it cannot drive the terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", scrub(text))


class _Page:
    def __init__(self, console: Console, translator: Translator, verbosity: int) -> None:
        self.console = console
        self.translator = translator
        self.verbosity = verbosity

    def line(self, text: str, *, style: str = "", indent: int = 0) -> None:
        from rich.padding import Padding
        from rich.text import Text

        content = Text(printable(text), style=style)
        if self.console.is_terminal:
            self.console.print(Padding(content, (0, 0, 0, indent)))
        else:
            self.console.print(Text(" " * indent) + content, soft_wrap=True)

    def jobs(self, report: Report) -> None:
        for job in report.jobs:
            self.line(
                self._say("{name}: {entry}, {verl}", **{key: job[key] for key in ("name", "entry", "verl")}), style="bold"
            )
        for notice in report.notices:
            self.line(self._say(notice.template, **notice.values), style="dim")
        if report.jobs or report.notices:
            self.console.print()

    def finding(self, result: Result, *, show_job: bool) -> None:
        severity = self._say(result.severity.value)
        heading = f"{_MARK[result.severity]} {severity} {result.code} {result.slug}"
        self.line(f"{heading}  [{result.job}]" if show_job else heading, style=_STYLE[result.severity])
        if result.message:
            self.line(self.translator.message(result.code, result.message), indent=2)
        place = _place(result)
        if place:
            self.line(place, style="dim", indent=2)
        if self.verbosity >= 1:
            for name, value in result.evidence.items():
                self.line(f"{name}: {value}", style="dim", indent=4)
        if result.fix:
            self.line(self._say("fix: ") + self.translator.message(result.code, result.fix.message), style="green", indent=2)
            for command in result.fix.commands:
                self.line(command, indent=6)
        self.console.print()

    def others(self, results: list[Result]) -> None:
        if results:
            targets = ", ".join(dict.fromkeys(result.target for result in results))
            self.line(
                self._say("and {n} more of {code}: {targets}", n=len(results), code=results[0].code, targets=targets), indent=2
            )
            self.console.print()

    def not_looked_at(self, report: Report) -> None:
        undecided = [result for result in report.results if result.state in {"unknown", "skip", "crash"}]
        if not undecided:
            return
        if self.verbosity >= 1:
            for result in undecided:
                self.line(f"? {self._say(result.state)} {result.code} {result.slug}: {_why(result)}", style="dim")
        else:
            for reason, results in _by_cause(undecided):
                codes = ", ".join(dict.fromkeys(result.code for result in results[:_CODES_OF_A_CAUSE]))
                codes += ", ..." if len(results) > _CODES_OF_A_CAUSE else ""
                self.line(self._say("? not decided: {reason} ({codes})", reason=reason, codes=codes), style="dim")
        self.console.print()

    def facts(self, report: Report) -> None:
        for fact in report.facts:
            reason = f": {fact.reason}" if fact.reason else ""
            self.line(f"{fact.name}  {fact.state}  {fact.duration_s * 1000:.1f} ms{reason}", style="dim")
        self.console.print()

    def counts(self, report: Report) -> None:
        summary = report.summary
        counts = [
            self._count(summary.errors, "{n} error", "{n} errors"),
            self._count(summary.warnings, "{n} warning", "{n} warnings"),
            self._count(summary.infos, "{n} note", "{n} notes"),
        ]
        found = self._say(", ").join(counts) + self._say("; {passed} checks passed", passed=summary.passed)
        undecided = summary.unknown + summary.skipped + summary.crashed
        if undecided:
            found += self._say(", {undecided} could not be decided", undecided=undecided)
            found += "" if self.verbosity >= 1 else self._say(" (-v says why)")
        style = "bold red" if summary.errors else "bold yellow" if summary.warnings else "bold green"
        self.line(found + self._say("."), style=style)
        if report.findings and self.verbosity == 0:
            worst = report.findings[0].code
            self.line(self._say("`verl-doctor explain {code}` tells more about a code.", code=worst), style="dim")

    def _count(self, number: int, one: str, several: str) -> str:
        return self._say(one if number == 1 else several, n=number)

    def _say(self, template: str, **values: object) -> str:
        return self.translator.interface(template, **values)


def _folded(findings: list[Result], verbosity: int) -> Iterator[tuple[Result, list[Result]]]:
    """Each finding with those that are folded under it: of one code and severity only the first few are shown in full."""
    groups: dict[tuple[str, Severity], list[Result]] = {}
    for result in findings:
        groups.setdefault((result.code, result.severity), []).append(result)
    for group in groups.values():
        shown = len(group) if verbosity >= 1 or len(group) == _SHOWN_OF_ONE_CODE + 1 else _SHOWN_OF_ONE_CODE
        for number, result in enumerate(group[:shown], start=1):
            yield result, group[shown:] if number == shown else []


def _by_cause(undecided: list[Result]) -> list[tuple[str, list[Result]]]:
    """The causes, the one behind most checks first. What stands before a colon names the value, the rest says why."""
    causes: dict[str, list[Result]] = {}
    for result in undecided:
        reason = _NEEDED_FACTS.sub("", _why(result))
        causes.setdefault(reason.split(" is not known: ", 1)[-1], []).append(result)
    return sorted(causes.items(), key=lambda cause: -len(cause[1]))


def _why(result: Result) -> str:
    return result.message.text if result.message else result.reason


def _place(result: Result) -> str:
    origin = f"{result.source} ({result.location})" if result.location and result.source else result.source
    origin = origin or (str(result.location) if result.location else "")
    return f"{result.target}  ← {origin}" if result.target and origin else result.target or origin
