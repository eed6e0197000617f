"""Composes a configuration as `hydra.main(version_base=None)` does, with Hydra's own code, without importing what it is for.

What differs from Hydra: every refusal is collected instead of the first being raised, and Hydra's own node, which is most of
the work of composing, is left out unless an override or a file touches it.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import posixpath
from collections.abc import Callable, Iterator
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.defaults_list import DefaultsList, create_defaults_list
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from verl_doctor.job.advice import MAX_ADVISED, Advisor, refuse_group, refuse_sweep
from verl_doctor.job.hydra_files import FolderSource, Repository, hydra_globals
from verl_doctor.job.model import Argument
from verl_doctor.job.overrides import Given, parse_override
from verl_doctor.job.refusal import Refusal, first_line

_REFUSED = (HydraException, OmegaConfBaseException, ValueError, TypeError, AssertionError, RecursionError)
"""What Hydra and OmegaConf raise for an override or a file that they do not take."""


class PrimaryNotFound(Exception):
    """There is no such primary configuration; `near` are the ones there are."""

    def __init__(self, name: str, near: list[str]) -> None:
        super().__init__(f"there is no primary configuration '{name}'")
        self.name = name
        self.near = near


class Cannot(Exception):
    """The configuration files themselves do not compose, whatever the overrides."""


class _Composer(ConfigLoaderImpl):  # type: ignore[misc]
    """Hydra's loader over a repository that is there already."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository


class Composed:
    """A composed configuration and how it came about.

    `owners` maps each key that an override set to that override, `parents` holds the keys above those; `replaced` are pairs of
    an override and a later one of the same key; `files` are the loaded configurations in the order of merging, each with its
    package and its folder. Not `complete`: the choice of a group is unknown. Not `settled`: a refused choice of a group leaves
    open which keys there are.
    """

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        self.owners: dict[str, Given] = {}
        self.parents: set[str] = set()
        self.appended: list[str] = []
        self.replaced: list[tuple[Given, Given]] = []
        self.swept: list[Given] = []
        self.refusals: list[Refusal] = []
        self.files: list[tuple[str, str, FolderSource]] = []
        self.complete = True
        self.settled = True


def compose(
    config_name: str,
    folders: list[FolderSource],
    overrides: list[Given],
    *,
    locate: Callable[[str], FolderSource | None],
    resolvers: dict[str, Any] | None = None,
    multirun: bool = False,
    laid_over: DictConfig | None = None,
) -> Composed:
    """Compose the primary configuration `config_name` of the first of the folders that has it, then apply the overrides.

    `locate` finds the folder of an entry of `hydra.searchpath`; `laid_over` is merged before the overrides of values.
    Raises PrimaryNotFound, Cannot when the files do not compose whatever the overrides, and BadInput when one cannot be read.
    """
    with hydra_globals(resolvers):
        repository = Repository(folders)
        primary = _load_primary(repository, config_name)
        with_hydra = _touches_hydra(primary, overrides)
        added = [folder for path in _search_path(primary, overrides) if (folder := locate(path)) is not None]
        repository.extend(added, with_hydra=with_hydra)
        composed, values = _compose(config_name, repository, overrides, multirun, with_hydra)
        if laid_over is not None:
            composed.config = _lay_over(composed.config, laid_over)
        OmegaConf.set_struct(composed.config, True)
        if with_hydra:
            OmegaConf.set_readonly(composed.config.hydra, False)
        _apply(composed, values)
        return composed


def overlay(composed: Composed, overrides: list[Given], *, multirun: bool = False) -> Composed:
    """Set the overrides on a configuration that is not certainly the job's: what does not fit it is not refused."""
    with hydra_globals():
        config = composed.config
        overrides, composed.swept, composed.refusals = _sort_out_sweeps(overrides, multirun)
        composed.complete = False
        composed.owners, composed.parents, composed.appended, composed.replaced = {}, set(), [], []
        for given in overrides:
            with contextlib.suppress(*_REFUSED):
                if not _chooses_a_group(given, config):
                    apply_one(_forced(given), config)
                    _own(composed, given)
        return composed


def _forced(given: Given) -> Given:
    """The same override as one that adds or changes, whatever is there."""
    if given.override.is_delete():
        return given
    return Given(given.argument, dataclasses.replace(given.override, type=OverrideType.FORCE_ADD))


def _chooses_a_group(given: Given, config: DictConfig) -> bool:
    """`engine=mlite` where `engine` is a mapping: the option of a group, whose file is not there to be looked into."""
    value = None if given.override.is_delete() else given.override.value()
    return isinstance(value, str) and isinstance(OmegaConf.select(config, given.key), DictConfig)


