"""Which proxy a client uses for a URL, from the environment it sees: each library reads the same variables by its own rules.

Sources: Python 3.11 urllib/request.py; requests 2.34.2 utils.py and adapters.py; httpx 0.28.1 _utils.py; Go 1.27 net/http and
golang.org/x/net/http/httpproxy; gRPC 1.85 core http_proxy_mapper; each rule was also measured with the real client.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

from verl_doctor.secrets import Secret, capture

Client = Literal["go", "requests", "urllib", "httpx", "grpc"]
"""`go` is wandb since 0.18 (its core); `requests` is MLflow, SwanLab and older wandb; `httpx` is trackio; `grpc` is Ray."""

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080}
_SOCKS = ("socks4", "socks4a", "socks5", "socks5h")
_CHARACTERS_OF_A_HOST = re.compile(r"[A-Za-z0-9._~%\-]+|[0-9A-Fa-f:.]+(%\S+)?|[^\x00-\x7f]+.*")


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy as a client will use it. `password` is None when the client sends no credentials."""

    scheme: str
    host: str
    port: int
    username: str = ""
    password: Secret | None = None
    resolves_names: bool = True

    @property
    def shown(self) -> str:
        """The address without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The way to a URL. `variable` is what decided: the one with the proxy, or the one that exempts the host.

    `refused`: the client raises an error instead of sending anything, `reason` says why.
    `ignored` are variables that name a proxy and that this client does not read; only for `direct` ways without a variable.
    """

    way: Literal["direct", "proxy", "refused"]
    proxy: Proxy | None = None
    variable: str = ""
    reason: str = ""
    entry: str = ""
    ignored: tuple[str, ...] = ()


class _Refused(Exception):
    """The client raises an error for this setting; the message says why."""


Target = tuple[str, str, int]
"""Scheme, host in lower case without brackets, port."""


def split_target(url: str) -> Target:
    """Scheme, host and port of an http(s) URL; raises ValueError when it is not one."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("not an http or https URL")
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]


def resolve(client: Client, url: str, environment: Mapping[str, str], *, own: Mapping[str, str] | None = None) -> Route:
    """The way this client takes to an http(s) URL with these environment variables.

    `own` holds the proxies of the client's own settings by scheme (wandb's `https_proxy` and `http_proxy`: of
    WANDB_HTTPS_PROXY, a settings file, or verl's trainer.wandb_proxy); they beat the environment and NO_PROXY.
    Raises ValueError when the URL is not http or https.
    """
    target = split_target(url)
    try:
        proxy = (own or {}).get(target[0], "")
        if proxy:
            return Route(way="proxy", proxy=_own_proxy(proxy), variable=f"{target[0]}_proxy of the client's settings")
        return _RESOLVERS[client](target, environment)
    except _Refused as error:
        return Route(way="refused", reason=str(error), variable=_deciding_variable(client, target, environment))


def _own_proxy(text: str) -> Proxy:
    if not text.startswith(("http://", "https://")):
        raise _Refused("wandb accepts only http:// and https:// proxies in its settings")
    return _parse(text, sends_lone_user=True)


def _deciding_variable(client: Client, target: Target, environment: Mapping[str, str]) -> str:
    if client == "go":
        return _first(environment, (f"{target[0].upper()}_PROXY", f"{target[0]}_proxy"))[0]
    found = _python_proxies(environment)
    return next((found[key][0] for key in (target[0], "all") if key in found), "")


# --- the variables -----------------------------------------------------------------------------------------------------------


def _python_proxies(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Variable and value by scheme, as urllib.request.getproxies_environment: lower case wins, an empty one disables."""
    found: dict[str, tuple[str, str]] = {}
    for name, value in environment.items():
        if value and name.lower().endswith("_proxy"):
            found[name.lower()[:-6]] = (name, value)
    if "REQUEST_METHOD" in environment:
        found.pop("http", None)
    for name, value in environment.items():
        if name.endswith("_proxy"):
            found.pop(name.lower()[:-6], None)
            if value:
                found[name.lower()[:-6]] = (name, value)
    return found


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str]:
    """The first of these variables that is not empty, and its value."""
    return next(((name, environment[name]) for name in names if environment.get(name)), ("", ""))


