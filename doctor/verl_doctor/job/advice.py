"""From Hydra's refusal of an override to what is wrong with it and what may have been meant."""

from __future__ import annotations

import difflib
import re
from typing import Any

from hydra._internal.config_repository import IConfigRepository
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Quote, QuotedString, ValueType
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, GrammarParseError, InterpolationResolutionError

from verl_doctor.job.knowledge import READ_BUT_UNDECLARED, RENAMED, takes_new_keys
from verl_doctor.job.overrides import Given
from verl_doctor.job.refusal import Refusal, first_line

MAX_ADVISED = 40
"""How many refused overrides are looked into one by one; a launch of verl has a few."""


def refuse_sweep(given: Given) -> Refusal:
    """A value that stands for several runs, without --multirun."""
    left, _, value = given.text.partition("=")
    quoted = f"{left}={QuotedString(text=value, quote=Quote.double).with_quotes()}"
    if given.override.value_type is ValueType.SIMPLE_CHOICE_SWEEP:
        reason = "a comma outside brackets asks for several runs, which needs --multirun; a list is written in brackets"
        return _refusal(given, "ambiguous-list", reason, [f"{left}=[{value}]", quoted])
    reason = "Hydra takes this value for several runs, which needs --multirun; a text must be quoted"
    return _refusal(given, "other", reason, [quoted])


def refuse_group(given: Given, error: Exception, repository: IConfigRepository) -> Refusal:
    """An override of a group that has no such option, or that nothing in the defaults lists uses."""
    left, _, choice = given.text.partition("=")
    options = repository.get_group_options(given.key, ObjectType.CONFIG)
    if isinstance(given.override.value(), str) and given.override.value() not in options and options:
        near = difflib.get_close_matches(choice, options, n=3, cutoff=0.5)
        reason = f"the group '{given.key}' has no option '{choice}'; it has {', '.join(options)}"
        return _refusal(given, "missing-group", reason, [f"{left}={option}" for option in near])
    line = first_line(error)
    meant = re.findall(r"Did you mean to override (?:one of )?([\w@/., ]+)\?", str(error))
    keys = [key.strip() for key in meant[0].split(",")] if meant else []
    return _refusal(given, "missing-group", line, [f"{key}={choice}" for key in keys])


class Advisor:
    """Explains refusals against one composed configuration; only the first MAX_ADVISED are compared with every key it has."""

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self._keys: list[str] | None = None
        self._advised = 0

    def refuse(self, given: Given, error: Exception) -> Refusal:
        """An override of a value that Hydra does not apply."""
        override = given.override
        cause = error.__cause__ or error
        if override.package is not None or "/" in given.key:
            return _refusal(given, "missing-group", f"there is no group '{given.key}'", [])
        if override.is_delete():
            return self._refuse_deletion(given, error)
        if isinstance(cause, (InterpolationResolutionError, GrammarParseError)):
            return _refusal(given, "interpolation", first_line(cause), [])
        if isinstance(cause, (ConfigAttributeError, ConfigKeyError)) and _says_unknown_key(cause):
            return self._refuse_unknown_key(given, error)
        if "Could not append" in str(error):
            reason = "the key exists already and '+' only adds new ones"
            return _refusal(given, "append-existing", reason, [given.text.replace("+", "", 1), "+" + given.text])
        return _refusal(given, "wrong-type", _obstacle(given.key, self._config) or first_line(cause), [])

    def _refuse_deletion(self, given: Given, error: Exception) -> Refusal:
        if "does not exist" in str(error):
            near = [f"~{key}" for key in self._near(given.key)]
            return _refusal(given, "delete-missing", f"there is no '{given.key}' to delete", near)
        return _refusal(given, "delete-missing", first_line(error), [f"~{given.key}"])

    def _refuse_unknown_key(self, given: Given, error: Exception) -> Refusal:
        key, value = given.key, given.text.partition("=")[2]
        renamed = _renamed(key)
        if renamed and _may_be_set(renamed, self._config):
            reason = f"there is no '{key}'; verl calls it '{renamed}'"
            return _refusal(given, "not-in-struct", reason, [f"{renamed}={value}", f"+{renamed}={value}"])
        if any(key == known or key.startswith(known + ".") for known in READ_BUT_UNDECLARED) or takes_new_keys(key):
            reason = f"'{key}' is not declared in verl's configuration; a key that is not needs '+' before it"
            return _refusal(given, "not-in-struct", reason, [f"+{given.text}"])
        if isinstance(given.override.value(), dict):
            obstacles = (_obstacle(f"{key}.{leaf}", self._config) for leaf in _all_keys(given.override.value(), ""))
            return _refusal(given, "not-in-struct", next(filter(None, obstacles), first_line(error)), [f"+{given.text}"])
        near = self._near(key)
        reason = _obstacle(key, self._config)
        if near:
            reason += f"; the nearest to '{key}' is '{near[0]}'"
        return _refusal(given, "not-in-struct", reason, [f"{name}={value}" for name in near])

    def _near(self, key: str) -> list[str]:
        if self._advised >= MAX_ADVISED:
            return []
        self._advised += 1
        if self._keys is None:
            self._keys = _all_keys(OmegaConf.to_container(self._config, resolve=False), "")
        return _near_keys(key, self._keys)


