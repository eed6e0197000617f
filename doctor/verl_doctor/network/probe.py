"""One HTTP request exactly the way a client would send it, layer by layer, and the layer in which it fails.

Nothing here reads an environment variable: the way and the trusted authorities are given. All steps share one deadline, and of
an answer at most `MAX_BODY` bytes are kept. Credentials go to the host of the URL alone, and to the proxy its own.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import http.client
import ipaddress
import re
import ssl
import struct
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from verl_doctor.network.certificates import Trust, make_context
from verl_doctor.network.proxies import Proxy, Route, split_target
from verl_doctor.network.result import Cause, Layer, ProbeResult
from verl_doctor.network.streams import (
    Addresses,
    Deadline,
    NoSuchName,
    OutOfTime,
    PlainStream,
    Reader,
    Stream,
    TlsStream,
    connect,
    look_up,
)
from verl_doctor.network.x509 import PeerCertificate, read_certificate
from verl_doctor.secrets import scrub

DEADLINE_S = 5.0
MAX_BODY = 64 * 1024
MAX_REDIRECTS = 3

_WANTS_TLS = re.compile(
    rb"plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server|speaking plain HTTP to an SSL"
)
"""What nginx, Go and Apache answer to plain HTTP on a port with TLS."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `headers` may hold credentials: they are sent to the host of `url` only."""

    url: str
    route: Route
    trust: Trust
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""


class _Ended(Exception):
    """The request ended before an answer came."""

    def __init__(self, layer: Layer, cause: Cause, reason: str = "", **details: Any) -> None:
        super().__init__(reason)
        self.layer: Layer = layer
        self.cause: Cause = cause
        self.details = details


class _Answer:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse, body: bytes, seconds: float) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = body
        self.seconds = seconds
        self.arrived = time.time()


def ask(question: Question, *, deadline_s: float = DEADLINE_S) -> tuple[ProbeResult, bytes]:
    """Send the request, follow redirects within the same host, and say how far it got, with the body of the answer.

    The body is empty when there was no answer. Never raises for anything that the network does.
    """
    attempt = _Attempt(question, Deadline(deadline_s))
    try:
        answer = attempt.answer()
    except _Ended as end:
        result = ProbeResult(layer=end.layer, cause=end.cause, reason=scrub(str(end))[:300], **attempt.place(end.details))
        return result, b""
    finally:
        attempt.close()
    return attempt.describe(answer), answer.body