def _ignored(environment: Mapping[str, str], read: tuple[str, ...]) -> tuple[str, ...]:
    """Variables that look like a proxy for this URL to a person, and are not among those that the client reads."""
    candidates = [name for name in environment if name.lower() in {"http_proxy", "https_proxy", "all_proxy"}]
    return tuple(sorted(name for name in candidates if environment[name] and name not in read))


# --- one resolver for each library -------------------------------------------------------------------------------------------


def _go(target: Target, environment: Mapping[str, str]) -> Route:
    scheme, host, port = target
    names = (f"{scheme.upper()}_PROXY", f"{scheme}_proxy")
    variable, value = _first(environment, names)
    proxy = _go_proxy(value) if value else None
    if proxy is None:
        other = ("HTTP_PROXY", "http_proxy") if scheme == "https" else ("HTTPS_PROXY", "https_proxy")
        reason = f"{variable} cannot be read and is passed over" if value else "no proxy is set for it"
        return Route(way="direct", variable=variable, reason=reason, ignored=_ignored(environment, (*names, *other)))
    if scheme == "http" and environment.get("REQUEST_METHOD"):
        raise _Refused(f"{variable} is set together with REQUEST_METHOD, which Go refuses")
    if host == "localhost" or _is_loopback(host):
        return Route(way="direct", reason="Go never sends loopback addresses to a proxy")
    exempting, entries = _first(environment, ("NO_PROXY", "no_proxy"))
    entry = next((entry for entry in entries.split(",") if _go_exempts(entry.strip().lower(), host, port)), None)
    if entry is not None:
        return Route(way="direct", variable=exempting, entry=entry.strip(), reason=f"{exempting} exempts it")
    return Route(way="proxy", proxy=proxy, variable=variable)


def _go_proxy(value: str) -> Proxy | None:
    """None when Go cannot read the value: it then connects directly, without a word."""
    if re.search(r"[\s\x00-\x1f]", value):
        return None
    parts = re.match(r"([A-Za-z][A-Za-z0-9+.\-]*)://(?=[^/?#])", value)
    if parts is None:
        value = "http://" + value
    proxy = _parse(value, sends_lone_user=True, port_of_unknown=80)
    known = proxy.scheme in {"http", "https", "socks5", "socks5h"}
    return proxy if known else msgspec.structs.replace(proxy, scheme="http")