def _lay_over(config: DictConfig, laid_over: DictConfig) -> DictConfig:
    try:
        merged = OmegaConf.merge(config, laid_over)
    except OmegaConfBaseException as error:
        raise _cannot(error) from error
    assert isinstance(merged, DictConfig)
    return merged


def _search_path(primary: ConfigResult, overrides: list[Given]) -> list[str]:
    """The first override wins here, as in config_loader_impl, _process_config_searchpath."""
    given = next((given for given in overrides if given.override.get_key_element() == "hydra.searchpath"), None)
    try:
        path = given.override.value() if given else OmegaConf.select(primary.config, "hydra.searchpath")
        items = None if path is None else list(path)
    except (OmegaConfBaseException, TypeError) as error:
        raise _cannot(error) from error
    if isinstance(path, str) or not all(isinstance(item, str) for item in items or ()):
        raise Cannot(f"hydra.searchpath must be a list of texts, not {path!r}")
    return items or []


def _compose(
    config_name: str, repository: Repository, overrides: list[Given], multirun: bool, with_hydra: bool
) -> tuple[Composed, list[Given]]:
    overrides, swept, refusals = _sort_out_sweeps(overrides, multirun)
    groups, values, dropped = _sort_out_groups(repository, overrides)
    defaults, refused = _defaults_list(repository, config_name, groups, with_hydra)
    config = _merge(repository, defaults)
    composed = Composed(config)
    composed.swept = swept
    composed.refusals = [*refusals, *refused]
    composed.complete = not dropped
    composed.settled = all(refusal.candidates for refusal in refused) and (not refused or len(groups) <= MAX_ADVISED)
    composed.files = [
        (item.config_path, item.package or "", source)
        for item in defaults.defaults
        if (source := repository.source_of(item.config_path)) is not None
    ]
    _record_repeats(composed, groups)
    return composed, values


def _load_primary(repository: Repository, config_name: str) -> ConfigResult:
    primary = repository.load_config(config_name)
    if primary is not None:
        return primary
    folder = posixpath.dirname(config_name)
    options = repository.get_group_options(folder) if repository.group_exists(folder) else []
    raise PrimaryNotFound(config_name, [option for option in options if not option.startswith("_")])


def _touches_hydra(primary: ConfigResult, overrides: list[Given]) -> bool:
    """Whether Hydra's own node decides about anything; its search path is looked at before."""
    if any(given.key.startswith(("hydra.", "hydra/")) and given.key != "hydra.searchpath" for given in overrides):
        return True
    names = [getattr(default, "group", None) or getattr(default, "path", None) or "" for default in primary.defaults_list or []]
    if any(name.lstrip("/").startswith("hydra/") for name in names):
        return True
    own = primary.config.get("hydra") if isinstance(primary.config, DictConfig) else None
    return isinstance(own, DictConfig) and set(own) - {"searchpath"} != set()


def _sort_out_sweeps(overrides: list[Given], multirun: bool) -> tuple[list[Given], list[Given], list[Refusal]]:
    """Without --multirun Hydra refuses a value that stands for several (config_loader_impl, validate_sweep_overrides_legal)."""
    swept = [given for given in overrides if given.override.is_sweep_override()]
    rest = [given for given in overrides if not given.override.is_sweep_override()]
    if multirun:
        return rest, swept, []
    return rest, [], [refuse_sweep(given) for given in swept]


def _sort_out_groups(repository: Repository, overrides: list[Given]) -> tuple[list[Given], list[Given], list[Given]]:
    """Overrides of groups, overrides of values, and those of groups whose choice cannot be known here."""
    groups: list[Given] = []
    values: list[Given] = []
    dropped: list[Given] = []
    for given in overrides:
        is_group = repository.group_exists(given.key) and not isinstance(given.override.value(), dict)
        if not is_group:
            values.append(given)
        elif given.unknown:
            dropped.append(given)
        else:
            groups.append(given)
    if any(_is_plugin_choice(repository, given) for given in groups):
        groups, values = ([given for given in part if not given.key.startswith("hydra")] for part in (groups, values))
    return groups, values, dropped


def _is_plugin_choice(repository: Repository, given: Given) -> bool:
    """A launcher, sweeper or other option of Hydra that a plugin in the job's environment may bring."""
    choice = given.override.value()
    return given.key.startswith("hydra/") and not repository.config_exists(f"{given.key}/{choice}")


