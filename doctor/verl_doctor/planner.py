"""Which checks to run, and which facts they need."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from verl_doctor.registry import Check, Fact, Registry


class UnknownSelector(Exception):
    """A selector that matches no check; the message suggests what may have been meant."""


class Plan:
    """The chosen checks in code order, and every fact that they need, each after the facts it needs itself."""

    def __init__(self, checks: list[Check], facts: list[Fact]) -> None:
        self.checks = checks
        self.facts = facts


def plan(registry: Registry, selectors: Sequence[str], skip: Sequence[str] = (), given: Iterable[str] = ()) -> Plan:
    """Choose checks by selectors and order their facts; `given` names facts that need not be gathered.

    A selector is `all`, a topic, backend or other tag, a code, the letters of a code, or a slug.
    Raises UnknownSelector.
    """
    chosen: dict[str, Check] = {}
    for selector in selectors or ("all",):
        chosen.update(_matching(registry, selector))
    for selector in skip:
        for code in _matching(registry, selector):
            chosen.pop(code, None)
    checks = [chosen[code] for code in sorted(chosen)]
    return Plan(checks, _facts_for(registry, checks, set(given)))


def selectors(registry: Registry) -> list[str]:
    """What is accepted as a selector, besides the letters of a code."""
    names = {"all"}
    for check in registry.checks.values():
        names |= {check.code, check.slug, *check.tags}
    return sorted(names)


def _matching(registry: Registry, selector: str) -> dict[str, Check]:
    lowered = selector.lower()
    found = {
        check.code: check
        for check in registry.checks.values()
        if lowered in {"all", check.slug, *check.tags} or check.code.startswith(selector.upper())
    }
    if not found or (lowered != "all" and not re.fullmatch(r"[\w\-]+", selector)):
        raise UnknownSelector(_unknown(registry, selector))
    return found


def _unknown(registry: Registry, selector: str) -> str:
    known = selectors(registry)
    close = difflib.get_close_matches(selector.lower(), [name.lower() for name in known], n=1)
    hint = f"; did you mean {next(name for name in known if name.lower() == close[0])!r}?" if close else ""
    return f"no check, topic or code is called {selector!r}{hint} (`verl-doctor list` shows all)"


def _facts_for(registry: Registry, checks: list[Check], given: set[str]) -> list[Fact]:
    ordered: dict[str, Fact] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in given or name in ordered:
            return
        if name in path:
            raise ValueError(f"facts need each other in a circle: {' -> '.join((*path, name))}")
        if name not in registry.facts:
            raise ValueError(f"{path[-1] if path else 'a check'} needs the fact {name!r}, which nobody declares")
        declared = registry.facts[name]
        for need in declared.needs:
            visit(need, (*path, name))
        ordered[name] = declared

    for check in checks:
        for need in check.needs:
            visit(need, (check.code,))
    return list(ordered.values())
