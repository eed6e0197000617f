"""Connections with one deadline over everything that is done on them: looking up a name, connecting, TLS, reading."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import selectors
import socket
import ssl
import threading
import time
from typing import Any, Protocol

CHUNK = 65536
_MAX_ADDRESSES = 8


class OutOfTime(Exception):
    """The deadline has passed."""


class NoSuchName(Exception):
    """The name cannot be resolved; the message is that of the resolver."""


class Deadline:
    """A point in time that all steps of a probe share."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds that are left; raises OutOfTime when there are none."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left


class Stream(Protocol):
    """Bytes in both directions. `recv` gives nothing at the end of the stream; both raise OutOfTime and OSError."""

    def send(self, data: bytes) -> None:
        """Send all of it."""

    def recv(self) -> bytes:
        """Wait for some bytes."""

    def close(self) -> None:
        """Release the connection."""


Addresses = list[tuple[int, Any]]


def look_up(host: str, port: int, deadline: Deadline) -> Addresses:
    """The addresses of a host, each with its family. Raises NoSuchName and OutOfTime.

    The resolver of the system cannot be interrupted: it runs in a thread that is left behind when it takes too long.
    """
    found: list[Addresses | Exception] = []

    def ask() -> None:
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.append([(family, address) for family, _, _, _, address in answers])
        except (OSError, UnicodeError) as error:
            found.append(error)

    thread = threading.Thread(target=ask, name="name look-up", daemon=True)
    thread.start()
    thread.join(deadline.remaining())
    if not found:
        raise OutOfTime
    answer = found[0]
    if isinstance(answer, Exception):
        raise NoSuchName(getattr(answer, "strerror", None) or str(answer))
    return answer[:_MAX_ADDRESSES]


def connect(addresses: Addresses, deadline: Deadline) -> PlainStream:
    """A connection to whichever address answers first. Raises OutOfTime, or the OSError of an address that failed."""
    pending: set[socket.socket] = set()
    failures: list[OSError] = []
    try:
        for family, address in addresses:
            _begin(family, address, pending, failures)
        while pending:
            for connection in _settled(pending, deadline.remaining()):
                pending.remove(connection)
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    return PlainStream(connection, deadline)
                connection.close()
                failures.append(OSError(code, os.strerror(code)))
    finally:
        for connection in pending:
            connection.close()
    # A refusal says more than an address family without a route, which is usual for IPv6.
    raise next((failure for failure in failures if failure.errno == errno.ECONNREFUSED), failures[0])


def _settled(pending: set[socket.socket], seconds: float) -> list[socket.socket]:
    """The connections of which it is decided whether they are made."""
    with selectors.DefaultSelector() as selector:
        by_number = {selector.register(connection, selectors.EVENT_WRITE).fd: connection for connection in pending}
        return [by_number[key.fd] for key, _ in selector.select(seconds)]


def _begin(family: int, address: Any, pending: set[socket.socket], failures: list[OSError]) -> None:
    try:
        connection = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:  # the family is not supported here
        failures.append(error)
        return
    connection.setblocking(False)
    code = connection.connect_ex(address)
    if code in {0, errno.EINPROGRESS}:
        pending.add(connection)
    else:
        connection.close()
        failures.append(OSError(code, os.strerror(code)))


class PlainStream:
    """A TCP connection."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._connection.settimeout(self._deadline.remaining())
        try:
            self._connection.sendall(data)
        except TimeoutError as error:
            raise OutOfTime from error

    def recv(self) -> bytes:
        """Wait for some bytes."""
        self._connection.settimeout(self._deadline.remaining())
        try:
            return self._connection.recv(CHUNK)
        except TimeoutError as error:
            raise OutOfTime from error

    def close(self) -> None:
        """Release the connection."""
        self._connection.close()


class TlsStream:
    """TLS over any stream, another TLS stream included. The constructor shakes hands: it raises what TLS and the stream raise.

    `first` are the first bytes that the other side sent: they tell a server that does not speak TLS.
    """

    def __init__(self, inner: Stream, context: ssl.SSLContext, host: str) -> None:
        self._inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.first = b""

    def shake_hands(self) -> None:
        """Agree on keys and check the certificate. Raises ssl.SSLError, OSError, OutOfTime."""
        self._do(self._tls.do_handshake)

    def certificate(self) -> bytes:
        """The certificate of the other side in DER form, checked or not."""
        return self._tls.getpeercert(binary_form=True) or b""

    def _do(self, operation: Any, *arguments: Any) -> Any:
        while True:
            done, result = self._attempt(operation, *arguments)
            self._flush()
            if done:
                return result
            self._feed()

    def _attempt(self, operation: Any, *arguments: Any) -> tuple[bool, Any]:
        """Whether the operation came to an end, and its result; otherwise it waits for more bytes."""
        try:
            return True, operation(*arguments)
        except ssl.SSLWantReadError:
            return False, None
        except ssl.SSLError:
            with contextlib.suppress(OSError):  # the alert that says why; the other side may be gone
                self._flush()
            raise

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._inner.send(self._outgoing.read())

    def _feed(self) -> None:
        data = self._inner.recv()
        self.first = self.first or data[:200]
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._do(self._tls.write, data)

    def recv(self) -> bytes:
        """Wait for some bytes."""
        try:
            return bytes(self._do(self._tls.read, CHUNK))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def close(self) -> None:
        """Release the connection."""
        self._inner.close()


class Reader(io.RawIOBase):
    """A stream as a file, for http.client, and with how many bytes came."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = b""
        self.received = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what is there."""
        data = self._left or self._stream.recv()
        count = min(len(data), len(buffer))
        buffer[:count] = data[:count]
        self._left = data[count:]
        self.received += count
        return count

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What http.client asks of a socket."""
        return io.BufferedReader(self)
