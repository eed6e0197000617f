"""Environment variables as checks need them: what is certainly set, and what stays behind in the launching shell."""

from __future__ import annotations

from collections.abc import Iterable

from verl_doctor.api import Environment, Secret, Variable


def given(environment: Environment, name: str) -> str:
    """The text of a variable that is certainly set, empty when it is not; raises Undetermined when its value is not known."""
    return environment.text(name) if environment.given(name) else ""


def secret(environment: Environment, name: str) -> Secret | None:
    """A credential that is certainly set and not empty; raises Undetermined when its value is not known."""
    if environment.given(name) is None:
        return None
    value = environment.get(name)
    if isinstance(value, str):
        # A value such as `none` or `123` is too ordinary to be protected, and still what the tracker takes for the key.
        return Secret(length=len(value), body_length=len(value)) if value else None
    return value


def is_true(text: str) -> bool:
    """Whether a switch is on, as most programs read it."""
    return text.strip().lower() in {"1", "true", "yes", "on"}


def left_behind(environment: Environment, names: Iterable[str]) -> list[Variable]:
    """Variables with a value in the launching shell that do not reach the process that logs."""
    return [
        environment.left_behind[name]
        for name in names
        if name in environment.left_behind and environment.left_behind[name].value
    ]
