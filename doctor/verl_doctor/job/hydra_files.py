"""Hydra's view of folders of configuration files, each read once, without anything global staying changed."""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from hydra._internal.config_repository import ConfigRepository
from hydra._internal.core_plugins.structured_config_source import StructuredConfigSource
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException

from verl_doctor.errors import BadInput
from verl_doctor.job.folders import Folder
from verl_doctor.job.yaml_reader import Document, parse_yaml

_HEADER_CHARACTERS = 512
"""How much of a file Hydra searches for its `# @package` line (core_plugins/file_config_source.py)."""

_globals_lock = threading.RLock()


@contextlib.contextmanager
def hydra_globals(resolvers: dict[str, Any] | None = None) -> Iterator[None]:
    """Hydra's version base as `version_base=None` sets it, and OmegaConf's resolvers, for the time of a composition only."""
    from hydra import version

    with _globals_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base = version.VersionBase.instance()
        before, registered = base.version_base, BaseContainer._resolvers
        version.setbase(None)
        if resolvers is not None:
            BaseContainer._resolvers = resolvers  # there is no public way to replace them and put them back
        try:
            yield
        finally:
            base.version_base = before
            BaseContainer._resolvers = registered


def as_config(document: Document, shown: str) -> DictConfig:
    """A parsed file as OmegaConf holds it; raises BadInput for what OmegaConf refuses."""
    data = {} if document.data is None else document.data
    if not isinstance(data, dict):
        kind = "list" if isinstance(data, list) else "single value"
        raise BadInput(f"{shown}: it holds a {kind}; a configuration is written as 'key: value' lines")
    try:
        config = OmegaConf.create(data)
    except (OmegaConfBaseException, RecursionError, ValueError) as error:
        key = str(getattr(error, "full_key", "") or "")
        line = document.line_of(tuple(key.split("."))) if key else None
        place = f"{shown}:{line}" if line else shown
        raise BadInput(f"{place}: OmegaConf refuses it: {str(error).splitlines()[0]}; correct this value") from error
    assert isinstance(config, DictConfig)
    return config


class FolderSource(ConfigSource):  # type: ignore[misc]
    """Configuration files of one folder as Hydra wants them; `is_user`: they are not verl's own."""

    def __init__(self, provider: str, folder: Folder, *, is_user: bool) -> None:
        super().__init__(provider=provider, path="folder://")
        self.folder = folder
        self.is_user = is_user
        self.documents: dict[str, Document] = {}

    @staticmethod
    def scheme() -> str:
        """Hydra's name for this kind of source."""
        return "folder"

    def load_config(self, config_path: str) -> ConfigResult:
        """The configuration of this path below the folder; raises ConfigLoadError and BadInput."""
        name = self._normalize_file_name(config_path)
        if not self.folder.is_file(name):
            raise ConfigLoadError(f"Config not found : {name}")
        text = self.folder.read(name)
        shown = self.folder.shown(name)
        document = parse_yaml(text, shown)
        self.documents[config_path] = document
        header = ConfigSource._get_header_dict(text.decode("utf-8")[:_HEADER_CHARACTERS])
        return ConfigResult(config=as_config(document, shown), path="", provider=self.provider, header=header)

    def available(self) -> bool:
        """Whether the folder exists."""
        return self.folder.is_folder("")

    def is_group(self, config_path: str) -> bool:
        """Whether there is a folder of options of this name."""
        return self.folder.is_folder(config_path)

    def is_config(self, config_path: str) -> bool:
        """Whether there is a configuration of this name."""
        return self.folder.is_file(self._normalize_file_name(config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The options and groups of a group."""
        files: list[str] = []
        for name in self.folder.names(config_path):
            self._list_add_result(files, posixpath.join(config_path, name), name, results_filter)
        return sorted(set(files))

    def shown(self, config_path: str) -> str:
        """How the file of a configuration is called in reports."""
        return self.folder.shown(self._normalize_file_name(config_path))


class Repository(ConfigRepository):  # type: ignore[misc]
    """The folders in the order in which Hydra searches them, with Hydra's own configuration before them when that matters."""

    def __init__(self, folders: list[FolderSource]) -> None:
        self.folders = folders
        self._loaded: dict[str, ConfigResult | None] = {}
        self.extend([], with_hydra=False)

    def extend(self, folders: list[FolderSource], *, with_hydra: bool) -> None:
        """Search these folders too, after those there are; what is loaded stays, as in Hydra."""
        self.folders = self.folders + folders
        self.sources = [*_hydra_sources(with_hydra), *self.folders, StructuredConfigSource("schema", "structured://")]

    def load_config(self, config_path: str) -> ConfigResult | None:
        """The configuration of this path, None when no folder has it; loaded once."""
        if config_path not in self._loaded:
            self._loaded[config_path] = super().load_config(config_path)
        return self._loaded[config_path]

    def source_of(self, config_path: str) -> FolderSource | None:
        """The folder that a loaded configuration came from."""
        return next((source for source in self.folders if config_path in source.documents), None)


def _hydra_sources(with_hydra: bool) -> list[ConfigSource]:
    if not with_hydra:
        return []
    import hydra.conf
    from hydra._internal.core_plugins import basic_launcher, basic_sweeper  # noqa: F401 - they register their options
    from hydra._internal.core_plugins.file_config_source import FileConfigSource

    return [FileConfigSource("hydra", os.path.dirname(os.path.abspath(str(hydra.conf.__file__))))]
