"""What can be made ready before a job starts, so that it does not break while many of its processes make it at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verl_doctor.job.model import Request
from verl_doctor.job.resolve import resolve_job
from verl_doctor.registry import Registry, load_built_in
from verl_doctor.report import Message

PREPARATION = "preparation"


class CannotPrepare(Exception):
    """A step that failed; the message says why, without credentials."""


class Step:
    """Something to do: `planned` says it before, `done` afterwards. `action` returns False when it was done already.

    An action may be run by several processes at once, and raises CannotPrepare.
    """

    def __init__(self, planned: Message, done: Message, action: Callable[[], bool]) -> None:
        self.planned = planned
        self.done = done
        self.action = action


class Preparation:
    """The steps for a job, and what is needed and cannot be done here."""

    def __init__(self, steps: list[Step], refusals: list[Message]) -> None:
        self.steps = steps
        self.refusals = refusals


def preparation_for(request: Request) -> Preparation:
    """What the job needs and what is there already; changes nothing. Raises BadInput and NotAVerlLaunch."""
    known = {"request": request, "job": resolve_job(request)}
    found: Preparation = _gather(load_built_in(), PREPARATION, known)
    return found


def _gather(registry: Registry, name: str, known: dict[str, Any]) -> Any:
    """The value of a fact, one after the other with all that it needs."""
    if name not in known:
        fact = registry.facts[name]
        known[name] = fact.gather(**{need: _gather(registry, need, known) for need in fact.needs})
    return known[name]
