"""The code for a fault in a check itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from verl_doctor.api import Finding, check, fact, finding
from verl_doctor.registry import Check


class Crash(msgspec.Struct, frozen=True):
    """A check that raised: its code and slug, and the exception with its place."""

    code: str
    slug: str
    reason: str


def _crashes(plain: list[dict[str, Any]] | None) -> list[Crash]:
    return msgspec.convert(plain or [], list[Crash])


@fact(example=_crashes)
def crashes() -> list[Crash]:
    """The checks that raised in this run; the runner knows them."""
    return []


@check(
    "DOCTOR001",
    "check-crashed",
    tags={"doctor"},
    good=[{}],
    bad=[{"crashes": [{"code": "WANDB001", "slug": "wandb-key-missing", "reason": "KeyError: 'x' (wandb.py:10)"}]}],
)
def check_crashed(crashes: list[Crash]) -> Iterable[Finding]:
    """A check of verl-doctor itself crashed.

    The fault is in verl-doctor, not in the job. What this check would have found stays unknown; all other checks have run.
    The exit status is 3 when nothing else failed, so that a gate does not take the silence for a pass.

    Fix: leave the check out with `--skip CODE` for now, and report the line that is shown together with the version.
    """
    for crash in crashes:
        yield finding(
            "the check {code} ({slug}) crashed: {reason}",
            target=crash.code,
            fix="report this as a fault of verl-doctor; `--skip {code}` leaves the check out",
            code=crash.code,
            slug=crash.slug,
            reason=crash.reason,
        )


CRASHED: Check = check_crashed.__declared__  # type: ignore[attr-defined]