def _says_unknown_key(cause: BaseException) -> bool:
    return "not in struct" in str(cause) or "not in '" in str(cause)


def _obstacle(key: str, config: DictConfig) -> str:
    """What stands in the way of the key: a part that does not exist or that holds no keys; empty when it exists."""
    node: Any = config
    parts = key.split(".")
    for count, part in enumerate(parts):
        parent = ".".join(parts[:count])
        if isinstance(node, ListConfig):
            return f"'{parent}' is a list, so there is no '{key}' to set"
        if not isinstance(node, DictConfig):
            return f"'{parent}' is a single value, so there is no '{key}' to set"
        if part not in node:
            return f"there is no '{'.'.join(parts[: count + 1])}' in the configuration"
        node = OmegaConf.select(node, part, throw_on_resolution_failure=False)
    return ""


def _renamed(key: str) -> str:
    for old, new in RENAMED.items():
        if key == old or key.startswith(old + "."):
            return new + key[len(old) :]
    return ""


def _may_be_set(key: str, config: DictConfig) -> bool:
    try:
        parent = OmegaConf.select(config, key.rpartition(".")[0]) if "." in key else config
    except (InterpolationResolutionError, ConfigKeyError):
        return False
    return isinstance(parent, DictConfig) and (key.rpartition(".")[2] in parent or takes_new_keys(key))


def _near_keys(key: str, keys: list[str]) -> list[str]:
    """The key that may have been meant: a misspelt sibling, the end of a longer key, or the same name at one other place."""
    parent, _, name = key.rpartition(".")
    siblings = {item.rpartition(".")[2]: item for item in keys if item.rpartition(".")[0] == parent}
    close = difflib.get_close_matches(name, siblings, n=2, cutoff=0.88)
    close = close or [item for item in siblings if len(name) > 3 and (item.startswith(name + "_") or item.endswith("_" + name))]
    if close:
        return [siblings[item] for item in close]
    longer = [item for item in keys if item.endswith("." + key)]
    elsewhere = [item for item in keys if item.rpartition(".")[2] == name] if siblings else []
    for found in (longer, elsewhere):
        if len(found) == 1:
            return found
    same_depth = [item for item in keys if item.count(".") == key.count(".") and item.rpartition(".")[2] == name]
    return difflib.get_close_matches(key, same_depth, n=1, cutoff=0.9)


def _all_keys(value: Any, prefix: str) -> list[str]:
    found: list[str] = []
    for name, item in value.items() if isinstance(value, dict) else ():
        found.append(f"{prefix}{name}")
        found += _all_keys(item, f"{prefix}{name}.")
    return found


def _refusal(given: Given, kind: Any, reason: str, candidates: list[str]) -> Refusal:
    return Refusal(kind=kind, argument=given.argument, key=given.key, reason=reason, candidates=candidates)
