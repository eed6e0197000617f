"""Declaring checks and facts, and finding the declared ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar

from verl_doctor import docstring
from verl_doctor.catalog import BUILT_IN_PACKAGE
from verl_doctor.report import Finding, Severity

Scope = Literal["job", "node", "run"]
CheckFunction = Callable[..., Iterable[Finding]]
Row = dict[str, Any]
"""An example: plain data for each fact that matters; facts that are left out take their example default."""

_F = TypeVar("_F", bound=Callable[..., Any])


class Unavailable(Exception):
    """Raised by a fact that could not be had; the reason is shown with every check that is skipped for it."""


class NotAsked(Exception):
    """Raised by a fact that is gathered only when the user asks for it; the message says how. Nothing is incomplete then."""


class Undetermined(Exception):
    """Raised when a value that decides a check cannot be known before the job runs.

    `essential` marks values without which the whole diagnosis says nothing, such as the list of loggers.
    """

    def __init__(self, reason: str, *, essential: bool = False) -> None:
        super().__init__(reason)
        self.essential = essential


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters; inspect.signature would take a tenth of the time that loading all checks takes."""
    code = function.__code__
    return tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


class Fact:
    """A declared fact: how to gather it, what it needs, and how long it may take (seconds, from when its needs are met)."""

    def __init__(
        self,
        gather: Callable[..., Any],
        *,
        scope: Scope,
        timeout: float,
        network: bool,
        example: Callable[[Any], Any] | None,
    ) -> None:
        self.name = gather.__name__
        self.gather = gather
        self.scope = scope
        self.timeout = timeout
        self.network = network
        self.example = example
        self.needs = _parameters(gather)


class Check:
    """A declared check: its code, what it is called, what it needs, and rows of facts that must and must not yield it."""

    def __init__(
        self,
        function: CheckFunction,
        *,
        code: str,
        slug: str,
        severity: Severity,
        tags: frozenset[str],
        good: list[Row],
        bad: list[Row],
    ) -> None:
        self.function = function
        self.code = code
        self.slug = slug
        self.severity = severity
        self.tags = tags
        self.good = good
        self.bad = bad
        self.needs = _parameters(function)

    @functools.cached_property
    def documentation(self) -> docstring.Documentation:
        """The docstring in its parts; raises ValueError when it breaks the grammar. Read only when it is asked for."""
        return docstring.parse(self.function.__doc__ or "", self.code)

    @property
    def topic(self) -> str:
        """The letters of the code: `WANDB` of `WANDB001`."""
        return self.code.rstrip("0123456789")


class Registry:
    """The checks and facts that are known."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}
        self.facts: dict[str, Fact] = {}
        self._slugs: set[str] = set()

    def add(self, declared: Check | Fact) -> None:
        """Add one; raises ValueError when the code, the slug or the name is taken."""
        if isinstance(declared, Fact):
            if declared.name in self.facts:
                raise ValueError(f"the fact {declared.name!r} is declared twice")
            self.facts[declared.name] = declared
            return
        if declared.code in self.checks:
            raise ValueError(f"the code {declared.code} is declared twice")
        if declared.slug in self._slugs:
            raise ValueError(f"the slug {declared.slug!r} of {declared.code} is taken")
        self._slugs.add(declared.slug)
        self.checks[declared.code] = declared

    def add_modules(self, modules: Iterable[Any]) -> None:
        """Add every check and fact that these modules declare, once each (a fact may be imported by name elsewhere)."""
        seen: set[int] = set()
        for declared in _declarations(modules):
            if id(declared) not in seen:
                seen.add(id(declared))
                self.add(declared)


def _declarations(modules: Iterable[Any]) -> Iterator[Check | Fact]:
    for module in modules:
        for value in vars(module).values():
            declared = getattr(value, "__declared__", None)
            if isinstance(declared, (Check, Fact)) and declared_in(value, module):
                yield declared


def declared_in(function: Any, module: Any) -> bool:
    """Whether the function was written in this module rather than imported into it."""
    return bool(function.__module__ == module.__name__)


def check(
    code: str,
    slug: str,
    *,
    tags: set[str],
    good: list[Row],
    bad: list[Row],
    severity: Severity = Severity.ERROR,
) -> Callable[[CheckFunction], CheckFunction]:
    """Declare a check. The function's parameters are facts, its docstring is the documentation of the code."""

    def declare(function: CheckFunction) -> CheckFunction:
        function.__declared__ = Check(  # type: ignore[attr-defined]
            function, code=code, slug=slug, severity=severity, tags=frozenset(tags), good=good, bad=bad
        )
        return function

    return declare


def fact(
    *, scope: Scope = "job", timeout: float = 5.0, network: bool = False, example: Callable[[Any], Any] | None = None
) -> Callable[[_F], _F]:
    """Declare a fact. Its parameters are other facts; `example` turns the plain data of a row into the fact's type."""

    def declare(gather: _F) -> _F:
        gather.__declared__ = Fact(  # type: ignore[attr-defined]
            gather, scope=scope, timeout=timeout, network=network, example=example
        )
        return gather

    return declare


def load_built_in() -> Registry:
    """A registry with the checks and facts of this distribution."""
    import importlib

    package = importlib.import_module(BUILT_IN_PACKAGE)
    modules = [importlib.import_module(f"{BUILT_IN_PACKAGE}.{name}") for name in package.MODULES]
    registry = Registry()
    registry.add_modules([importlib.import_module("verl_doctor.crash"), *modules])
    return registry


def example_facts(check: Check, registry: Registry, row: Row) -> dict[str, Any]:
    """The facts that a row stands for, typed, for the parameters of this check.

    Raises ValueError for a row that names a fact which the check does not take.
    """
    stray = set(row) - set(check.needs)
    if stray:
        raise ValueError(f"{check.code}: the row has {sorted(stray)}, which the check does not take")
    facts: dict[str, Any] = {}
    for name in check.needs:
        declared = registry.facts[name]
        plain = row.get(name)
        facts[name] = declared.example(plain) if declared.example else plain
    return facts
