"""Which proxy each client uses: a table measured with the real clients, and the functions of urllib, requests and httpx."""

import os
import urllib.request
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_doctor.network.proxies import resolve

GOOD, DEAD, BAD_IP = "http://127.0.0.1:3128", "http://127.0.0.1:9", "http://10.77.0.40:8000/"
API, APEX, X_API = "http://api.corp.test:8000/", "http://corp.test:8000/", "http://xcorp.test:8000/"
SECURE = "https://api.corp.test:8443/"
CLIENTS = ("requests", "urllib", "httpx", "go", "grpc")


def both(entry, **more):
    return {"http_proxy": GOOD, "HTTP_PROXY": GOOD, "no_proxy": entry, "NO_PROXY": entry} | more


def set_to(value):
    return {"http_proxy": value, "HTTP_PROXY": value}


# P through the proxy, D directly, S through a SOCKS proxy, E the client raises an error, X the dead proxy,
# W it speaks HTTP to something that is no HTTP proxy, - not measured.
MEASURED = [
    ("HTTP_PROXY in upper case", API, {"HTTP_PROXY": GOOD}, "PPPPD"),
    ("http_proxy in lower case", API, {"http_proxy": GOOD}, "PPPPP"),
    ("lower case good, upper case dead", API, {"http_proxy": GOOD, "HTTP_PROXY": DEAD}, "PPPXP"),
    ("lower case dead, upper case good", API, {"http_proxy": DEAD, "HTTP_PROXY": GOOD}, "XXXP-"),
    ("HTTPS_PROXY", SECURE, {"HTTPS_PROXY": GOOD}, "PPPPD"),
    ("https_proxy", SECURE, {"https_proxy": GOOD}, "PPPPP"),
    ("ALL_PROXY, http", API, {"ALL_PROXY": GOOD}, "PDPDD"),
    ("all_proxy, http", API, {"all_proxy": GOOD}, "PDPDD"),
    ("ALL_PROXY, https", SECURE, {"ALL_PROXY": GOOD}, "PDPDD"),
    ("all_proxy, https", SECURE, {"all_proxy": GOOD}, "PDPDD"),
    ("http_proxy only, https", SECURE, {"http_proxy": GOOD}, "DDDD-"),
    ("https_proxy only, http", API, {"https_proxy": GOOD}, "DDDD-"),
    ("no scheme", API, set_to("127.0.0.1:3128"), "PPPPD"),
    ("no scheme, with credentials", API, set_to("user:pw@127.0.0.1:3128"), "EPPP-"),
    ("lower case empty, upper case set", API, {"http_proxy": "", "HTTP_PROXY": GOOD}, "DDDPD"),
    ("trailing path", API, set_to(GOOD + "/foo/"), "PPPP-"),
    ("blanks around", API, set_to(f" {GOOD} "), "EEED-"),
    ("quotes in the value", API, set_to(f'"{GOOD}"'), "EEEE-"),
    ("port is not a number", API, set_to("http://127.0.0.1:abc"), "EEEE-"),
    ("ftp://", API, set_to("ftp://127.0.0.1:3128"), "EEEPD"),
    ("socks5://", API, set_to("socks5://127.0.0.1:1080"), "SESS-"),
    ("socks5h://", API, set_to("socks5h://127.0.0.1:1080"), "SESS-"),
    ("socks://", API, set_to("socks://127.0.0.1:1080"), "EEEW-"),
    ("ALL_PROXY is socks5", API, {"ALL_PROXY": "socks5://127.0.0.1:1080"}, "SDSDD"),
    ("https:// proxy", API, set_to("https://127.0.0.1:3128"), "TTTT-"),
    ("REQUEST_METHOD set, upper case", API, {"REQUEST_METHOD": "GET", "HTTP_PROXY": GOOD}, "DDDE-"),
    ("exact host", API, both("api.corp.test"), "DDDDD"),
    ("parent domain", API, both("corp.test"), "DDDDD"),
    (".corp.test, below", API, both(".corp.test"), "DDDDD"),
    (".corp.test, the name itself", APEX, both(".corp.test"), "DDPPD"),
    ("*.corp.test, below", API, both("*.corp.test"), "PPPDP"),
    ("*.corp.test, the name itself", APEX, both("*.corp.test"), "PPPPP"),
    ("corp.test for xcorp.test", X_API, both("corp.test"), "PPPPP"),
    ("*", API, both("*"), "DDDDP"),
    ("foo.test,*", API, both("foo.test,*"), "PPDDP"),
    ("network, address", BAD_IP, both("10.77.0.0/16"), "DPPDD"),
    ("network, name", API, both("10.77.0.0/16"), "PPPPP"),
    ("exact address", BAD_IP, both("10.77.0.40"), "DDDDD"),
    ("10.77.", BAD_IP, both("10.77."), "PPPPP"),
    ("10.77.*", BAD_IP, both("10.77.*"), "PPPPP"),
    ("address with port", BAD_IP, both("10.77.0.40:8000"), "PDDDP"),
    ("name with port", API, both("api.corp.test:8000"), "DDDDP"),
    ("name with another port", API, both("api.corp.test:9999"), "PPPPP"),
    ("blanks around the items", API, both(" foo.test , api.corp.test "), "DDDDD"),
    ("separated by blanks", API, both("foo.test api.corp.test"), "PPPPP"),
    ("separated by semicolons", API, both("foo.test;api.corp.test"), "PPPPP"),
    ("upper case", API, both("API.CORP.TEST"), "DDDDD"),
    ("trailing dot", API, both("api.corp.test."), "PPPPP"),
    ("only NO_PROXY", API, {"http_proxy": GOOD, "HTTP_PROXY": GOOD, "NO_PROXY": "api.corp.test"}, "DDDDP"),
    ("only no_proxy", API, {"http_proxy": GOOD, "HTTP_PROXY": GOOD, "no_proxy": "api.corp.test"}, "DDDDD"),
    ("lower case other, upper case matches", API, both("foo.test", NO_PROXY="api.corp.test"), "PPPDP"),
    ("lower case empty, upper case matches", API, both("", NO_PROXY="api.corp.test"), "DPPDP"),
    ("localhost", "http://localhost:8000/", set_to(GOOD), "PPPDP"),
    ("127.0.0.1", "http://127.0.0.1:8000/", set_to(GOOD), "PPPDP"),
    ("[::1]", "http://[::1]:8000/", set_to(GOOD), "PPPDP"),
    ("a private address", BAD_IP, set_to(GOOD), "PPPPP"),
    ("localhost for 127.0.0.1", "http://127.0.0.1:8000/", both("localhost"), "PPPDP"),
    ("::1 for [::1]", "http://[::1]:8000/", both("::1"), "DPDDD"),
    ("[::1] for [::1]", "http://[::1]:8000/", both("[::1]"), "PDEDP"),
    ("fd00::40", "http://[fd00::40]:8000/", both("fd00::40"), "DPDDD"),
    ("fd00::/8", "http://[fd00::40]:8000/", both("fd00::/8"), "PPEDD"),
    ("127.0.0.0/8", "http://127.0.0.1:8000/", both("127.0.0.0/8"), "DPPDD"),
    ("127.0.0.1/8", "http://127.0.0.1:8000/", both("127.0.0.1/8"), "DPDDD"),
    ("a URL in the list", API, both("http://api.corp.test"), "PPDPP"),
]


