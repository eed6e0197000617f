"""Servers on loopback that misbehave as they are told, proxies, and certificates of a private authority; all as fixtures."""

import contextlib
import datetime
import re
import socket
import ssl
import struct
import threading
import time
import types

import pytest

PATIENCE_S = 10


class Server:
    """Serves each connection with `handle(connection)` in a thread; `seen` collects what `read_request` read."""

    def __init__(self, handle, *, context=None, backlog=50):
        self.handle, self.context = handle, context
        self.seen, self.connections = [], 0
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(backlog)
        self.port = self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError):
            connection.settimeout(PATIENCE_S)
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            self.handle(self, connection)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def read_request(self, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            data = connection.recv(65536)
            if not data:
                break
            head += data
        self.seen.append(head)
        return head

    def close(self):
        self.listener.close()
        for connection in self.open:
            connection.close()


def answer(status=200, body=b"OK", **headers):
    """A handler that reads a request and gives this answer."""

    def handle(server, connection):
        server.read_request(connection)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in names.items())]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)

    return handle


def forward_proxy(login=None, deny=None, names=None):
    """A handler that is a real forward proxy: CONNECT tunnels and absolute requests; `names` says where names lead."""

    def handle(server, connection):
        head = server.read_request(connection)
        method, target, _ = head.decode("latin-1").split("\r\n")[0].split(" ")
        if deny or (login and f"proxy-authorization: basic {login}".lower() not in head.decode("latin-1").lower()):
            status = deny or "407 Proxy Authentication Required"
            connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nVia: 1.1 staged\r\n\r\n".encode())
            return
        authority = target if method == "CONNECT" else re.match(r"http://([^/]+)", target)[1]
        host, _, port = authority.rpartition(":")
        address = ((names or {}).get(host.strip("[]"), host.strip("[]")), int(port))
        try:
            upstream = socket.create_connection(address, 5)
        except OSError:
            connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        if method == "CONNECT":
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            upstream.sendall(head)  # servers take the absolute form too (RFC 9112)
        relay(connection, upstream)

    return handle


def relay(left, right):
    """Pass everything on in both directions."""

    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=pump, args=(left, right), daemon=True)
    thread.start()
    pump(right, left)
    thread.join(PATIENCE_S)
    right.close()


def socks5(login=None, reply=0):
    def handle(server, connection):
        methods = connection.recv(2)[1]
        offered = connection.recv(methods)
        wanted = 2 if login else 0
        if wanted not in offered:
            connection.sendall(b"\x05\xff")
            return
        connection.sendall(bytes([5, wanted]))
        if login:
            _, size = connection.recv(2)
            name = connection.recv(size)
            password = connection.recv(connection.recv(1)[0])
            good = (name, password) == login
            connection.sendall(bytes([1, 0 if good else 1]))
            if not good:
                return
        kind = connection.recv(4)[3]
        host = connection.recv(connection.recv(1)[0]).decode() if kind == 3 else socket.inet_ntoa(connection.recv(4))
        (port,) = struct.unpack(">H", connection.recv(2))
        server.seen.append((kind, host, port))
        connection.sendall(bytes([5, reply, 0, 1, 0, 0, 0, 0, 0, 0]))
        if reply == 0:
            relay(connection, socket.create_connection(("127.0.0.1", port), 5))

    return handle


def reset(server, connection):
    server.read_request(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def never(server, connection):
    server.read_request(connection)
    time.sleep(PATIENCE_S)


def drip(server, connection):
    """One byte at a time, for ever."""
    server.read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        connection.sendall(b"a")
        time.sleep(0.05)


def endless(server, connection):
    """A body that never ends, as fast as it goes."""
    server.read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    block = b"x" * 65536
    while True:
        connection.sendall(block)


def endless_header(server, connection):
    server.read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X" * 65536)


def garbage(server, connection):
    server.read_request(connection)
    connection.sendall(b"\x00\x01-ERR unknown command\r\n" * 50)


@pytest.fixture(scope="session")
def handlers():
    """What a server may do, by name."""
    return types.SimpleNamespace(
        answer=answer,
        forward_proxy=forward_proxy,
        socks5=socks5,
        reset=reset,
        never=never,
        drip=drip,
        endless=endless,
        endless_header=endless_header,
        garbage=garbage,
    )


@pytest.fixture
def serve():
    servers = []

    def start(handle, **options):
        servers.append(Server(handle, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def black_hole():
    """A port whose queue of connections is full: the attempt to connect gets no answer."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = []
    for _ in range(4):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        waiting.append(client)
    time.sleep(0.05)
    yield listener.getsockname()[1]
    for client in waiting:
        client.close()
    listener.close()


@pytest.fixture
def closed_port():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


class Authority:
    """A private certificate authority: `file` is its certificate, `server(...)` the TLS side of a server."""

    def __init__(self, folder):
        trustme = pytest.importorskip("trustme")
        self.authority = trustme.CA(organization_name="Staged Interception Ltd")
        self.file = str(folder / "authority.pem")
        self.authority.cert_pem.write_to_path(self.file)

    def server(self, name="127.0.0.1", *, expired=False, client_authority=None):
        past = datetime.datetime(2021, 1, 2, tzinfo=datetime.timezone.utc)
        options = {"not_after": past, "not_before": past - datetime.timedelta(days=1)} if expired else {}
        certificate = self.authority.issue_cert(name, common_name=name, **options)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        if client_authority:
            self.authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_file(self, folder):
        certificate = self.authority.issue_cert("client@example.invalid")
        path = folder / "client.pem"
        path.write_bytes(certificate.private_key_and_cert_chain_pem.bytes())
        return str(path)


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))