def _defaults_list(
    repository: Repository, config_name: str, groups: list[Given], with_hydra: bool
) -> tuple[DefaultsList, list[Refusal]]:
    def attempt(chosen: list[Given]) -> DefaultsList:
        parsed = [given.override for given in chosen]
        return create_defaults_list(repository, config_name, parsed, prepend_hydra=with_hydra, skip_missing=False)

    try:
        return attempt(groups), []
    except _REFUSED as error:
        if not groups:
            raise _cannot(error) from error
    try:
        best = attempt([])
    except _REFUSED as error:
        raise _cannot(error) from error
    accepted: list[Given] = []
    refusals: list[Refusal] = []
    for given in groups[:MAX_ADVISED]:
        try:
            best = attempt([*accepted, given])
            accepted.append(given)
            continue
        except _REFUSED as error:
            refusal = refuse_group(given, error, repository)
        refusals.append(refusal)
        for candidate in _parsed_candidates(refusal):
            with contextlib.suppress(*_REFUSED):
                best = attempt([*accepted, candidate])
                accepted.append(candidate)
                refusal.candidates = [candidate.text]
                break
        else:
            refusal.candidates = []
    return best, refusals


def _parsed_candidates(refusal: Refusal) -> list[Given]:
    parsed = [parse_override(Argument(candidate)) for candidate in refusal.candidates]
    return [given for given in parsed if isinstance(given, Given) and not given.override.is_sweep_override()]


def _cannot(error: Exception) -> Cannot:
    return Cannot(first_line(error))


def _merge(repository: Repository, defaults: DefaultsList) -> DictConfig:
    try:
        config = _Composer(repository)._compose_config_from_defaults_list(defaults.defaults, repository)
    except _REFUSED as error:
        raise _cannot(error) from error
    assert isinstance(config, DictConfig)
    return config


def _record_repeats(composed: Composed, groups: list[Given]) -> None:
    last: dict[str, Given] = {}
    for given in groups:
        key = given.override.get_key_element()
        if key in last:
            composed.replaced.append((last[key], given))
        last[key] = given


def _apply(composed: Composed, values: list[Given]) -> None:
    advisor = Advisor(composed.config)
    for given in values:
        if given.key == "hydra.searchpath":
            continue
        hidden = _single_value_above(given, composed.config)
        try:
            apply_one(given, composed.config)
        except _REFUSED as error:
            if hidden is not None:
                hidden[0]._content[hidden[1]] = hidden[2]
            if composed.complete and composed.settled:
                composed.refusals.append(advisor.refuse(given, error))
        else:
            _own(composed, given)


def _single_value_above(given: Given, config: DictConfig) -> tuple[Any, str, Any] | None:
    """The value that stands where the key needs a mapping, with its container: OmegaConf drops it before it refuses the key."""
    node: Any = config
    for part in given.key.split(".")[:-1]:
        content = node._content if isinstance(node, DictConfig) else None
        child = content.get(part) if isinstance(content, dict) else None
        if child is None or not OmegaConf.is_config(child):
            return (node, part, child) if child is not None else None
        node = child
    return None


def apply_one(given: Given, config: DictConfig) -> None:
    """Hydra's own application of one override of a value."""
    ConfigLoaderImpl._apply_overrides_to_config([given.override], config)


def _own(composed: Composed, given: Given) -> None:
    """Record that the override set its key, or the leaves of the mapping that it merged."""
    key, override = given.key, given.override
    if override.is_add() or override.is_force_add():
        composed.appended.append(key)
    value = None if override.is_delete() else override.value()
    keys = list(_leaf_keys(key, value)) if isinstance(value, dict) and value else [key]
    replaced = {id(earlier): earlier for owned in keys if (earlier := composed.owners.get(owned)) is not None}
    composed.replaced += [(earlier, given) for earlier in replaced.values()]
    if key in composed.parents and not isinstance(value, dict):
        composed.owners = {owned: owner for owned, owner in composed.owners.items() if not owned.startswith(key + ".")}
    for owned in keys:
        composed.owners[owned] = given
        parts = owned.split(".")
        composed.parents.update(".".join(parts[:count]) for count in range(1, len(parts)))


def _leaf_keys(key: str, value: dict[Any, Any]) -> Iterator[str]:
    for name, item in value.items():
        below = f"{key}.{name}"
        if isinstance(item, dict) and item:
            yield from _leaf_keys(below, item)
        else:
            yield below


def corrections(composed: Composed) -> Iterator[tuple[Refusal, str | None]]:
    """Each refusal with the first of its candidates that parses and composes on top of what was accepted."""
    if not composed.refusals:
        return
    scratch = copy.deepcopy(composed.config)
    with hydra_globals():
        for number, refusal in enumerate(composed.refusals):
            yield refusal, _first_that_composes(refusal, scratch) if number < MAX_ADVISED else None


def _first_that_composes(refusal: Refusal, scratch: DictConfig) -> str | None:
    if refusal.kind == "missing-group":
        return refusal.candidates[0] if refusal.candidates else None
    for given in _parsed_candidates(refusal):
        with contextlib.suppress(*_REFUSED):
            apply_one(given, scratch)
            return given.text
    return None
