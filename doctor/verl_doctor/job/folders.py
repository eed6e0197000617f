"""Folders of configuration files: on disk, or inside a wheel that is held in memory."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Mapping
from typing import Protocol

from verl_doctor.errors import BadInput
from verl_doctor.job.yaml_reader import MAX_BYTES


class Folder(Protocol):
    """A folder that configuration files are looked up in. Names are relative, with slashes, and may climb with `..`."""

    def read(self, name: str) -> bytes:
        """The bytes of a file; raises BadInput when it cannot be read."""
        ...

    def is_file(self, name: str) -> bool:
        """Whether there is a file of this name."""
        ...

    def is_folder(self, name: str) -> bool:
        """Whether there is a folder of this name; the empty name is this folder."""
        ...

    def names(self, name: str) -> list[str]:
        """What a folder holds."""
        ...

    def join(self, name: str) -> Folder:
        """The folder of this name."""
        ...

    def shown(self, name: str) -> str:
        """How a file is called in reports."""
        ...


class DiskFolder:
    """A folder on disk. Reports call its files by their path below `base`."""

    def __init__(self, path: str, base: str) -> None:
        self.path = os.path.abspath(path)
        self.base = base

    def _full(self, name: str) -> str:
        return os.path.realpath(os.path.join(self.path, name))

    def read(self, name: str) -> bytes:
        """See `Folder.read`."""
        return read_file(self._full(name), self.shown(name))

    def is_file(self, name: str) -> bool:
        """See `Folder.is_file`."""
        return os.path.isfile(self._full(name))

    def is_folder(self, name: str) -> bool:
        """See `Folder.is_folder`."""
        return os.path.isdir(self._full(name))

    def names(self, name: str) -> list[str]:
        """See `Folder.names`."""
        return sorted(os.listdir(self._full(name)))

    def join(self, name: str) -> DiskFolder:
        """See `Folder.join`."""
        return DiskFolder(os.path.normpath(os.path.join(self.path, name)), self.base)

    def shown(self, name: str) -> str:
        """See `Folder.shown`."""
        return short_path(os.path.normpath(os.path.join(self.path, name)), self.base)


class WheelFolder:
    """A folder inside a wheel, from the files of it that were read into memory."""

    def __init__(self, files: Mapping[str, bytes], path: str = "") -> None:
        self.files = files
        self.path = path

    def _full(self, name: str) -> str:
        return posixpath.normpath(posixpath.join(self.path, name)).removeprefix(".")

    def read(self, name: str) -> bytes:
        """See `Folder.read`."""
        try:
            return self.files[self._full(name)]
        except KeyError as error:
            raise BadInput(f"{self.shown(name)}: the wheel has no such file") from error

    def is_file(self, name: str) -> bool:
        """See `Folder.is_file`."""
        return self._full(name) in self.files

    def is_folder(self, name: str) -> bool:
        """See `Folder.is_folder`."""
        below = self._full(name)
        return not below or any(file.startswith(below + "/") for file in self.files)

    def names(self, name: str) -> list[str]:
        """See `Folder.names`."""
        below = self._full(name)
        start = below + "/" if below else ""
        return sorted({file[len(start) :].split("/", 1)[0] for file in self.files if file.startswith(start)})

    def join(self, name: str) -> WheelFolder:
        """See `Folder.join`."""
        return WheelFolder(self.files, self._full(name))

    def shown(self, name: str) -> str:
        """See `Folder.shown`."""
        return self._full(name)


def short_path(path: str, base: str) -> str:
    """The path relative to `base` when it lies below it, as it is otherwise."""
    if base and path.startswith(base.rstrip("/") + "/"):
        return path[len(base.rstrip("/")) + 1 :]
    return path


def read_file(path: str, shown: str) -> bytes:
    """The bytes of a regular file of at most MAX_BYTES; raises BadInput. A pipe or a device is not opened, it could block."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{shown}: not a regular file; give the path of a YAML file")
        if status.st_size > MAX_BYTES:
            raise BadInput(f"{shown}: the file is larger than {MAX_BYTES // 2**20} MB; give the job's configuration")
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path holds a character that no path can hold"
        raise BadInput(f"{shown}: the file cannot be read: {reason}; check the path and its permissions") from error
