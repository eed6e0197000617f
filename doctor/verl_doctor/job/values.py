"""From a composed configuration to plain values, with interpolations resolved in the job's environment, not this process's."""

from __future__ import annotations

import enum
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException, UnsupportedInterpolationType

from verl_doctor.job.model import UNKNOWN, Variable
from verl_doctor.job.refusal import first_line
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
    """OmegaConf's own resolvers, with `oc.env` reading `environment`; Hydra's have no value before the job runs."""

    def env(*call: Any) -> Any:
        name, *default = call[3]  # a resolver is called with root, parent, node, arguments and their texts
        variable = environment.get(name) if isinstance(name, str) else None
        if variable is not None and variable.unknown:
            return f"{UNKNOWN}${name}{UNKNOWN}"
        if variable is not None:
            value = variable.value
            return (value.reveal() or "") if isinstance(value, Secret) else value
        if default:
            return None if default[0] is None else str(default[0])
        raise NotKnown(f"the environment variable {name} is not set here")

    def only_at_run_time(reason: str) -> Callable[..., Any]:
        def resolver(*call: Any) -> Any:  # noqa: ARG001 - whatever it is asked
            raise NotKnown(reason)

        return resolver

    resolvers = {name: function for name, function in BaseContainer._resolvers.items() if name.startswith("oc.")}
    return resolvers | {"oc.env": env} | {name: only_at_run_time(reason) for name, reason in _OF_HYDRA.items()}


def flatten(config: DictConfig, reasons: Mapping[str, str], *, skip: tuple[str, ...] = ()) -> dict[str, Value]:
    """Every leaf by its dotted key, without the top-level keys `skip`; lists and empty mappings are leaves.

    `reasons` says for each unknown override (by key) or variable (by `$NAME`) why it is unknown. To be called while
    `safe_resolvers` are in place.
    """
    return dict(_walk(config, "", reasons, skip))


def _walk(node: DictConfig, prefix: str, reasons: Mapping[str, str], skip: tuple[str, ...] = ()) -> Iterator[tuple[str, Value]]:
    """Goes by the nodes themselves: asking a container for a value would resolve it."""
    content = node._content
    for name, child in content.items() if isinstance(content, dict) else ():
        key = f"{prefix}{_text(name)}"
        if name in skip:
            continue
        if isinstance(child, (DictConfig, ListConfig)) and isinstance(child._content, (dict, list)):
            if isinstance(child, DictConfig) and child._content:
                yield from _walk(child, f"{key}.", reasons)
            else:
                yield key, _leaf(functools.partial(node.__getitem__, name), reasons)
            continue
        raw = child._value()
        if isinstance(raw, str) and "${" in raw:
            yield from _interpolated(node, name, key, reasons)
        else:
            yield key, _settled(raw, reasons)


def _text(name: Any) -> str:
    """A key as text; OmegaConf also takes numbers, booleans, bytes and enumerations for keys."""
    return name if isinstance(name, str) else str(name)


def _interpolated(node: DictConfig, name: Any, key: str, reasons: Mapping[str, str]) -> Iterator[tuple[str, Value]]:
    leaf = _leaf(functools.partial(node.__getitem__, name), reasons)
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


def _leaf(read: Callable[[], Any], reasons: Mapping[str, str]) -> Value:
    try:
        value = read()
        if isinstance(value, (DictConfig, ListConfig)):
            value = OmegaConf.to_container(value, resolve=True)
    except UnsupportedInterpolationType as error:
        return Value(None, f"its interpolation cannot be resolved here: {first_line(error)}", first_line(error))
    except InterpolationResolutionError as error:
        reason = _not_known(error)
        if reason:
            return Value(None, reason)
        return Value(None, f"its interpolation cannot be resolved: {first_line(error)}", first_line(error))
    except (OmegaConfBaseException, RecursionError, ValueError, TypeError) as error:
        return Value(None, f"its value cannot be read: {first_line(error)}", first_line(error))
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
    known = [reasons[mark] for mark in marks if reasons.get(mark)]
    return Value(None, known[0] if known else "a part of it is unknown")


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
