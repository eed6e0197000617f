"""What this user could do at a path, found without creating, opening or touching anything there."""

from __future__ import annotations

import os
import re
import stat

import msgspec

MOUNTS = "/proc/self/mountinfo"

NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "fhgfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs",
    "panfs", "pvfs2", "smb3", "smbfs", "wekafs",
})  # fmt: skip
"""File systems whose files lie on another machine, by their names in Linux's mount table."""

_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.mergerfs", "fuse.gocryptfs", "fuse.encfs", "fuse.snapfuse"})
_OCTAL = re.compile(r"\\([0-7]{3})")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A path, and what this user could do there.

    `writable` is about the file or folder itself, or about making it when it does not exist: `obstacle` says why not, and
    `nearest` is the existing path that decides. `file_system` is empty where the system has no mount table. Free space is in
    bytes, and counts only what this user may use; it and `free_inodes` are None when the file system does not say.
    """

    path: str = ""
    exists: bool = False
    is_folder: bool = False
    nearest: str = ""
    writable: bool = True
    obstacle: str = ""
    file_system: str = ""
    is_network: bool = False
    free_bytes: int | None = None
    free_inodes: int | None = None


def look_at(path: str) -> Place:
    """What is at an absolute path now. A network file system that does not answer blocks this call."""
    nearest = _nearest(path)
    exists = nearest == path
    obstacle = _obstacle(nearest, is_target=exists)
    kind = file_system_of(nearest)
    free_bytes, free_inodes = _free(nearest)
    return Place(
        path=path,
        exists=exists,
        is_folder=exists and os.path.isdir(path),
        nearest=nearest,
        writable=not obstacle,
        obstacle=obstacle,
        file_system=kind,
        is_network=is_network(kind),
        free_bytes=free_bytes,
        free_inodes=free_inodes,
    )


def _nearest(path: str) -> str:
    """The path, or the nearest one above it that is there; a link that leads nowhere counts as there."""
    while path != os.path.dirname(path) and not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _obstacle(nearest: str, *, is_target: bool) -> str:
    """Why the path cannot be written to, or made below `nearest`; empty when it can."""
    try:
        mode = os.stat(nearest).st_mode
    except FileNotFoundError:
        return f"{nearest} is a link that leads nowhere"
    except OSError as error:
        return f"{nearest}: {error.strerror}"
    if not stat.S_ISDIR(mode):
        if not is_target:
            return f"{nearest} is a file"
        return "" if os.access(nearest, os.W_OK) else _why_refused(nearest)
    return "" if os.access(nearest, os.W_OK | os.X_OK) else _why_refused(nearest)


def _why_refused(path: str) -> str:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"{path} is on a read-only file system"
    return f"{path} may not be written to by this user"


def _free(path: str) -> tuple[int | None, int | None]:
    try:
        status = os.statvfs(path)
    except OSError:  # a link that leads nowhere, or a mount that is gone: said by `obstacle`
        return None, None
    # Some file systems make inodes as they need them and report none at all, and some report no size.
    return (
        status.f_bavail * status.f_frsize if status.f_blocks else None,
        status.f_favail if status.f_files else None,
    )


def is_network(kind: str) -> bool:
    """Whether files of this kind of file system lie on another machine, as far as its name tells."""
    return kind in NETWORK or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def file_system_of(path: str) -> str:
    """The kind of file system that a path is on, empty when the system has no mount table."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    found, longest = "", -1
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        # The last of several mounts on one folder hides the others.
        if len(point) >= longest and (real == point or real.startswith(point.rstrip("/") + "/")):
            found, longest = after.split(" ", 1)[0], len(point)
    return found