def letter(client, route):
    if route.way != "proxy":
        return {"direct": "D", "refused": "E"}[route.way]
    if route.proxy.scheme.startswith("socks"):
        return "S"
    if route.proxy.scheme == "https":
        return "T"
    return {9: "X", 1080: "W"}.get(route.proxy.port, "P")


@pytest.mark.parametrize(("name", "url", "environment", "expected"), MEASURED, ids=[row[0] for row in MEASURED])
def test_what_the_real_clients_did(name, url, environment, expected):
    found = "".join(letter(client, resolve(client, url, environment)) for client in CLIENTS)
    judged = "".join("-" if want == "-" else got for want, got in zip(expected, found, strict=True))
    assert judged == expected


def test_the_variable_that_decides_is_named():
    assert resolve("go", SECURE, {"HTTPS_PROXY": GOOD, "https_proxy": DEAD}).variable == "HTTPS_PROXY"
    assert resolve("requests", SECURE, {"HTTPS_PROXY": DEAD, "https_proxy": GOOD}).variable == "https_proxy"
    exempted = resolve("requests", SECURE, {"https_proxy": GOOD, "NO_PROXY": "a.test, corp.test"})
    assert (exempted.way, exempted.variable, exempted.entry) == ("direct", "NO_PROXY", "corp.test")


def test_a_variable_that_the_client_ignores_is_named():
    assert resolve("go", SECURE, {"ALL_PROXY": GOOD}).ignored == ("ALL_PROXY",)
    assert resolve("requests", SECURE, {"ALL_PROXY": GOOD}).ignored == ()
    assert resolve("go", SECURE, {"HTTP_PROXY": GOOD}).ignored == ()
    assert resolve("grpc", SECURE, {"HTTPS_PROXY": GOOD}).ignored == ("HTTPS_PROXY",)


