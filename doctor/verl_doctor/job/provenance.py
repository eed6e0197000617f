"""Where each value of a composed configuration was set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from verl_doctor.job.composition import Composed
from verl_doctor.job.knowledge import TRACKING_KEYS
from verl_doctor.job.model import Source, Verl
from verl_doctor.job.overrides import Given
from verl_doctor.job.yaml_reader import Document
from verl_doctor.report import Location

_NOT_VALUES = ("defaults", "hydra")


class Provenance:
    """Answers for a key which override, user's file or default of verl set it."""

    def __init__(self, composed: Composed, verl: Verl) -> None:
        self._composed = composed
        self._default = Source("verl-default", f"default of verl {verl.version}")
        if verl.origin == "built-in":
            self._default = Source("built-in", f"built-in knowledge of verl {verl.version}")
        self._files: dict[str, Source] = {}
        for config_path, package, source in composed.files:
            document = source.documents[config_path]
            if source.is_user:
                self.add_file(document, source.shown(config_path), package)
            elif self._files:
                for path, _ in document.leaf_lines():
                    self._files.pop(_key(package, path), None)
        self._whole = {key: given for key, given in composed.owners.items() if _is_interpolation(given)}

    def add_file(self, document: Document, shown: str, package: str = "") -> None:
        """Count the values of a user's file as set there, over what was before."""
        for path, line in document.leaf_lines():
            if package or path[0] not in _NOT_VALUES:
                self._files[_key(package, path)] = Source("config-file", "configuration file", Location(shown, line))

    def owner(self, key: str) -> Given | None:
        """The override that set the key, an element of it, or by an interpolation a parent of it."""
        owners = self._composed.owners
        owner = owners.get(key)
        if owner is None and self._whole:
            owner = next((given for parent, given in self._whole.items() if key.startswith(parent + ".")), None)
        if owner is None and key in self._composed.parents:  # a list, one element of which was set
            owner = next((given for below, given in reversed(owners.items()) if below.startswith(key + ".")), None)
        return owner

    def is_users(self, key: str) -> bool:
        """Whether the user set it, rather than verl."""
        return self.owner(key) is not None or key in self._files

    def source(self, key: str) -> Source:
        """The source of the key's value."""
        owner = self.owner(key)
        if owner is not None:
            return owner.source
        if key in self._files:
            return self._files[key]
        return self._located_default(key) if key in TRACKING_KEYS else self._default

    def _located_default(self, key: str) -> Source:
        for config_path, package, source in reversed(self._composed.files):
            if package and not key.startswith(package + "."):
                continue
            line = source.documents[config_path].line_of(tuple(key.removeprefix(package + "." if package else "").split(".")))
            if line is not None:
                return Source("verl-default", self._default.text, Location(source.shown(config_path), line))
        return self._default

    def users_hydra_keys(self) -> Iterable[str]:
        """The keys of Hydra's own node that the user set."""
        return [key for key in self._composed.owners if key.startswith("hydra.") and key != "hydra.searchpath"]


def _is_interpolation(given: Given) -> bool:
    value: Any = None if given.override.is_delete() else given.override.value()
    return isinstance(value, str) and "${" in value


def _key(package: str, path: tuple[str, ...]) -> str:
    return ".".join((package, *path)) if package else ".".join(path)
