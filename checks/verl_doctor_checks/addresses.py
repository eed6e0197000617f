"""Addresses as text: no look-up and no parsing library, since a checker must also read what no parser accepts."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_HTTP = re.compile(r"https?://[^\s/?#\"'<>^`{|}\\]+([/?#]\S*)?", re.IGNORECASE)


def scheme(address: str) -> str:
    """What stands before the first colon, if it can be a scheme (RFC 3986), else nothing: `localhost` of `localhost:5000`."""
    found = _SCHEME.match(address)
    return found[1] if found else ""


def host_and_port(address: str) -> str:
    """The host in lower case, with the port if there is one, without user and password; empty when there is no `//`."""
    _, separator, rest = address.strip().partition("//")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0] if separator else ""
    return authority.rpartition("@")[2].lower()


def host(address: str) -> str:
    """The host alone."""
    named = host_and_port(address)
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0]


def is_loopback(address: str) -> bool:
    """Whether the address means the machine on which it is used."""
    named = host(address)
    return named in {"localhost", "::1", "0.0.0.0"} or re.fullmatch(r"127(\.\d+){3}", named) is not None  # noqa: S104


def is_http_url(address: str) -> bool:
    """Whether it is `http://` or `https://` with a host and without blanks, as strict URL readers want it."""
    return _HTTP.fullmatch(address) is not None


def has_userinfo(address: str) -> bool:
    """Whether a user name or password stands before the host."""
    _, separator, rest = address.partition("://")
    return bool(separator) and "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]


def shown(address: str) -> str:
    """The address without what may be a user name and password, also when these are written wrongly."""
    start, at, rest = address.rpartition("@")
    if not at:
        return address
    name, separator, _ = start.partition("://")
    return f"{name}://***@{rest}" if separator else f"***@{rest}"
