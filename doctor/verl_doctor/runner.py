"""Gathers the facts side by side, each with a deadline, then runs the checks.

Threads are daemons: a fact that hangs is reported and left behind, it never holds the process.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from verl_doctor.crash import CRASHED, Crash
from verl_doctor.job.model import PROBE_S
from verl_doctor.planner import Plan
from verl_doctor.registry import Check, Fact, NotAsked, Unavailable, Undetermined
from verl_doctor.report import FactTiming, Finding, Result
from verl_doctor.secrets import scrub

SLOW_NOTICE_S = 2.0


class Outcome:
    """What became of a fact: its value, or the reason why there is none. `duration` is seconds of wall time."""

    def __init__(
        self,
        state: Literal["gathered", "unavailable", "timeout", "crash", "skipped"],
        *,
        value: Any = None,
        reason: str = "",
        duration: float = 0.0,
    ) -> None:
        self.state = state
        self.value = value
        self.reason = reason
        self.duration = duration


class _Gathering:
    """One round of facts; every access to `outcomes` holds `changed`."""

    def __init__(self, facts: list[Fact], known: Mapping[str, Outcome], *, offline: bool, probe_timeout: float) -> None:
        self.facts = {fact.name: fact for fact in facts}
        self.outcomes: dict[str, Outcome] = dict(known)
        self.longer = max(0.0, probe_timeout - PROBE_S)
        self.started: dict[str, float] = {}
        self.changed = threading.Condition()
        self.offline = offline

    def start_ready(self) -> None:
        """Start every fact whose needs are met; settle those whose needs failed. The caller holds `changed`."""
        progress = True
        while progress:
            progress = False
            for name, fact in self.facts.items():
                if name in self.started or name in self.outcomes:
                    continue
                if fact.network and self.offline:
                    self.outcomes[name] = Outcome("skipped", reason="--offline was given")
                    progress = True
                    continue
                needs = [self.outcomes.get(need) for need in fact.needs]
                if any(need is None for need in needs):
                    continue
                failed = next((n for n in fact.needs if self.outcomes[n].state != "gathered"), None)
                if failed is not None:
                    outcome = self.outcomes[failed]
                    state: Literal["unavailable", "skipped"] = "skipped" if outcome.state == "skipped" else "unavailable"
                    self.outcomes[name] = Outcome(state, reason=f"needs {failed}: {outcome.reason}")
                    progress = True
                    continue
                self.started[name] = time.monotonic()
                arguments = {need: self.outcomes[need].value for need in fact.needs}
                threading.Thread(target=self._gather, args=(fact, arguments), name=f"fact {name}", daemon=True).start()

    def _gather(self, fact: Fact, arguments: dict[str, Any]) -> None:
        begun = time.monotonic()
        try:
            outcome = Outcome("gathered", value=fact.gather(**arguments))
        except NotAsked as error:
            outcome = Outcome("skipped", reason=scrub(str(error)))
        except Unavailable as error:
            outcome = Outcome("unavailable", reason=scrub(str(error)))
        except Exception as error:  # noqa: BLE001 - a fault in one fact must not end the run: it is reported with its place
            outcome = Outcome("crash", reason=_describe_crash(error))
        outcome.duration = time.monotonic() - begun
        with self.changed:
            self.outcomes.setdefault(fact.name, outcome)
            self.start_ready()
            self.changed.notify_all()

    def wait(self, budget: float, notice: Callable[[str], None]) -> None:
        """Wait until every fact is settled or out of time; `budget` is seconds for all of them together."""
        end = time.monotonic() + budget
        notice_at = time.monotonic() + SLOW_NOTICE_S
        with self.changed:
            self.start_ready()
            while len(self.outcomes) < len(self.outcomes.keys() | self.facts.keys()):
                now = time.monotonic()
                self._settle_late(now, end)
                pending = [name for name in self.started if name not in self.outcomes]
                if not pending:
                    continue
                if now >= notice_at:
                    notice(f"still waiting for {', '.join(pending)}")
                    notice_at = end + 1
                deadlines = [self.started[name] + self.limit(name) for name in pending]
                self.changed.wait(max(0.0, min([*deadlines, end, notice_at]) - now))

    def limit(self, name: str) -> float:
        """Seconds that a fact may take: one that asks over a network takes as much longer as each look at a server."""
        fact = self.facts[name]
        return fact.timeout + (self.longer if fact.network else 0.0)

    def _settle_late(self, now: float, end: float) -> None:
        for name, started in self.started.items():
            if name in self.outcomes:
                continue
            limit = self.limit(name)
            if now >= started + limit or now >= end:
                reason = f"no answer within {limit:g} s" if now >= started + limit else "the total time budget was used up"
                self.outcomes[name] = Outcome("timeout", reason=reason, duration=now - started)
        self.start_ready()


def _describe_crash(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    name = frame.filename.rsplit("/", 1)[-1]
    return scrub(f"{type(error).__name__}: {error} ({name}:{frame.lineno})")


def run(
    plan: Plan,
    given: dict[str, Any],
    *,
    job: str = "",
    budget: float = 15.0,
    offline: bool = False,
    notice: Callable[[str], None] | None = None,
) -> tuple[list[Result], list[FactTiming]]:
    """Gather the plan's facts and run its checks. `given` are facts that are known already; `budget` is seconds."""
    known = {name: Outcome("gathered", value=value) for name, value in given.items()}
    outcomes = gather(plan.facts, known, budget=budget, offline=offline, notice=notice or (lambda _: None))
    return judge(plan.checks, outcomes, job), timings(plan.facts, outcomes, job)