def test_the_client_s_own_proxy_beats_the_environment_and_no_proxy():
    route = resolve("go", SECURE, {"NO_PROXY": "*", "HTTPS_PROXY": DEAD}, own={"https": GOOD})
    assert (route.way, route.proxy.port) == ("proxy", 3128)
    assert resolve("go", API, {}, own={"https": GOOD}).way == "direct"
    assert resolve("go", SECURE, {}, own={"https": "socks5://127.0.0.1:1"}).way == "refused"


@pytest.mark.parametrize(
    ("client", "address", "expected"),
    [
        ("requests", "http://us%40er:p%3Aw@h:1", ("us@er", "p:w")),
        ("requests", "http://user:p@w@h:1", ("user", "p@w")),
        ("requests", "http://user@h:1", ("", None)),
        ("urllib", "http://user@h:1", ("", None)),
        ("httpx", "http://user@h:1", ("user", "")),
        ("go", "http://user@h:1", ("user", "")),
        ("go", "user:pw@h:1", ("user", "pw")),
    ],
)
def test_credentials_of_a_proxy(client, address, expected):
    proxy = resolve(client, API, {"http_proxy": address}).proxy
    password = proxy.password if proxy.password is None else proxy.password.reveal() or ""
    assert (proxy.username, password) == expected
    assert (proxy.host, proxy.port, proxy.shown) == ("h", 1, "http://h:1")


def test_a_password_is_in_no_text():
    route = resolve("requests", API, {"http_proxy": "http://user:hunter2-hunter2@h:1"})
    assert "hunter2" not in repr(route)


def test_a_url_that_is_not_http_is_an_error():
    for url in ("sqlite:///x.db", "http://", "localhost:5000"):
        with pytest.raises(ValueError, match="http"):
            resolve("requests", url, {})


HOSTS = ["api.corp.test", "corp.test", "xcorp.test", "10.77.0.40", "127.0.0.1", "localhost", "[::1]", "[fd00::40]"]
ENTRIES = [
    "", "*", "corp.test", ".corp.test", "*.corp.test", "API.corp.test", "api.corp.test:8000", "corp.test:9", "10.77.0.40",
    "10.77.0.0/16", "10.77.0.40:8000", "10.77", "127.0.0.0/8", "127.0.0.1/33", "localhost", "::1", "[::1]", "fd00::40", "a/b",
    " corp.test ", "test", "..test", "corp.test.", "http://api.corp.test", "https://corp.test:80",
]  # fmt: skip
NAMES = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "Http_Proxy"]
environments = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(NAMES, st.sampled_from(["", GOOD, DEAD, "10.0.0.1:8"])),
        **dict.fromkeys(["no_proxy", "NO_PROXY"], st.lists(st.sampled_from(ENTRIES), max_size=3).map(",".join)),
        "REQUEST_METHOD": st.just("GET"),
    },
)
urls = st.builds("{}://{}:{}/x".format, st.sampled_from(["http", "https"]), st.sampled_from(HOSTS), st.sampled_from([8000, 80]))


def address_of(route):
    return f"{route.proxy.host}:{route.proxy.port}" if route.way == "proxy" else None


def without_scheme(proxy):
    return proxy.removeprefix("http://") if proxy else None


@settings(max_examples=400, deadline=None)
@given(url=urls, environment=environments)
def test_as_requests_itself(url, environment):
    requests = pytest.importorskip("requests")
    with mock.patch.dict(os.environ, environment, clear=True):
        expected = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    assert address_of(resolve("requests", url, environment)) == without_scheme(expected)


@settings(max_examples=400, deadline=None)
@given(url=urls, environment=environments)
def test_as_urllib_itself(url, environment):
    request = urllib.request.Request(url)
    with mock.patch.dict(os.environ, environment, clear=True):
        proxy = urllib.request.getproxies_environment().get(request.type)
        expected = None if urllib.request.proxy_bypass_environment(request.host) else proxy
    assert address_of(resolve("urllib", url, environment)) == without_scheme(expected)


@settings(max_examples=200, deadline=None)
@given(url=urls, environment=environments)
def test_as_httpx_itself(url, environment):
    utils = pytest.importorskip("httpx._utils")
    httpx = pytest.importorskip("httpx")
    with mock.patch.dict(os.environ, environment, clear=True):
        mounts = utils.get_environment_proxies()
    try:
        patterns = sorted((utils.URLPattern(key), value) for key, value in mounts.items())
        expected = next((value for pattern, value in patterns if pattern.matches(httpx.URL(url))), None)
    except httpx.InvalidURL:
        assert resolve("httpx", url, environment).way == "refused"
    else:
        assert address_of(resolve("httpx", url, environment)) == without_scheme(expected)
