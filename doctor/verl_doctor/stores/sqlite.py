"""Reads sqlite files that other programs may be writing, and never makes, changes or recovers one.

sqlite's own read-only mode is not enough: it makes helper files beside a database in WAL mode
(https://www.sqlite.org/wal.html#readonly).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import struct
import sys
import time
from collections.abc import Iterator
from typing import Literal
from urllib.parse import quote

_MAGIC = b"SQLite format 3\0"
_WAL_VERSION = 2
_RESERVED_BYTE = 0x40000001
"""The byte that a writer locks from its first change to its commit (https://www.sqlite.org/lockingv3.html, os.h)."""
_QUERY_S = 3.0
_INSTRUCTIONS_PER_LOOK = 10_000

FileState = Literal["missing", "empty", "database", "other", "unreadable"]


class CannotRead(Exception):
    """The database cannot be read now; the message says why."""


def state_of(path: str) -> FileState:
    """What is at the path: `empty` is a file of no bytes, which sqlite takes for a new database."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(_MAGIC))
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "unreadable"
    return "empty" if not start else "database" if start == _MAGIC else "other"


@contextlib.contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """A connection that can only read; a query that takes longer than three seconds is stopped.

    Raises CannotRead, also for what happens inside the block.
    """
    try:
        connection = sqlite3.connect(f"file:{quote(path)}?{_mode(path)}", uri=True, timeout=0, isolation_level=None)
    except (sqlite3.Error, OSError) as error:
        raise CannotRead(str(error)) from None
    end = time.monotonic() + _QUERY_S
    connection.set_progress_handler(lambda: time.monotonic() > end, _INSTRUCTIONS_PER_LOOK)
    try:
        yield connection
    except sqlite3.Error as error:
        raise CannotRead(str(error)) from None
    finally:
        connection.close()


def _mode(path: str) -> str:
    """How to open the file so that nothing appears beside it. Raises CannotRead."""
    with open(path, "rb") as file:
        header = file.read(20)
    if header[18:20] != bytes([_WAL_VERSION, _WAL_VERSION]):
        return "mode=ro"
    if os.path.exists(path + "-shm"):
        return "mode=ro"  # a writer is at work, and the helper files are there
    if os.path.exists(path + "-wal") and os.path.getsize(path + "-wal"):
        raise CannotRead("changes in its -wal file were not finished")
    return "mode=ro&immutable=1"


def writer_of(path: str) -> int | None:
    """The process that is writing now, 0 when it cannot be named, None when there is none or it cannot be told.

    Asks for the lock without taking it. Knows nothing of WAL mode and of systems other than Linux.
    """
    if sys.platform != "linux":
        return None
    import fcntl

    request = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _RESERVED_BYTE, 1, 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        kind, _, _, _, pid = struct.unpack("hhqqi", fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(int(pid), 0)


def steady_writer(path: str, seconds: float) -> int | None:
    """The process that holds the file for writing all this time, as `writer_of` says it; returns at once when none does."""
    end = time.monotonic() + seconds
    holder = writer_of(path)
    while holder is not None and time.monotonic() < end:
        time.sleep(0.05)
        if writer_of(path) != holder:
            return None
    return holder