class _Attempt:
    """One question on its way. Each connection serves one request."""

    def __init__(self, question: Question, deadline: Deadline) -> None:
        self.question = question
        self.deadline = deadline
        self.url = question.url
        self.scheme, self.host, self.port = split_target(question.url)
        self.proxy = question.route.proxy if question.route.way == "proxy" else None
        self.milliseconds: dict[str, float] = {}
        self.at: Literal["server", "proxy"] = "proxy" if self.proxy else "server"
        self.opened: list[Stream] = []

    def close(self) -> None:
        for stream in self.opened:
            stream.close()

    # --- the whole ---

    def answer(self) -> _Answer:
        if self.question.route.way == "refused":
            raise _Ended("route", "route-refused", self.question.route.reason)
        method, body = self.question.method, self.question.body
        for _ in range(MAX_REDIRECTS + 1):
            answer = self.exchange(method, body)
            following = self.redirection(answer)
            if not following:
                return answer
            self.url = following
            if answer.status not in {307, 308}:
                method, body = "GET", b""
        raise _Ended("http", "redirect-loop", f"more than {MAX_REDIRECTS} redirects", status=answer.status)

    def redirection(self, answer: _Answer) -> str:
        """Where the answer sends a client, empty when it does not. Raises _Ended when that is another host."""
        location = answer.headers.get("Location", "")
        if answer.status not in {301, 302, 303, 307, 308} or not location:
            return ""
        try:
            following = urljoin(self.url, location)
            same = split_target(following) == (self.scheme, self.host, self.port)
        except ValueError:
            following, same = location, False
        if not same:
            shown = _shown_location(following)
            raise _Ended(
                "http",
                "redirect-elsewhere",
                f"status {answer.status}",
                status=answer.status,
                location=shown,
                server=_server_of(answer),
            )
        return following

    def exchange(self, method: str, body: bytes) -> _Answer:
        request = self.request(method, body)
        stream = self.open()
        begun = time.monotonic()
        try:
            stream.send(request)
            return self.read(stream, method, begun)
        except _Ended:
            raise
        except OutOfTime as error:
            cause: Cause = "proxy-silent" if self.at == "proxy" else "silent"
            raise _Ended("http", cause, "no complete answer in time") from error
        except ssl.SSLError as error:
            raise _Ended("tls", "tls-failed", _reason_of_tls(error)) from error
        except (http.client.HTTPException, ValueError) as error:
            raise self.not_http(error) from error
        except OSError as error:
            raise self.cut_off(error) from error
        finally:
            self.spent("http", begun)

    # --- HTTP ---

    def request(self, method: str, body: bytes) -> bytes:
        headers = {
            "Host": _authority(self.scheme, self.host, self.port),
            "User-Agent": "verl-doctor",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Connection": "close",
            **self.question.headers,
        }
        if body or method == "POST":
            headers["Content-Length"] = str(len(body))
        target = _path(self.url)
        if self.speaks_to_proxy():
            target = f"http://{headers['Host']}{target}"
            headers |= _proxy_headers(self.proxy)
        try:
            head = "\r\n".join([f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())])
            encoded = head.encode("latin-1")
        except UnicodeEncodeError:  # its text quotes what cannot be sent, which may be a credential
            encoded = b""
        if not encoded or any(re.search(r"[\r\n\0]", value) for value in headers.values()):
            raise _Ended("http", "unsendable", "a header holds a character that HTTP cannot carry")
        return encoded + b"\r\n\r\n" + body

    def speaks_to_proxy(self) -> bool:
        return self.proxy is not None and self.scheme == "http" and not self.proxy.scheme.startswith("socks")

    def read(self, stream: Stream, method: str, begun: float) -> _Answer:
        reader = Reader(stream)
        response = http.client.HTTPResponse(reader, method=method)  # type: ignore[arg-type]
        try:
            response.begin()
        except http.client.RemoteDisconnected as error:
            raise ConnectionResetError("closed without an answer") from error
        seconds = time.monotonic() - begun
        body = b""
        while len(body) < MAX_BODY:
            piece = response.read1(MAX_BODY - len(body))
            if not piece:
                break
            body += piece
        answer = _Answer(response, body, seconds)
        if self.speaks_to_proxy():
            self.judge_proxy(answer.status, _server_of(answer), forbids=answer.status == 403 and _is_made_by_proxy(answer))
        self.at = "server"
        if answer.status == 400 and self.scheme == "http" and _WANTS_TLS.search(body):
            raise _Ended("tls", "plain-on-tls-port", "it says that it wants TLS")
        return answer

    def judge_proxy(self, status: int, server: str, *, forbids: bool) -> None:
        """Raise _Ended when a status says that the proxy did not pass the request on."""
        if forbids:
            raise _Ended("proxy", "proxy-denied", f"status {status}", status=status, server=server)
        if status == 407:
            raise _Ended("proxy", "proxy-login", f"status {status}", status=status, server=server)
        if status in {502, 503, 504}:
            raise _Ended("proxy", "proxy-error", f"status {status}", status=status, server=server)

    def not_http(self, error: Exception) -> _Ended:
        seen = str(error)
        if self.scheme == "http" and seen.startswith("\x15\x03"):
            return _Ended("tls", "plain-on-tls-port", "it answers in TLS")
        if self.at == "proxy":
            return _Ended("proxy", "not-a-proxy", "its answer is not HTTP")
        return _Ended("http", "garbage", "its answer is not HTTP", excerpt=_excerpt(seen.encode("utf-8", "replace")))

    def cut_off(self, error: OSError) -> _Ended:
        reason = error.strerror or str(error)
        if self.at == "proxy":
            return _Ended("proxy", "proxy-closed", reason)
        if self.scheme == "http" and self.speaks_tls():
            return _Ended("tls", "plain-on-tls-port", "it speaks TLS")
        return _Ended("http", "closed", reason)

    def describe(self, answer: _Answer) -> ProbeResult:
        content_type = answer.headers.get("Content-Type", "")
        secretive = "json" in content_type and answer.status < 400
        return ProbeResult(
            layer="http",
            cause="ok",
            address=_authority(self.scheme, self.host, self.port),
            status=answer.status,
            excerpt="" if secretive else _excerpt(answer.body),
            server=_server_of(answer),
            content_type=scrub(content_type)[:100],
            clock_offset_s=_clock_offset(answer),
            milliseconds=self.milliseconds,
        )

    def place(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """Where it ended, for a result."""
        proxy = self.proxy if self.at == "proxy" else None
        address = f"{proxy.host}:{proxy.port}" if proxy else f"{self.host}:{self.port}"
        return {"at": self.at, "address": address, "milliseconds": self.milliseconds, **details}

    def spent(self, layer: Layer, begun: float) -> None:
        self.milliseconds[layer] = round(self.milliseconds.get(layer, 0.0) + (time.monotonic() - begun) * 1000, 2)

    # --- the way to the server ---

    def open(self) -> Stream:
        """A connection over which the request can be sent."""
        self.at = "proxy" if self.proxy else "server"
        stream: Stream = self.connection()
        if self.proxy is not None and self.proxy.scheme == "https":
            stream = self.secure(stream, self.proxy.host, self.question.trust)
        if self.proxy is not None and not self.speaks_to_proxy():
            self.pass_proxy(stream, self.proxy)
            self.at = "server"
        if self.scheme == "https":
            stream = self.secure(stream, self.host, self.question.trust)
        return stream

    def connection(self) -> PlainStream:
        host, port = (self.proxy.host, self.proxy.port) if self.proxy else (self.host, self.port)
        addresses = self.addresses(host, port)
        begun = time.monotonic()
        try:
            stream = connect(addresses, self.deadline)
        except OutOfTime as error:
            raise _Ended("tcp", "no-answer", "no answer to the attempt to connect") from error
        except OSError as error:
            cause: Cause = "refused" if error.errno == errno.ECONNREFUSED else "unreachable"
            raise _Ended("tcp", cause, error.strerror or str(error)) from error
        finally:
            self.spent("tcp", begun)
        self.opened.append(stream)
        return stream

    def addresses(self, host: str, port: int) -> Addresses:
        begun = time.monotonic()
        try:
            return look_up(host, port, self.deadline)
        except NoSuchName as error:
            raise _Ended("dns", "dns-failed", str(error)) from error
        except OutOfTime as error:
            raise _Ended("dns", "dns-timeout", "the resolver did not answer in time") from error
        finally:
            self.spent("dns", begun)

    def secure(self, stream: Stream, host: str, trust: Trust) -> TlsStream:
        begun = time.monotonic()
        if trust.missing and trust.fatal:
            raise _Ended("tls", "ca-missing", f"{trust.variable} names {trust.missing}, which does not exist")
        try:
            context = make_context(trust)
        except OSError as error:
            raise _Ended("tls", "ca-missing", f"{trust.variable or 'a certificate file'} cannot be used: {error}") from error
        secured = TlsStream(stream, context, host)
        try:
            secured.shake_hands()
        except ssl.SSLCertVerificationError as error:
            cause = _cause_of_verification(error)
            raise _Ended("tls", cause, error.verify_message, certificate=self.shown_certificate(host)) from error
        except OutOfTime as error:
            raise _Ended("tls", "tls-timeout", "no answer to the TLS greeting") from error
        except OSError as error:  # ssl.SSLError is one
            raise _Ended("tls", *_cause_of_tls(error, secured.first)) from error
        finally:
            self.spent("tls", begun)
        return secured

    def shown_certificate(self, host: str) -> PeerCertificate | None:
        """The certificate that did not pass, from a second connection that checks nothing and sends nothing."""
        at = self.at
        trust = msgspec.structs.replace(self.question.trust, verify=False)
        with contextlib.suppress(_Ended, OutOfTime, OSError):
            stream: Stream = self.connection()
            if self.proxy is not None and at == "server":
                self.pass_proxy(stream, self.proxy)
            secured = TlsStream(stream, make_context(trust), host)
            secured.shake_hands()
            return read_certificate(secured.certificate())
        return None

    def speaks_tls(self) -> bool:
        """Whether the server of a plain URL answers a TLS greeting."""
        trust = Trust(verify=False)
        with contextlib.suppress(_Ended, OutOfTime, OSError):
            stream = self.connection()
            secured = TlsStream(stream, make_context(trust), self.host)
            try:
                secured.shake_hands()
            except ssl.SSLError:
                return secured.first[:2] in {b"\x16\x03", b"\x15\x03"}
            return True
        return False

    # --- proxies ---

    def pass_proxy(self, stream: Stream, proxy: Proxy) -> None:
        """Make the proxy connect to the server. Raises _Ended."""
        begun = time.monotonic()
        try:
            if proxy.scheme in {"socks5", "socks5h"}:
                self.pass_socks5(stream, proxy)
            elif proxy.scheme in {"http", "https"}:
                self.pass_connect(stream, proxy)
            else:
                raise _Ended("proxy", "unsupported-proxy", f"{proxy.scheme} proxies are not tried")
        except OutOfTime as error:
            raise _Ended("proxy", "proxy-silent", "no answer from the proxy in time") from error
        except OSError as error:
            raise _Ended("proxy", "proxy-closed", error.strerror or str(error)) from error
        finally:
            self.spent("proxy", begun)

    def pass_connect(self, stream: Stream, proxy: Proxy) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        headers = {"Host": f"{host}:{self.port}", "User-Agent": "verl-doctor", **_proxy_headers(proxy)}
        lines = [f"CONNECT {host}:{self.port} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        stream.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))
        answer = _read_head(stream)
        status = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
        if status is None:
            cause: Cause = "not-a-proxy" if answer else "proxy-closed"
            raise _Ended("proxy", cause, "its answer is not HTTP" if answer else "closed without an answer")
        code = int(status[1])
        forbids = not 200 <= code < 300 and code not in {407, 502, 503, 504}
        self.judge_proxy(code, "", forbids=forbids)

    def pass_socks5(self, stream: Stream, proxy: Proxy) -> None:
        """RFC 1928 and 1929."""
        methods = b"\x00\x02" if proxy.username else b"\x00"
        stream.send(b"\x05" + bytes([len(methods)]) + methods)
        received = _Bytes(stream)
        version, method = received.take(2)
        if version != 5:
            raise _Ended("proxy", "not-a-proxy", "its answer is not SOCKS5")
        if method == 2 and proxy.username:
            name, password = proxy.username.encode(), _password(proxy).encode()
            stream.send(b"\x01" + bytes([len(name)]) + name + bytes([len(password)]) + password)
            if received.take(2)[1] != 0:
                raise _Ended("proxy", "proxy-login", "the proxy does not accept the user name and password")
        elif method != 0:
            raise _Ended("proxy", "proxy-login", "the proxy asks for a user name and password")
        stream.send(b"\x05\x01\x00" + self.socks_address(proxy) + struct.pack(">H", self.port))
        code, kind = received.take(4)[1:4:2]
        if code != 0:
            cause: Cause = "proxy-denied" if code == 2 else "proxy-error"
            raise _Ended("proxy", cause, _SOCKS_REPLIES.get(code, f"SOCKS reply {code}"))
        received.take({1: 4, 4: 16}.get(kind) or received.take(1)[0])
        received.take(2)

    def socks_address(self, proxy: Proxy) -> bytes:
        host = self.host
        if not proxy.resolves_names:
            host = str(self.addresses(host, self.port)[0][1][0])
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            name = host.encode("idna")
            return b"\x03" + bytes([len(name)]) + name
        return (b"\x01" if address.version == 4 else b"\x04") + address.packed


_SOCKS_REPLIES = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "timed out",
}


class _Bytes:
    """Exact numbers of bytes from a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = b""

    def take(self, count: int) -> bytes:
        """Raises _Ended when the stream ends before."""
        while len(self._left) < count:
            data = self._stream.recv()
            if not data:
                raise _Ended("proxy", "proxy-closed", "closed in the middle of the greeting")
            self._left += data
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def _read_head(stream: Stream) -> bytes:
    """An HTTP head, at most `MAX_BODY` bytes of it."""
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) < MAX_BODY:
        data = stream.recv()
        if not data:
            break
        head += data
    return head


def _proxy_headers(proxy: Proxy | None) -> dict[str, str]:
    if proxy is None or proxy.password is None:
        return {}
    credentials = base64.b64encode(f"{proxy.username}:{_password(proxy)}".encode()).decode()
    return {"Proxy-Authorization": f"Basic {credentials}"}


def _password(proxy: Proxy) -> str:
    return (proxy.password.reveal() or "") if proxy.password is not None else ""


def _authority(scheme: str, host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port == {"http": 80, "https": 443}[scheme] else f"{shown}:{port}"


def _path(url: str) -> str:
    parts = urlsplit(url)
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return f"{path}?{quote(parts.query, safe='/%:@!$&()*+,;=?~-._')}" if parts.query else path


def _shown_location(url: str) -> str:
    """Scheme, host and path of where a redirect leads: its query may hold a session."""
    parts = urlsplit(url)
    return scrub(f"{parts.scheme}://{parts.netloc}{parts.path}")[:200]


def _server_of(answer: _Answer) -> str:
    return scrub(answer.headers.get("Server", "") or answer.headers.get("Via", ""))[:100]


def _is_made_by_proxy(answer: _Answer) -> bool:
    """Whether a refusal is the proxy's own: the services that are asked refuse in plain text or JSON, proxies with a page."""
    marks = any(name.lower().startswith(("proxy-", "x-squid-")) for name in answer.headers)
    return marks or not answer.body or "html" in answer.headers.get("Content-Type", "").lower()


def _excerpt(body: bytes) -> str:
    """The beginning of a text on one line, without tags."""
    text = re.sub(r"(?is)<(script|style).*?</\1>|<[^>]*>", " ", body[:4000].decode("utf-8", "replace"))
    text = "".join(character if character.isprintable() else " " for character in text)
    return scrub(" ".join(text.split()))[:200]


def _clock_offset(answer: _Answer) -> float | None:
    """Seconds by which the server's clock is ahead; the Date header counts whole seconds."""
    try:
        date = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
    except (TypeError, ValueError):
        return None
    if answer.headers.get("Age"):  # a cache answered: the date is that of the copy
        return None
    return round(date + 0.5 - (answer.arrived - answer.seconds / 2), 1)


def _cause_of_verification(error: ssl.SSLCertVerificationError) -> Cause:
    """By the codes of OpenSSL's x509_vfy.h."""
    causes: dict[int, Cause] = {9: "not-yet-valid", 10: "expired", 62: "wrong-host", 63: "wrong-host", 64: "wrong-host"}
    unknown = {2, 18, 19, 20, 21, 27}
    return "unknown-ca" if error.verify_code in unknown else causes.get(error.verify_code, "certificate-refused")


def _cause_of_tls(error: OSError, first: bytes) -> tuple[Cause, str]:
    if first and first[:1] not in {b"\x15", b"\x16"}:
        return "tls-on-plain-port", "it answers in plain text" if first.isascii() else "it does not speak TLS"
    if not first and not (isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError)):
        return "tls-closed", "the connection was closed during the TLS greeting"
    return ("tls-failed", _reason_of_tls(error)) if isinstance(error, ssl.SSLError) else ("tls-closed", str(error))


def _reason_of_tls(error: OSError) -> str:
    """`sslv3 alert handshake failure` and the like."""
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    return str(reason).replace("_", " ").lower()
