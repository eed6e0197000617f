"""From what the user asked to a finished report: the one path that every command takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec

from verl_doctor import __version__
from verl_doctor.job.model import PROBE_S, Job, Request
from verl_doctor.job.resolve import resolve_job
from verl_doctor.patience import judge_in_time
from verl_doctor.planner import plan
from verl_doctor.registry import load_built_in
from verl_doctor.report import FactTiming, Message, Report, Result, Severity, exit_status, sort_results, summarise
from verl_doctor.runner import timings

LIVE = "live"
"""The tag of the checks that write to the trackers."""


def diagnose(
    requests: Sequence[Request],
    selectors: Sequence[str] = (),
    *,
    skip: Sequence[str] = (),
    fail_on: Severity = Severity.ERROR,
    allow_incomplete: bool = False,
    offline: bool = False,
    budget: float = 15.0,
    probe_timeout: float = PROBE_S,
    wait: float = 0.0,
    live: bool = False,
    notice: Callable[[str], None] | None = None,
) -> Report:
    """Judge one launch or several (of one script). `budget` is seconds for the facts of each, `probe_timeout` for one server.

    `wait` is seconds during which what fails over the network is looked at again. `live` adds the checks that write to the
    trackers. Raises BadInput, NotAVerlLaunch and UnknownSelector.
    """
    begun = time.monotonic()
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    chosen = plan(load_built_in(), selectors, _left_out(selectors, skip, live=live), given=("request", "job"))
    results: list[Result] = []
    spent: list[FactTiming] = []
    jobs: list[Job] = []
    for given in requests:
        request = msgspec.structs.replace(given, probe_timeout=probe_timeout, live=live)
        job = resolve_job(request)
        jobs.append(job)
        found, outcomes = judge_in_time(
            chosen,
            {"request": request, "job": job},
            job=job.name,
            wait=wait,
            notice=notice or (lambda _: None),
            budget=budget,
            offline=offline,
            probe_timeout=probe_timeout,
        )
        results += found
        spent += timings(chosen.facts, outcomes, job.name)
    return Report(
        tool_version=__version__,
        started=started,
        duration_s=time.monotonic() - begun,
        exit_status=exit_status(results, fail_on=fail_on, allow_incomplete=allow_incomplete),
        jobs=[_describe(job) for job in jobs],
        notices=_notices(jobs),
        summary=summarise(results),
        results=sort_results(results),
        facts=spent,
    )


def _left_out(selectors: Sequence[str], skip: Sequence[str], *, live: bool) -> Sequence[str]:
    """What to skip: without --live also the checks that need it, unless they were chosen by their own name."""
    named = any(selector.lower().startswith(LIVE) for selector in selectors)
    return skip if live or named else (*skip, LIVE)


def _describe(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "entry": job.entry,
        "kind": job.kind,
        "verl": str(job.verl),
        "verl_version": job.verl.version,
        "verl_origin": job.verl.origin,
        "exact": job.exact,
        "config_name": job.config_name,
    }


def _notices(jobs: list[Job]) -> list[Message]:
    template = "no verl was found: judged by what is known of verl {version}; unknown keys go unnoticed (--verl PATH)"
    versions = dict.fromkeys(job.verl.version for job in jobs if not job.exact)
    return [Message(template, {"version": version}) for version in versions]