def _go_exempts(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _ip(host)
    network = _network(entry)
    if network is not None:
        return address is not None and address in network
    name, wanted = _split_port(entry)
    if not name or (wanted and wanted != str(port)):
        return False
    named = _ip(name)
    if named is not None or address is not None:
        return named == address
    name = name[1:] if name.startswith("*.") else name
    return host.endswith("." + name.removeprefix(".")) or (not name.startswith(".") and host == name)


def _requests(target: Target, environment: Mapping[str, str]) -> Route:
    scheme, host, port = target
    exempting, entry = _requests_exempts(host, port, environment)
    if exempting:
        return Route(way="direct", variable=exempting, entry=entry, reason=f"{exempting} exempts it")
    found = _python_proxies(environment)
    variable, value = found.get(scheme) or found.get("all") or ("", "")
    if not value:
        read = tuple(name for name, _ in found.values())
        return Route(way="direct", reason="no proxy is set for it", ignored=_ignored(environment, (*read, *_OTHER[scheme])))
    if "://" not in value and "@" in value:
        raise _Refused(f"{variable} has credentials and no http:// before them, which requests cannot read")
    proxy = _parse(_with_scheme(value), sends_lone_user=False)
    if proxy.scheme not in _DEFAULT_PORTS:
        raise _Refused(f"requests knows no proxy of the kind {proxy.scheme}://")
    return Route(way="proxy", proxy=msgspec.structs.replace(proxy, resolves_names=proxy.scheme != "socks5"), variable=variable)


_OTHER = {"https": ("http_proxy", "HTTP_PROXY"), "http": ("https_proxy", "HTTPS_PROXY")}


def _requests_exempts(host: str, port: int, environment: Mapping[str, str]) -> tuple[str, str]:
    variable, value = _first(environment, ("no_proxy", "NO_PROXY"))
    entries = [entry for entry in value.replace(" ", "").split(",") if entry]
    for entry in entries:
        if _is_ipv4(host):
            matches = _in_requests_network(host, entry) or host == entry
        else:
            name = entry.lstrip(".")
            matches = any(shown == name or shown.endswith("." + name) for shown in (host, f"{host}:{port}"))
        if matches:
            return variable, entry
    return _urllib_exempts(host, environment)


def _in_requests_network(host: str, entry: str) -> bool:
    address, slash, bits = entry.partition("/")
    if not slash or not bits.isdigit() or not 1 <= int(bits) <= 32 or not _is_ipv4(address):
        return False
    network = ipaddress.ip_network((int.from_bytes(socket.inet_aton(address), "big"), int(bits)), strict=False)
    return ipaddress.ip_address(socket.inet_aton(host)) in network


def _urllib(target: Target, environment: Mapping[str, str]) -> Route:
    scheme, host, port = target
    found = _python_proxies(environment)
    variable, value = found.get(scheme, ("", ""))
    if not value:
        read = tuple(name for name, _ in (found[key] for key in found if key in {"http", "https"}))
        return Route(way="direct", reason="no proxy is set for it", ignored=_ignored(environment, read))
    exempting, entry = _urllib_exempts(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", environment)
    if exempting:
        return Route(way="direct", variable=exempting, entry=entry, reason=f"{exempting} exempts it")
    proxy = _parse(_with_scheme(value), sends_lone_user=False)
    if proxy.scheme not in {"http", "https"}:
        if scheme == "http":
            raise _Refused(f"urllib knows no proxy of the kind {proxy.scheme}://")
        proxy = msgspec.structs.replace(proxy, scheme="http")
    return Route(way="proxy", proxy=proxy, variable=variable)


def _urllib_exempts(host: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """As urllib.request.proxy_bypass_environment: the whole value `*`, else names, with or without a port."""
    variable, value = _python_proxies(environment).get("no", ("", ""))
    if value == "*":
        return variable, "*"
    host = host.lower()
    alone = re.sub(r":(\d*)\Z", "", host)
    for entry in value.split(","):
        name = entry.strip().lstrip(".").lower()
        if name and any(shown == name or shown.endswith("." + name) for shown in (alone, host)):
            return variable, entry.strip()
    return "", ""


def _httpx(target: Target, environment: Mapping[str, str]) -> Route:
    scheme = target[0]
    found = _python_proxies(environment)
    exempting, entries = found.get("no", ("", ""))
    names = [entry.strip() for entry in entries.split(",") if entry.strip()]
    if "*" in names:
        return Route(way="direct", variable=exempting, entry="*", reason=f"{exempting} exempts it")
    matching = [entry for entry in names if _httpx_exempts(entry, target)]  # all are read: one bad entry is an error
    if matching:
        return Route(way="direct", variable=exempting, entry=matching[0], reason=f"{exempting} exempts it")
    variable, value = found.get(scheme) or found.get("all") or ("", "")
    if not value:
        read = tuple(name for name, _ in found.values())
        return Route(way="direct", reason="no proxy is set for it", ignored=_ignored(environment, (*read, *_OTHER[scheme])))
    proxy = _parse(_with_scheme(value), sends_lone_user=True)
    if proxy.scheme not in {"http", "https", "socks5", "socks5h"}:
        raise _Refused(f"httpx knows no proxy of the kind {proxy.scheme}://")
    return Route(way="proxy", proxy=proxy, variable=variable)


def _httpx_exempts(entry: str, target: Target) -> bool:
    _, host, port = target
    if "://" in entry:
        return _is_in_url(entry, target)
    plain = entry.partition("/")[0]
    if _ip(plain) is not None and ":" in plain:
        if "/" in entry:
            raise _Refused(f"httpx cannot read the entry {entry} of NO_PROXY and fails for every URL")
        return host == plain.lower()
    if _ip(plain) is not None or entry.lower() == "localhost":
        return host == plain.lower()
    name, wanted = _split_port(plain)
    if name.startswith("[") or (wanted and not wanted.isdigit()):
        raise _Refused(f"httpx cannot read the entry {entry} of NO_PROXY and fails for every URL")
    if wanted and int(wanted) != port:
        return False
    name = name.lower()
    return host.endswith("." + name.removeprefix(".")) or (not name.startswith(".") and host == name)


def _is_in_url(entry: str, target: Target) -> bool:
    try:
        parts = urlsplit(entry)
        port = parts.port
    except ValueError:
        return False
    return (parts.scheme, parts.hostname) == target[:2] and port in {None, target[2]}


def _grpc(target: Target, environment: Mapping[str, str]) -> Route:
    host = target[1]
    read = ("grpc_proxy", "https_proxy", "http_proxy")
    variable, value = _first(environment, read)
    if not value.startswith("http://"):
        reason = f"{variable} is not an http:// address and is passed over" if value else "no proxy is set for it"
        return Route(way="direct", variable=variable, reason=reason, ignored=_ignored(environment, read))
    exempting, entries = _first(environment, ("no_grpc_proxy", "no_proxy"))
    entry = next((entry for entry in entries.split(",") if _grpc_exempts(entry.strip().lower(), host)), None)
    if entry is not None:
        return Route(way="direct", variable=exempting, entry=entry.strip(), reason=f"{exempting} exempts it")
    return Route(way="proxy", proxy=_parse(value, sends_lone_user=True), variable=variable)


def _grpc_exempts(entry: str, host: str) -> bool:
    address, network = _ip(host), _network(entry)
    if address is not None:
        return _ip(entry) == address or (network is not None and address in network)
    name = entry.lstrip(".")
    return bool(name) and (host == name or host.endswith("." + name))


_RESOLVERS: dict[Client, Callable[[Target, Mapping[str, str]], Route]] = {
    "go": _go,
    "requests": _requests,
    "urllib": _urllib,
    "httpx": _httpx,
    "grpc": _grpc,
}


# --- addresses ---------------------------------------------------------------------------------------------------------------


def _with_scheme(value: str) -> str:
    return value if "://" in value else f"http://{value}"


def _parse(value: str, *, sends_lone_user: bool, port_of_unknown: int = 0) -> Proxy:
    """A proxy from its URL; raises _Refused for what no client can use. The last `@` ends the credentials."""
    scheme, _, rest = value.partition("://")
    credentials, at, address = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")
    host, port = _split_port(address)
    host = host.strip("[]")
    if value != value.strip() or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*", scheme):
        raise _Refused("the address of the proxy has blanks or quotes around it")
    if not host or not _CHARACTERS_OF_A_HOST.fullmatch(host):
        raise _Refused("the address of the proxy has no usable host name")
    if port and not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise _Refused("the port of the proxy is not a number")
    username, colon, password = credentials.partition(":")
    sends = bool(at) and bool(username) and (bool(colon) or sends_lone_user)
    scheme = scheme.lower()
    return Proxy(
        scheme=scheme,
        host=host.lower(),
        port=int(port) if port else _DEFAULT_PORTS.get(scheme, port_of_unknown),
        username=unquote(username) if sends else "",
        password=capture(unquote(password)) if sends else None,
    )


def _split_port(text: str) -> tuple[str, str]:
    """Host and port; an IPv6 address without brackets has no port."""
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        return (host[1:], rest[1:]) if bracket and rest.startswith(":") else (text, "")
    host, _, port = text.rpartition(":") if text.count(":") == 1 else (text, "", "")
    return host, port


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _ip(host)
    return address is not None and address.is_loopback


def _is_ipv4(text: str) -> bool:
    """As requests asks: whatever inet_aton takes, also `10.77`."""
    try:
        socket.inet_aton(text)
    except OSError:
        return False
    return True
