"""Which folders Hydra would look for a job's configuration in."""

from __future__ import annotations

import os

from verl_doctor.job.folders import DiskFolder, Folder
from verl_doctor.job.hydra_files import FolderSource
from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.verl_source import CONFIG_FOLDER, EntryConfig, FoundVerl


class FolderMissing(Exception):
    """A folder that the launch names does not exist."""


class ConfigSearch:
    """Finds the folders of one job. `directory` is where it runs, `directories` where its Python looks for modules.

    `blind` becomes true when a folder of the search path cannot be seen from here: there may be any option and any key in it.
    """

    def __init__(self, found: FoundVerl, directory: str, directories: list[str]) -> None:
        self.found = found
        self.directory = directory
        self.directories = directories
        self.blind = False

    def source(self, provider: str, folder: Folder) -> FolderSource:
        """The folder for Hydra, knowing whether it is the user's."""
        return FolderSource(provider, folder, is_user=not self._is_verls(folder))

    def main(self, entry: EntryConfig | None, path: str | None, *, from_here: bool) -> Folder | None:
        """The folder of the primary configuration: that of `hydra.main`, or `--config-path`, which is relative to the module.

        `from_here`: the path may be relative to the job's folder as well. None when it cannot be known; raises FolderMissing.
        """
        if not path:
            return self._declared(entry) if entry else None
        if UNKNOWN in path:
            return None
        if path.startswith("pkg://"):
            source = self.locate(path)
            return source.folder if source else None
        here = DiskFolder(os.path.join(self.directory, path), self.directory)
        if os.path.isabs(path) or (from_here and here.is_folder("")):
            folder: Folder = here
        elif entry is not None:
            folder = entry.folder.join(path)
        else:
            return None
        if folder.is_folder(""):
            return folder
        raise FolderMissing(
            f"there is no folder '{folder.shown('')}'; --config-path is absolute, or relative to the folder of the module"
        )

    def additional(self, path: str | None) -> list[FolderSource]:
        """The folder of `--config-dir`; raises FolderMissing."""
        if not path:
            return []
        if UNKNOWN in path:
            self.blind = True
            return []
        folder = DiskFolder(os.path.join(self.directory, path), self.directory)
        if not folder.is_folder(""):
            raise FolderMissing(f"there is no folder '{folder.path}'")
        return [self.source("command-line", folder)]

    def verls_own(self) -> list[FolderSource]:
        """The folder of verl's own configuration, none when verl was not found."""
        return [self.source("verl", self.found.root.join(CONFIG_FOLDER))] if self.found.root else []

    def locate(self, path: str) -> FolderSource | None:
        """The folder of an entry of hydra.searchpath; verl's packages and its relative folders are those of the verl found."""
        scheme, _, place = path.rpartition("://")
        if scheme == "pkg":
            place = place.replace(".", "/")
        candidates: list[Folder] = [DiskFolder(os.path.join(base, place), self.directory) for base in self.directories]
        if self.found.root is not None and not os.path.isabs(place):
            candidates.append(self.found.root.join(place))
        if scheme in {"", "file", "pkg"}:
            for folder in candidates:
                if folder.is_folder(""):
                    return self.source("hydra.searchpath", folder)
        self.blind = True
        return None

    def _declared(self, entry: EntryConfig) -> Folder | None:
        """The folder that a module's hydra.main names; a recipe that names verl's own means the verl that it is put into."""
        if entry.config_path is None:
            return None
        folder = entry.folder.join(entry.config_path)
        if not folder.is_folder("") and self.found.root is not None and entry.config_path.endswith(CONFIG_FOLDER):
            return self.found.root.join(CONFIG_FOLDER)
        return folder

    def _is_verls(self, folder: Folder) -> bool:
        root = self.found.root
        if not isinstance(folder, DiskFolder) or not isinstance(root, DiskFolder):
            return not isinstance(folder, DiskFolder)
        return os.path.realpath(folder.path).startswith(os.path.realpath(os.path.join(root.path, "verl")) + os.sep)
