"""The probe against servers and proxies that misbehave in every way: the verdict, and how long it takes."""

import base64
import datetime
import socket
import threading
import time
import tracemalloc

import pytest

from verl_doctor.network import probe
from verl_doctor.network.certificates import Trust
from verl_doctor.network.probe import Question, ask
from verl_doctor.network.proxies import resolve
from verl_doctor.network.x509 import read_certificate

SHORT_S = 0.6
SECRET = "key-of-the-right-host-0123456789"


def question(url, environment=None, *, client="requests", trust=None, **more):
    return Question(url=url, route=resolve(client, url, environment or {}), trust=trust or Trust(), **more)


def probed(url, environment=None, *, deadline_s=5.0, **more):
    return ask(question(url, environment, **more), deadline_s=deadline_s)


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


def test_an_answer_with_the_time_of_each_layer(serve, handlers):
    server = serve(handlers.answer(body=b'{"a": 1}', Content_Type="application/json", Server="stub"))
    result, body = probed(f"http://127.0.0.1:{server.port}/api/x y?q=a b", headers={"Authorization": f"Bearer {SECRET}"})
    assert (result.cause, result.layer, result.status, result.server) == ("ok", "http", 200, "stub")
    assert body == b'{"a": 1}'
    assert set(result.milliseconds) == {"dns", "tcp", "http"}
    head = server.seen[0].decode()
    assert head.startswith("GET /api/x%20y?q=a%20b HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{server.port}\r\n" in head
    assert SECRET in head


def test_a_post_carries_its_body(serve, handlers):
    server = serve(handlers.answer())
    probed(f"http://127.0.0.1:{server.port}/", method="POST", body=b"12345")
    assert b"Content-Length: 5\r\n" in server.seen[0]


def test_a_header_that_cannot_be_sent_is_not_quoted(serve, handlers):
    server = serve(handlers.answer())
    for value in (f"{SECRET}\r\nX: y", "密钥"):
        result, _ = probed(f"http://127.0.0.1:{server.port}/", headers={"Authorization": value})
        assert result.cause == "unsendable"
        assert SECRET not in repr(result)
    assert not server.seen


def test_refused(closed_port):
    result, _ = probed(f"http://127.0.0.1:{closed_port}/")
    assert (result.layer, result.cause, result.at, result.address) == ("tcp", "refused", "server", f"127.0.0.1:{closed_port}")


def test_a_name_that_does_not_exist():
    begun = time.monotonic()
    result, _ = probed("http://no-such-host.invalid/", deadline_s=3)
    assert (result.layer, result.cause) in {("dns", "dns-failed"), ("dns", "dns-timeout")}
    assert time.monotonic() - begun < 3.5


def test_a_resolver_that_does_not_answer_is_left_behind(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(20) and [])
    begun = time.monotonic()
    result, _ = probed("http://slow.example/", deadline_s=SHORT_S)
    released.set()
    assert result.cause == "dns-timeout"
    assert time.monotonic() - begun < SHORT_S + 0.5


def test_a_name_longer_than_names_may_be():
    assert probed(f"http://{'a' * 70}.example/")[0].cause == "dns-failed"


def test_the_address_that_answers_wins_over_one_that_does_not(serve, handlers, black_hole, monkeypatch):
    server = serve(handlers.answer())
    found = [(2, 1, 6, "", ("127.0.0.1", black_hole)), (2, 1, 6, "", ("127.0.0.1", server.port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    result, _ = probed("http://two.example/", deadline_s=2)
    assert result.cause == "ok"
    assert result.milliseconds["tcp"] < 1000


@pytest.mark.parametrize(
    ("name", "layer", "cause"),
    [
        ("never", "http", "silent"),
        ("drip", "http", "silent"),
        ("endless_header", "http", "garbage"),
        ("garbage", "http", "garbage"),
        ("reset", "http", "closed"),
        ("endless", "http", "ok"),
    ],
)
def test_misbehaviour_is_bounded_in_time_and_memory(name, layer, cause, serve, handlers):
    server = serve(getattr(handlers, name))
    tracemalloc.start()
    begun = time.monotonic()
    result, body = probed(f"http://127.0.0.1:{server.port}/", deadline_s=SHORT_S)
    spent = time.monotonic() - begun
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (result.layer, result.cause) == (layer, cause)
    assert spent < SHORT_S + 0.5
    assert len(body) <= probe.MAX_BODY
    assert peak < 4_000_000


def test_a_black_hole(black_hole):
    begun = time.monotonic()
    result, _ = probed(f"http://127.0.0.1:{black_hole}/", deadline_s=SHORT_S)
    assert (result.layer, result.cause) == ("tcp", "no-answer")
    assert SHORT_S - 0.1 < time.monotonic() - begun < SHORT_S + 0.5


# --- redirects ---


def test_a_redirect_within_the_host_is_followed_and_becomes_get(serve, handlers):
    def handle(server, connection):
        head = server.read_request(connection)
        if head.startswith(b"POST /old"):
            connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n")
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew")

    server = serve(handle)
    result, body = probed(f"http://127.0.0.1:{server.port}/old", method="POST", body=b"x")
    assert (result.cause, body) == ("ok", b"new")
    assert server.seen[1].startswith(b"GET /new ")


def test_a_redirect_loop(serve, handlers):
    server = serve(handlers.answer(302, b"", Location="/again"))
    result, _ = probed(f"http://127.0.0.1:{server.port}/")
    assert result.cause == "redirect-loop"
    assert server.connections == probe.MAX_REDIRECTS + 1


def test_a_redirect_to_another_host_gets_no_credentials(serve, handlers):
    other = serve(handlers.answer())
    server = serve(handlers.answer(302, b"", Location=f"http://127.0.0.1:{other.port}/login?session=abc"))
    result, _ = probed(f"http://127.0.0.1:{server.port}/", headers={"Authorization": f"Bearer {SECRET}"})
    assert (result.cause, result.location) == ("redirect-elsewhere", f"http://127.0.0.1:{other.port}/login")
    assert other.connections == 0


def test_a_redirect_to_tls_on_the_same_name_is_another_host(serve, handlers):
    server = serve(handlers.answer(301, b"", Location="https://127.0.0.1/"))
    assert probed(f"http://127.0.0.1:{server.port}/")[0].location == "https://127.0.0.1/"


# --- proxies ---


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_through_a_proxy(scheme, serve, handlers, authority):
    context = authority.server("api.example") if scheme == "https" else None
    server = serve(handlers.answer(), context=context)
    login = base64_of("us er:p@ss")
    proxy = serve(handlers.forward_proxy(login, names={"api.example": "127.0.0.1"}))
    environment = {f"{scheme}_proxy": f"http://us%20er:p%40ss@127.0.0.1:{proxy.port}"}
    result, _ = probed(
        f"{scheme}://api.example:{server.port}/x",
        environment,
        trust=Trust(files=(authority.file,)),
        headers={"Authorization": f"Bearer {SECRET}"},
    )
    assert result.cause == "ok", result
    assert f"Proxy-Authorization: Basic {login}".encode() in proxy.seen[0]
    if scheme == "https":
        assert SECRET.encode() not in proxy.seen[0]
        assert b"Proxy-Authorization" not in server.seen[0]
        assert set(result.milliseconds) == {"dns", "tcp", "proxy", "tls", "http"}


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_password(scheme, serve, handlers):
    proxy = serve(handlers.forward_proxy(base64_of("user:right")))
    environment = {f"{scheme}_proxy": f"http://user:wrong@127.0.0.1:{proxy.port}"}
    result, _ = probed(f"{scheme}://api.example:8000/", environment)
    assert (result.layer, result.cause, result.at, result.status) == ("proxy", "proxy-login", "proxy", 407)
    assert result.address == f"127.0.0.1:{proxy.port}"
    assert "wrong" not in repr(result)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_forbids(scheme, serve, handlers):
    proxy = serve(handlers.forward_proxy(deny="403 Forbidden"))
    result, _ = probed(f"{scheme}://api.example/", {f"{scheme}_proxy": f"127.0.0.1:{proxy.port}"})
    assert (result.cause, result.status) == ("proxy-denied", 403)


def test_a_server_behind_a_proxy_that_forbids(serve, handlers):
    server, proxy = (
        serve(handlers.answer(403, b"Invalid Host header", Content_Type="text/plain")),
        serve(handlers.forward_proxy()),
    )
    result, _ = probed(f"http://127.0.0.1:{server.port}/", {"http_proxy": f"127.0.0.1:{proxy.port}"})
    assert (result.cause, result.at, result.status) == ("ok", "server", 403)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_cannot_reach_the_server(scheme, serve, handlers, closed_port):
    proxy = serve(handlers.forward_proxy())
    result, _ = probed(f"{scheme}://127.0.0.1:{closed_port}/", {f"{scheme}_proxy": f"127.0.0.1:{proxy.port}"})
    assert (result.layer, result.cause, result.status) == ("proxy", "proxy-error", 502)


@pytest.mark.parametrize(
    ("name", "cause"),
    [("never", "proxy-silent"), ("reset", "proxy-closed"), ("garbage", "not-a-proxy"), ("drip", "proxy-silent")],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_none(scheme, name, cause, serve, handlers):
    proxy = serve(getattr(handlers, name))
    result, _ = probed(f"{scheme}://api.example/", {f"{scheme}_proxy": f"127.0.0.1:{proxy.port}"}, deadline_s=SHORT_S)
    assert (result.cause, result.at) == (cause, "proxy")


def test_a_dead_proxy(closed_port):
    result, _ = probed("https://api.example/", {"https_proxy": f"127.0.0.1:{closed_port}"})
    assert (result.layer, result.cause, result.at, result.address) == ("tcp", "refused", "proxy", f"127.0.0.1:{closed_port}")


def test_a_proxy_that_is_spoken_to_in_tls(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server("api.example"))
    proxy = serve(handlers.forward_proxy(names={"api.example": "127.0.0.1"}), context=authority.server())
    environment = {"https_proxy": f"https://127.0.0.1:{proxy.port}"}
    result, _ = probed(f"https://api.example:{server.port}/", environment, trust=Trust(files=(authority.file,)))
    assert result.cause == "ok", result


def test_an_address_of_a_proxy_that_the_client_refuses(serve, handlers):
    server = serve(handlers.answer())
    result, _ = probed(f"http://127.0.0.1:{server.port}/", {"http_proxy": '"http://127.0.0.1:1"'})
    assert (result.layer, result.cause) == ("route", "route-refused")
    assert server.connections == 0


@pytest.mark.parametrize(("scheme", "kind", "host"), [("socks5h", 3, "localhost"), ("socks5", 1, "127.0.0.1")])
def test_through_socks(scheme, kind, host, serve, handlers):
    server = serve(handlers.answer())
    proxy = serve(handlers.socks5((b"user", b"pw")))
    environment = {"http_proxy": f"{scheme}://user:pw@127.0.0.1:{proxy.port}"}
    result, _ = probed(f"http://localhost:{server.port}/", environment)
    assert result.cause == "ok", result
    assert proxy.seen == [(kind, host, server.port)]


@pytest.mark.parametrize(
    ("login", "reply", "cause"),
    [((b"user", b"other"), 0, "proxy-login"), (None, 5, "proxy-error"), (None, 2, "proxy-denied")],
)
def test_socks_that_does_not_pass_on(login, reply, cause, serve, handlers):
    proxy = serve(handlers.socks5(login, reply))
    environment = {"https_proxy": f"socks5h://user:pw@127.0.0.1:{proxy.port}"}
    assert probed("https://api.example/", environment)[0].cause == cause


def test_socks_that_is_none(serve, handlers):
    proxy = serve(handlers.answer())
    assert probed("https://a.example/", {"all_proxy": f"socks5://127.0.0.1:{proxy.port}"}, deadline_s=1)[0].layer == "proxy"


# --- TLS ---


def test_a_certificate_of_an_authority_that_is_not_trusted(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server())
    result, _ = probed(f"https://127.0.0.1:{server.port}/", headers={"Authorization": SECRET})
    assert (result.layer, result.cause) == ("tls", "unknown-ca")
    assert result.certificate.issuer == "Staged Interception Ltd"
    assert result.certificate.subject == "127.0.0.1"
    assert not any(SECRET.encode() in head for head in server.seen)


def test_a_trusted_certificate(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server())
    result, _ = probed(f"https://127.0.0.1:{server.port}/", trust=Trust(files=(authority.file,)))
    assert result.cause == "ok"
    assert "tls" in result.milliseconds


def test_an_expired_certificate(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server(expired=True))
    result, _ = probed(f"https://127.0.0.1:{server.port}/", trust=Trust(files=(authority.file,)))
    assert (result.cause, result.certificate.not_after) == ("expired", "2021-01-02T00:00:00+00:00")


def test_a_certificate_for_another_host(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server("other.example"))
    result, _ = probed(f"https://127.0.0.1:{server.port}/", trust=Trust(files=(authority.file,)))
    assert (result.cause, result.certificate.subject) == ("wrong-host", "other.example")


def test_the_certificate_behind_a_proxy_is_named(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server("api.example"))
    proxy = serve(handlers.forward_proxy(names={"api.example": "127.0.0.1"}))
    result, _ = probed(f"https://api.example:{server.port}/", {"https_proxy": f"127.0.0.1:{proxy.port}"})
    assert (result.cause, result.at, result.certificate.subject) == ("unknown-ca", "server", "api.example")


def test_verification_that_is_switched_off(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server(expired=True))
    assert probed(f"https://127.0.0.1:{server.port}/", trust=Trust(verify=False))[0].cause == "ok"


def test_a_server_that_wants_a_client_certificate(serve, handlers, authority, tmp_path):
    server = serve(handlers.answer(), context=authority.server(client_authority=True))
    url, files = f"https://127.0.0.1:{server.port}/", (authority.file,)
    assert probed(url, trust=Trust(files=files))[0].cause in {"tls-failed", "closed"}
    shown = Trust(files=files, client_certificate=authority.client_file(tmp_path))
    assert probed(url, trust=shown)[0].cause == "ok"


def test_tls_to_a_plain_port(serve, handlers):
    def plain(server, connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    server = serve(plain)
    result, _ = probed(f"https://127.0.0.1:{server.port}/")
    assert (result.layer, result.cause) == ("tls", "tls-on-plain-port")


def test_tls_without_an_answer(serve, handlers):
    server = serve(handlers.never)
    begun = time.monotonic()
    result, _ = probed(f"https://127.0.0.1:{server.port}/", deadline_s=SHORT_S)
    assert result.cause == "tls-timeout"
    assert time.monotonic() - begun < SHORT_S + 0.5


def test_tls_that_is_closed_at_once(serve):
    server = serve(lambda server, connection: None)
    assert probed(f"https://127.0.0.1:{server.port}/")[0].cause == "tls-closed"


def test_plain_text_to_a_tls_port(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server())
    result, _ = probed(f"http://127.0.0.1:{server.port}/")
    assert (result.layer, result.cause) == ("tls", "plain-on-tls-port")


def test_what_nginx_says_to_plain_text(serve, handlers):
    server = serve(handlers.answer(400, b"<h1>400</h1>The plain HTTP request was sent to HTTPS port"))
    assert probed(f"http://127.0.0.1:{server.port}/")[0].cause == "plain-on-tls-port"


def test_a_bundle_that_does_not_exist(serve, handlers, authority):
    server = serve(handlers.answer(), context=authority.server())
    trust = Trust(variable="REQUESTS_CA_BUNDLE", missing="/no/such.pem", fatal=True)
    result, _ = probed(f"https://127.0.0.1:{server.port}/", trust=trust)
    assert (result.cause, "/no/such.pem" in result.reason) == ("ca-missing", True)


def test_a_bundle_without_a_certificate(serve, handlers, authority, tmp_path):
    server = serve(handlers.answer(), context=authority.server())
    (tmp_path / "empty.pem").write_text("nothing")
    trust = Trust(variable="REQUESTS_CA_BUNDLE", files=(str(tmp_path / "empty.pem"),))
    assert probed(f"https://127.0.0.1:{server.port}/", trust=trust)[0].cause == "ca-missing"


def test_bytes_that_are_no_certificate():
    for data in (b"", b"0", b"0\x82\xff\xff", b"\x30\x03\x02\x01\x01", bytes(200)):
        assert read_certificate(data) is None


# --- what is told of an answer ---


def test_the_clock_of_the_server(serve, handlers):
    late = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=300)
    server = serve(handlers.answer(Date=late.strftime("%a, %d %b %Y %H:%M:%S GMT")))
    assert probed(f"http://127.0.0.1:{server.port}/")[0].clock_offset_s == pytest.approx(300, abs=1.5)


def test_no_clock_from_a_cache_or_from_nonsense(serve, handlers):
    for headers in ({"Date": "yesterday"}, {"Date": "Mon, 01 Jan 2024 00:00:00 GMT", "Age": "5"}):
        server = serve(handlers.answer(**headers))
        assert probed(f"http://127.0.0.1:{server.port}/")[0].clock_offset_s is None


def test_an_excerpt_holds_neither_tags_nor_credentials(serve, handlers):
    key = "a" * 40
    server = serve(handlers.answer(body=f"<html><script>x()</script><h1>Sign in</h1> token={key}".encode()))
    assert probed(f"http://127.0.0.1:{server.port}/")[0].excerpt == "Sign in token=***"


def test_no_excerpt_of_json_that_may_hold_a_session(serve, handlers):
    server = serve(handlers.answer(body=b'{"sid": "s3ss10n"}', Content_Type="application/json; charset=utf-8"))
    result, body = probed(f"http://127.0.0.1:{server.port}/")
    assert b"s3ss10n" in body
    assert "s3ss10n" not in repr(result)


def test_nothing_is_read_from_this_process_s_environment(serve, handlers, authority, monkeypatch):
    server = serve(handlers.answer(), context=authority.server())
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, authority.file)
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    result, _ = probed(f"https://127.0.0.1:{server.port}/")
    assert result.cause == "unknown-ca"