def gather(
    facts: list[Fact],
    known: Mapping[str, Outcome],
    *,
    budget: float,
    offline: bool,
    notice: Callable[[str], None],
    probe_timeout: float = PROBE_S,
) -> dict[str, Outcome]:
    """What becomes of the facts, those included that are `known`; `budget` and `probe_timeout` (of one server) are seconds."""
    gathering = _Gathering(facts, known, offline=offline, probe_timeout=probe_timeout)
    gathering.wait(budget, notice)
    with gathering.changed:
        return dict(gathering.outcomes)


def judge(checks: list[Check], outcomes: dict[str, Outcome], job: str) -> list[Result]:
    """The results of the checks over settled facts."""
    return [result for check in checks if check is not CRASHED for result in run_check(check, outcomes, job)]


def timings(facts: list[Fact], outcomes: Mapping[str, Outcome], job: str) -> list[FactTiming]:
    """How each fact was had."""
    settled = [(fact.name, outcomes[fact.name]) for fact in facts]
    return [
        FactTiming(name=name, job=job, state=outcome.state, duration_s=outcome.duration, reason=outcome.reason)
        for name, outcome in settled
    ]


def run_check(check: Check, outcomes: dict[str, Outcome], job: str = "") -> Iterable[Result]:
    """The results of one check over settled facts."""
    missing = next((name for name in check.needs if outcomes[name].state != "gathered"), None)
    if missing is not None:
        outcome = outcomes[missing]
        yield _result(check, "skip", job, reason=f"needs {missing}: {outcome.reason}", essential=outcome.state != "skipped")
        return
    begun = time.perf_counter()
    findings: list[Finding] = []
    try:
        for finding in check.function(**{name: outcomes[name].value for name in check.needs}):
            findings.append(finding)  # noqa: PERF402 - what was found before an undetermined value counts
    except Undetermined as error:
        if not findings:
            yield _result(check, "unknown", job, reason=scrub(str(error)), essential=error.essential)
            return
    except Exception as error:  # noqa: BLE001 - a fault in one check must not end the run: it is a result of its own
        yield from _crash(check, error, job)
        return
    duration = (time.perf_counter() - begun) * 1000
    if not findings:
        yield _result(check, "pass", job, duration_ms=duration)
    for finding in findings:
        yield _from_finding(check, finding, job, duration)


def _crash(check: Check, error: Exception, job: str) -> Iterable[Result]:
    crashes = [Crash(check.code, check.slug, _describe_crash(error))]
    for finding in CRASHED.function(crashes=crashes):
        yield msgspec.structs.replace(_from_finding(CRASHED, finding, job, 0.0), state="crash")


def _result(check: Check, state: Literal["pass", "skip", "unknown"], job: str, **details: Any) -> Result:
    return Result(code=check.code, slug=check.slug, severity=check.severity, state=state, job=job, **details)


def _from_finding(check: Check, finding: Finding, job: str, duration: float) -> Result:
    return Result(
        code=check.code,
        slug=check.slug,
        severity=finding.severity or check.severity,
        state="fail",
        job=job,
        message=finding.message,
        target=finding.target,
        source=finding.source,
        location=finding.location,
        evidence=finding.evidence,
        fix=finding.fix,
        duration_ms=duration,
    )
