"""Looks again at what answers over a network, for a server that is just coming up (`--wait`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from verl_doctor.planner import Plan
from verl_doctor.registry import Check, Fact
from verl_doctor.report import Result, Severity
from verl_doctor.runner import Outcome, gather, judge

PAUSE_S = 5.0
"""Seconds from the end of one look to the next."""


def judge_in_time(
    plan: Plan,
    given: Mapping[str, Any],
    *,
    job: str,
    wait: float,
    pause: float = PAUSE_S,
    notice: Callable[[str], None],
    **limits: Any,
) -> tuple[list[Result], dict[str, Outcome]]:
    """Gather and judge until nothing that hangs on a network fails, for at most about `wait` seconds.

    Only facts that hang on the network are gathered again. `limits` are those of `gather`.
    """
    end = time.monotonic() + wait
    known = {name: Outcome("gathered", value=value) for name, value in given.items()}
    changing = _hang_on_network(plan.facts)
    outcomes = gather(plan.facts, known, notice=notice, **limits)
    results = judge(plan.checks, outcomes, job)
    while (codes := _in_vain(plan.checks, changing, results)) and end - time.monotonic() > 0:
        left = end - time.monotonic()
        notice(f"waiting for {', '.join(codes)} to pass, {left:.0f} s at most")
        time.sleep(min(pause, left))
        kept = {name: outcome for name, outcome in outcomes.items() if name not in changing}
        outcomes = gather(plan.facts, kept, notice=notice, **limits)
        results = judge(plan.checks, outcomes, job)
    return results, outcomes


def _hang_on_network(facts: list[Fact]) -> set[str]:
    """Facts of the network and all that are made from them; facts stand after those that they need."""
    found: set[str] = set()
    for fact in facts:
        if fact.network or found & set(fact.needs):
            found.add(fact.name)
    return found


def _in_vain(checks: list[Check], changing: set[str], results: list[Result]) -> list[str]:
    """The codes that fail for what the network said; nobody waits for warnings and notes, which do not stop a job."""
    codes = {check.code for check in checks if changing & set(check.needs)}
    failed = [r.code for r in results if r.code in codes and r.state == "fail" and r.severity is Severity.ERROR]
    return list(dict.fromkeys(failed))
