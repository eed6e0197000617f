"""Reading the small files in which trackers keep settings and logins: never a pipe, a device or a huge file."""

from __future__ import annotations

import netrc
import os
import stat

import msgspec

from verl_doctor.api import Environment, Secret, capture

LIMIT_BYTES = 256 * 1024
_OTHERS_MAY_READ = stat.S_IRGRP | stat.S_IROTH


class SmallFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that exists: its text, or the problem that keeps it from being read."""

    path: str
    text: str = ""
    problem: str = ""
    readable_by_others: bool = False


def read_small(path: str) -> SmallFile | None:
    """The file, None when there is none. Never blocks and never reads more than `LIMIT_BYTES`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return SmallFile(path=path, problem=error.strerror or type(error).__name__)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        return SmallFile(path=path, problem="it is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        return SmallFile(path=path, problem="it is too large to be what it should be")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return SmallFile(path=path, problem="it is not UTF-8 text")
    return SmallFile(path=path, text=text, readable_by_others=bool(mode & _OTHERS_MAY_READ))


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One machine of a netrc file; `default` matches every host."""

    machine: str
    login: str = ""
    password: Secret


class Netrc(msgspec.Struct, frozen=True, kw_only=True):
    """A netrc file that exists: its entries in order, or the problem that makes programs ignore all of them."""

    path: str
    entries: list[Entry] = msgspec.field(default_factory=list)
    problem: str = ""
    readable_by_others: bool = False


def read_netrc(path: str) -> Netrc | None:
    """The netrc file, None when there is none. The text of a syntax error is left out: it may quote a password."""
    file = read_small(path)
    if file is None or file.problem:
        return None if file is None else Netrc(path=path, problem=file.problem)
    try:
        hosts = netrc.netrc(path).hosts
    except netrc.NetrcParseError as error:
        return Netrc(path=path, problem=f"syntax error on line {error.lineno}", readable_by_others=file.readable_by_others)
    except OSError as error:
        return Netrc(path=path, problem=error.strerror or type(error).__name__)
    entries = [
        Entry(machine=machine, login=login or "", password=capture(password or ""))
        for machine, (login, _, password) in hosts.items()
    ]
    return Netrc(path=path, entries=entries, readable_by_others=file.readable_by_others)


def why_unseen(environment: Environment, names: tuple[str, ...]) -> str:
    """Why the files of the process that logs cannot be looked at from here, empty when they can."""
    if environment.unseen:
        return environment.unseen
    for name in names:
        variable = environment.given(name)
        if variable is not None and variable.unknown:
            return f"{name} is not known: {variable.unknown}"
    return ""


def path_variable(environment: Environment, name: str) -> str:
    """The value of a variable that names a path, empty when it is not set. Only after `why_unseen` has said nothing."""
    variable = environment.given(name)
    return str(variable.value) if variable is not None else ""


def home_of(environment: Environment) -> str:
    """The home directory of the process that logs."""
    return path_variable(environment, "HOME") or os.path.expanduser("~")


def resolve(path: str, home: str, directory: str) -> str:
    """The path as the process that logs opens it: `~` is its home, a relative path starts at its working directory."""
    if path == "~" or path.startswith("~/"):
        return os.path.normpath(home + path[1:])
    return os.path.normpath(os.path.join(directory or os.getcwd(), path))
