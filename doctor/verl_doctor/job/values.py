"""From a composed configuration to plain values: interpolations are resolved against the job's environment, not this process's."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException, UnsupportedInterpolationType

from verl_doctor.job.model import UNKNOWN, Variable
from verl_doctor.secrets import Secret, protect

_MARKED = re.compile(f"{UNKNOWN}([^{UNKNOWN}]*){UNKNOWN}")
_OF_HYDRA = {
    "hydra": "Hydra fills it in when the job starts",
    "now": "it is the time at which the job starts",
    "python_version": "it depends on the Python of the job",
}


class NotKnown(Exception):
    """Raised inside a resolver for a value that only the running job has."""


class Value:
    """One leaf. `unknown` says why its value cannot be known; `fault` why the job itself cannot have one."""

    def __init__(self, value: Any, unknown: str = "", fault: str = "") -> None:
        self.value = value
        self.unknown = unknown
        self.fault = fault


def safe_resolvers(environment: Mapping[str, Variable]) -> dict[str, Any]:
    """OmegaConf's own resolvers, with `oc.env` reading `environment`, and Hydra's, whose values are not known before the job runs."""

    def env(config: Any, parent: Any, node: Any, args: tuple[Any, ...], texts: Any) -> Any:  # noqa: ARG001
        name, *default = args
        variable = environment.get(name) if isinstance(name, str) else None
        if variable is not None and variable.unknown:
            return f"{UNKNOWN}${name}{UNKNOWN}"
        if variable is not None:
            value = variable.value
            return (value.reveal() or "") if isinstance(value, Secret) else value
        if default:
            return None if default[0] is None else str(default[0])
        raise NotKnown(f"the environment variable {name} is not set here")

    def of_hydra(reason: str) -> Any:
        def resolver(config: Any, parent: Any, node: Any, args: tuple[Any, ...], texts: Any) -> Any:
            raise NotKnown(reason)

        return resolver

    resolvers = {name: function for name, function in BaseContainer._resolvers.items() if name.startswith("oc.")}
    return resolvers | {"oc.env": env} | {name: of_hydra(reason) for name, reason in _OF_HYDRA.items()}


def flatten(config: DictConfig, reasons: Mapping[str, str]) -> dict[str, Value]:
    """Every leaf by its dotted key; lists and empty mappings are leaves.

    `reasons` says for each unknown override (by key) or variable (by `$NAME`) why it is unknown. To be called while
    `safe_resolvers` are in place.
    """
    return dict(_walk(config, "", reasons))


def _walk(node: DictConfig, prefix: str, reasons: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    content = node._content
    if not isinstance(content, dict):
        yield prefix[:-1], Value(content)
        return
    for name, child in content.items():
        key = f"{prefix}{name}"
        if isinstance(child, DictConfig) and isinstance(child._content, dict):
            if child._content:
                yield from _walk(child, key + ".", reasons)
            else:
                yield key, Value({})
        elif isinstance(child, ListConfig) and isinstance(child._content, list):
            yield key, _leaf(lambda node=node, name=name: node[name], reasons)  # type: ignore[misc]
        else:
            raw = child._value()
            if isinstance(raw, str) and "${" in raw:
                yield from _interpolated(node, name, key, reasons)
            else:
                yield key, _settled(raw, reasons)


def _interpolated(node: DictConfig, name: Any, key: str, reasons: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    leaf = _leaf(lambda: node[name], reasons)
    if isinstance(leaf.value, dict) and leaf.value and not leaf.unknown:
        for below, value in _plain_leaves(leaf.value, key):
            yield below, _settled(value, reasons)
    else:
        yield key, leaf


def _plain_leaves(value: dict[Any, Any], key: str) -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, dict) and item:
            yield from _plain_leaves(item, f"{key}.{name}")
        else:
            yield f"{key}.{name}", item


def _leaf(read: Any, reasons: Mapping[str, str]) -> Value:
    try:
        value = read()
        if isinstance(value, (DictConfig, ListConfig)):
            value = OmegaConf.to_container(value, resolve=True)
    except UnsupportedInterpolationType as error:
        return Value(None, f"its interpolation cannot be resolved here: {_first_line(error)}", _first_line(error))
    except InterpolationResolutionError as error:
        reason = _not_known(error)
        if reason:
            return Value(None, reason)
        return Value(None, f"its interpolation cannot be resolved: {_first_line(error)}", _first_line(error))
    except (OmegaConfBaseException, RecursionError, ValueError, TypeError) as error:
        return Value(None, f"its value cannot be read: {_first_line(error)}", _first_line(error))
    return _settled(value, reasons)


def _not_known(error: BaseException | None) -> str:
    while error is not None:
        if isinstance(error, NotKnown):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def _settled(value: Any, reasons: Mapping[str, str]) -> Value:
    """The value, or why it is unknown when it was made from something unknown."""
    marks = _marks(value)
    if not marks:
        return Value(value)
    return Value(
        None, next((reasons[mark] for mark in marks if reasons.get(mark)), "a part of it is known only when the job runs")
    )


def _marks(value: Any) -> list[str]:
    if isinstance(value, str):
        return _MARKED.findall(value) if UNKNOWN in value else []
    if isinstance(value, dict):
        return [mark for item in value.items() for part in item for mark in _marks(part)]
    if isinstance(value, (list, tuple)):
        return [mark for item in value for mark in _marks(item)]
    return []


def protected(key: str, value: Any) -> Any:
    """The value as it may be kept: credentials are Secrets, texts scrubbed, and anything else plain data."""
    if isinstance(value, dict):
        return {str(name): protected(f"{key}.{name}", item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [protected(key, item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, enum.Enum):
        value = value.name
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return protect(key, text)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
