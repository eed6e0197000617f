"""The way to the servers of the trackers: proxies, names, connections, certificates. One root cause is one finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from verl_doctor.api import Environment, Finding, Severity, check, finding
from verl_doctor_checks import roots as cause
from verl_doctor_checks.facts.reached import Reach
from verl_doctor_checks.roots import Root, roots

TAGS = {"logger", "network", "wandb", "swanlab", "mlflow"}
CLOCK_TOLERANCE_S = 60

CONSEQUENCES = {
    "wandb": "wandb.init() retries for a minute or more and then ends the job",
    "swanlab": "swanlab.login() retries for 15 to 75 seconds and then ends the job with an error that blames the key",
    "mlflow": "verl blocks for minutes to an hour, and 0.7.1 or later then trains without MLflow; older ones stop",
}

PROXY = {"proxy": "http://proxy.lan:3128", "proxy_variable": "https_proxy"}
AT_PROXY = {"at": "proxy", "address": "proxy.lan:3128"}


def _way(tracker: str, probed: str, layer: str = "tcp", *, probe: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A row's way on which a request ended with the cause `probed`."""
    server = {"wandb": "api.wandb.ai:443", "swanlab": "api.swanlab.cn:443", "mlflow": "mlflow.lan:5000"}[tracker]
    seen = {"layer": layer, "cause": probed, "address": server, "status": None} | (probe or {})
    return {"tracker": tracker, "server": server, "client": "go" if tracker == "wandb" else "requests", "probe": seen} | more


def _through_proxy(tracker: str, probed: str, layer: str = "proxy", **probe: Any) -> dict[str, Any]:
    return _way(tracker, probed, layer, probe=AT_PROXY | probe, **PROXY)


FINE = [_way("wandb", "ok", "http", probe={"status": 200}), {"tracker": "swanlab", "state": "not-needed"}]
NOT_NEEDED = [{"tracker": tracker, "state": "not-needed"} for tracker in ("wandb", "swanlab", "mlflow")]


def _report(root: Root, template: str, fix: str, environment: Environment | None = None, **values: Any) -> Finding:
    """A finding about a root cause, with what was seen and what each tracker makes of it."""
    probe, first = root.probe, root.first
    variable = environment.given(first.proxy_variable) if environment and first.proxy_variable else None
    evidence = {
        "layer": probe.layer,
        "cause": probe.cause,
        "seen": probe.reason,
        "milliseconds": probe.milliseconds,
        "urls": [reach.url for reach in root.reaches],
        "consequences": {reach.tracker: CONSEQUENCES[reach.tracker] for reach in root.reaches},
    }
    return finding(
        template,
        at=variable,
        target=root.servers if variable is None else "",
        fix=fix,
        evidence=evidence,
        trackers=root.trackers,
        servers=root.servers,
        hosts=root.hosts,
        address=probe.address,
        variable=first.proxy_variable,
        entry=first.near_entry,
        **values,
    )


def _proxy_fix(root: Root, otherwise: str) -> str:
    """How to get past a proxy: an entry of NO_PROXY that this client does not understand comes first."""
    if root.first.near_entry:
        return "Write {hosts} into NO_PROXY: its entry {entry} means nothing to this client"
    return otherwise


@check(
    "NET001",
    "net-proxy-unreachable",
    tags=TAGS,
    good=[
        {"reachability": FINE},
        {"reachability": NOT_NEEDED},
        {"reachability": [_way("wandb", "refused")]},
        {"reachability": [_through_proxy("wandb", "proxy-login", status=407)]},
    ],
    bad=[
        {"reachability": [_through_proxy(t, "refused", "tcp") for t in ("wandb", "swanlab", "mlflow")]},
        {"reachability": [_through_proxy("wandb", "dns-failed", "dns")]},
        {"reachability": [_through_proxy("mlflow", "no-answer", "tcp")]},
        {"reachability": [_through_proxy("swanlab", "not-a-proxy")]},
        {"reachability": [_through_proxy("mlflow", "refused", "tcp") | {"near_entry": "*.lan"}]},
    ],
)
def net_proxy_unreachable(reachability: list[Reach], environment: Environment) -> Iterator[Finding]:
    """The proxy through which trackers send everything cannot be used.

    The variable names a proxy whose name is not known, that refuses connections, does not answer, or is something else than a
    proxy. Every tracker behind it fails, each with its own delay and its own misleading message: W&B calls its service busy,
    SwanLab doubts the key, and MLflow blocks the training for minutes.

    Fix: correct or start the proxy; when the servers can be reached without it, unset the variable or name them in NO_PROXY.

    See: https://github.com/wandb/wandb/issues/9938
    """
    for root in roots(reachability, cause.PROXY_DEAD):
        if root.probe.layer == "dns":
            template = "the name of the proxy {address} of {variable} cannot be resolved: {trackers} cannot reach {servers}"
        elif root.probe.cause == "refused":
            template = "the proxy {address} of {variable} refuses connections: {trackers} cannot reach {servers}"
        elif root.probe.cause == "not-a-proxy":
            template = "what answers at {address} of {variable} is no such proxy: {trackers} cannot reach {servers}"
        else:
            template = "the proxy {address} of {variable} does not answer: {trackers} cannot reach {servers}"
        fix = _proxy_fix(root, "Correct {variable} or start the proxy; or add {hosts} to NO_PROXY")
        yield _report(root, template, fix, environment)


@check(
    "NET002",
    "net-proxy-login",
    tags=TAGS | {"secrets"},
    good=[{"reachability": FINE}, {"reachability": [_through_proxy("wandb", "refused", "tcp")]}],
    bad=[
        {"reachability": [_through_proxy(t, "proxy-login", status=407) for t in ("wandb", "swanlab")]},
        {"reachability": [_through_proxy("mlflow", "proxy-login", status=407) | {"near_entry": "*.lan"}]},
    ],
)
def net_proxy_login(reachability: list[Reach], environment: Environment) -> Iterator[Finding]:
    """The proxy asks for a user name and password, and has no right ones.

    It answers 407 instead of passing anything on. Characters such as `@`, `:` and `/` in a password must be written as `%40`,
    `%3A` and `%2F`; a user name without a password is not sent at all by Python clients.

    Fix: put the credentials into the variable as http://user:password@host:port, percent-encoded, or name the servers in
    NO_PROXY.

    See: https://github.com/wandb/wandb/issues/10367
    """
    for root in roots(reachability, cause.PROXY_LOGIN):
        yield _report(
            root,
            "the proxy {address} wants a login, and {variable} has none that it accepts: {trackers} cannot reach {servers}",
            _proxy_fix(root, "Write {variable} as http://user:password@host:port, with special characters percent-encoded"),
            environment,
        )


@check(
    "NET003",
    "net-proxy-refuses",
    tags=TAGS,
    good=[{"reachability": FINE}, {"reachability": [_through_proxy("wandb", "proxy-login", status=407)]}],
    bad=[
        {"reachability": [_through_proxy("wandb", "proxy-denied", status=403)]},
        {"reachability": [_through_proxy(t, "proxy-denied", status=403) for t in ("wandb", "swanlab")]},
        {"reachability": [_through_proxy("mlflow", "proxy-error", status=502)]},
        {"reachability": [_through_proxy("mlflow", "proxy-error", status=502) | {"near_entry": "*.lan"}]},
    ],
)
def net_proxy_refuses(reachability: list[Reach], environment: Environment) -> Iterator[Finding]:
    """The proxy answers, and does not connect to the tracker's server.

    A proxy answers 403 for what its rules forbid, and 502, 503 or 504 for what it cannot reach: the usual fate of an internal
    or loopback address, which Python clients send to the proxy unless NO_PROXY lists it.

    Fix: name internal servers in NO_PROXY; have external ones allowed by whoever runs the proxy.

    See: https://github.com/mlflow/mlflow/issues/11551
    """
    for root in roots(reachability, cause.PROXY_REFUSES):
        if root.probe.cause == "proxy-denied":
            template = (
                "the proxy {address} of {variable} forbids the connection (status {status}): {trackers} cannot reach {servers}"
            )
        else:
            template = "the proxy {address} of {variable} cannot connect (status {status}): {trackers} cannot reach {servers}"
        fix = _proxy_fix(root, "Add {hosts} to NO_PROXY if it is internal, else have the proxy allow it")
        yield _report(root, template, fix, environment, status=root.probe.status or "-")


@check(
    "NET004",
    "net-name-unknown",
    tags=TAGS,
    good=[
        {"reachability": FINE},
        {"reachability": [_way("mlflow", "dns-failed", "dns")]},
        {"reachability": [_way("swanlab", "dns-timeout", "dns")]},
        {"reachability": [_way("wandb", "dns-failed", "dns", ignored=["ALL_PROXY"])]},
    ],
    bad=[
        {"reachability": [_way("wandb", "dns-failed", "dns")]},
        {"reachability": [_way("wandb", "dns-timeout", "dns"), _way("swanlab", "dns-failed", "dns")]},
    ],
)
def net_name_unknown(reachability: list[Reach]) -> Iterator[Finding]:
    """The name of a tracker's server cannot be resolved.

    Either the address is written wrongly, or the node that logs has no name service for it: compute nodes often have none for
    the outside world and need a proxy. A server that only SwanLab or only MLflow uses has its code there.

    Fix: correct the address; or set https_proxy; or log offline and upload later.

    See: https://github.com/SwanHubX/SwanLab/issues/1252
    """
    for root in roots(reachability, cause.NO_NAME):
        yield _report(
            root,
            "the name of {servers} cannot be resolved: {trackers} cannot be reached ({seen})",
            "Correct the address, set https_proxy if this network needs a proxy, or log offline and upload later",
            seen=root.probe.reason,
        )


@check(
    "NET005",
    "net-connection-refused",
    tags=TAGS,
    good=[
        {"reachability": FINE},
        {"reachability": [_way("mlflow", "refused")]},
        {"reachability": [_way("swanlab", "refused")]},
        {"reachability": [_through_proxy("wandb", "refused", "tcp")]},
    ],
    bad=[
        {"reachability": [_way("wandb", "refused")]},
        {
            "reachability": [
                _way(t, "refused", probe={"address": "trackers.lan:80"}, server="trackers.lan:80")
                for t in ("swanlab", "mlflow")
            ]
        },
    ],
)
def net_connection_refused(reachability: list[Reach]) -> Iterator[Finding]:
    """Nothing listens at the address of a tracker's server.

    The machine answers, and no program has that port: the server is not running, listens on another port, or only on the
    loopback address of its own machine. W&B calls this "the service process is busy".

    Fix: start the server, or correct host and port.

    See: wandb 0.31.0, measured: 11 to 14 seconds for `wandb login`, about a minute for wandb.init()
    """
    for root in roots(reachability, cause.REFUSED):
        yield _report(
            root,
            "{servers} refuses connections: no server listens there, and {trackers} cannot be reached",
            "Start the server or correct the address: is the port right, and does it listen on more than loopback",
        )


@check(
    "NET006",
    "net-no-answer",
    tags=TAGS,
    good=[
        {"reachability": FINE},
        {"reachability": [_way("mlflow", "no-answer")]},
        {"reachability": [_way("swanlab", "no-answer")]},
        {"reachability": [_way("wandb", "no-answer", ignored=["ALL_PROXY"])]},
    ],
    bad=[
        {"reachability": [_way("wandb", "no-answer")]},
        {"reachability": [_way(t, "no-answer") for t in ("wandb", "swanlab", "mlflow")]},
        {"reachability": [_way("wandb", "unreachable")]},
    ],
)
def net_no_answer(reachability: list[Reach]) -> Iterator[Finding]:
    """A tracker's server does not answer any attempt to connect.

    A firewall drops the packets, or there is no route: the usual state of compute nodes without internet. Clients wait for
    their longest time-outs here; MLflow alone can block for an hour before training starts.

    Fix: set https_proxy where there is a proxy; log offline and upload later; or use a server inside the network.

    See: https://github.com/wandb/wandb/issues/9969
    """
    for root in roots(reachability, cause.NO_ANSWER):
        yield _report(
            root,
            "no answer from {servers}: the attempt to connect got nothing back, and {trackers} cannot be reached",
            "Set https_proxy if there is a proxy, use a server inside the network, or log offline and upload later",
        )


def _untrusted(issuer: str, tracker: str = "wandb", **more: Any) -> dict[str, Any]:
    shown = {"certificate": {"subject": "api.wandb.ai", "issuer": issuer, "not_after": "2030-01-01T00:00:00+00:00"}}
    return _way(tracker, "unknown-ca", "tls", probe=shown, **more)


@check(
    "NET007",
    "net-authority-unknown",
    tags=TAGS,
    good=[{"reachability": FINE}, {"reachability": [_way("wandb", "expired", "tls")]}],
    bad=[
        {"reachability": [_untrusted("Corporate Inspection CA")]},
        {"reachability": [_untrusted("Corporate Inspection CA", t) for t in ("swanlab", "mlflow")]},
        {"reachability": [_way("wandb", "unknown-ca", "tls")]},
    ],
)
def net_authority_unknown(reachability: list[Reach]) -> Iterator[Finding]:
    """A tracker's server shows a certificate of an authority that its client does not trust.

    A company that inspects traffic, or a server of one's own with a private authority. Clients read different variables: wandb
    since 0.18 only SSL_CERT_FILE and SSL_CERT_DIR, SwanLab and MLflow only REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE, MLflow also
    MLFLOW_TRACKING_SERVER_CERT_PATH. So `curl` and one tracker may work while another fails.

    Fix: save the authority's certificate, together with the usual ones, in a file and name it in both SSL_CERT_FILE and
    REQUESTS_CA_BUNDLE where the job runs.

    See: https://github.com/wandb/wandb/issues/3700
         requests 2.34.2 sessions.py; Go crypto/x509 root_unix.go
    """
    for root in roots(reachability, cause.UNKNOWN_CA):
        certificate = root.probe.certificate
        variable = "SSL_CERT_FILE" if root.first.client == "go" else "REQUESTS_CA_BUNDLE"
        yield _report(
            root,
            'the certificate of {servers} is vouched for by "{issuer}", which {trackers} does not trust'
            if certificate
            else "the certificate of {servers} is vouched for by an authority that {trackers} does not trust",
            "Name a file with that authority's certificate in {wanted}, which is what this client reads",
            issuer=certificate.issuer if certificate else "",
            wanted=variable,
        )


@check(
    "NET008",
    "net-certificate-invalid",
    tags=TAGS,
    good=[{"reachability": FINE}, {"reachability": [_untrusted("X")]}],
    bad=[
        {
            "reachability": [
                _way(
                    "wandb", "expired", "tls", probe={"certificate": {"subject": "a", "not_after": "2021-01-02T00:00:00+00:00"}}
                )
            ]
        },
        {"reachability": [_way("mlflow", "wrong-host", "tls", probe={"certificate": {"subject": "other.lan"}})]},
        {"reachability": [_way("mlflow", "not-yet-valid", "tls", probe={"certificate": {"not_before": "2040-01-01"}})]},
        {"reachability": [_way("swanlab", "certificate-refused", "tls")]},
    ],
)
def net_certificate_invalid(reachability: list[Reach]) -> Iterator[Finding]:
    """The certificate of a tracker's server is expired, not yet valid, or for another host.

    Every client refuses the connection and retries as if the network were at fault: MLflow for four minutes a request. A
    certificate that is not yet valid, or expired by little, may also mean that the clock of this machine is wrong.

    Fix: renew the certificate, or use the host name that it is for.

    See: https://github.com/mlflow/mlflow/issues/4032
    """
    for root in roots(reachability, cause.BAD_CERTIFICATE):
        certificate = root.probe.certificate
        if root.probe.cause == "expired":
            template = "the certificate of {servers} expired on {until}: {trackers} refuses it"
        elif root.probe.cause == "not-yet-valid":
            template = "the certificate of {servers} is valid only from {since} on: is this machine's clock right"
        elif root.probe.cause == "wrong-host":
            template = 'the certificate at {servers} is for "{subject}": {trackers} refuses it'
        else:
            template = "the certificate of {servers} is refused by {trackers}: {seen}"
        yield _report(
            root,
            template,
            "Renew the certificate, or use the host name that it is for",
            until=certificate.not_after[:10] if certificate else "-",
            since=certificate.not_before[:10] if certificate else "-",
            subject=certificate.subject if certificate else "-",
            seen=root.probe.reason,
        )


@check(
    "NET009",
    "net-tls-on-plain-port",
    tags=TAGS,
    good=[{"reachability": FINE}, {"reachability": [_way("mlflow", "tls-timeout", "tls")]}],
    bad=[
        {"reachability": [_way("mlflow", "tls-on-plain-port", "tls")]},
        {"reachability": [_way("wandb", "plain-on-tls-port", "tls")]},
    ],
)
def net_tls_on_plain_port(reachability: list[Reach]) -> Iterator[Finding]:
    """The address says https and the server speaks plain HTTP, or the reverse.

    Neither side understands the other. SwanLab adds https:// to an address without a scheme; clients retry for minutes with
    texts such as WRONG_VERSION_NUMBER or "connection reset".

    Fix: write the address with the other scheme.

    See: mlflow 3.17.2, measured: 247 seconds a request
    """
    for root in roots(reachability, cause.TLS_MIX):
        if root.probe.cause == "tls-on-plain-port":
            template = "{servers} does not speak TLS, but the address of {trackers} says https"
            fix = "Write the address with http:// or use the port with TLS"
        else:
            template = "{servers} speaks TLS, but the address of {trackers} says http"
            fix = "Write the address with https://"
        yield _report(root, template, fix)


@check(
    "NET010",
    "net-wrong-service",
    tags=TAGS,
    good=[
        {"reachability": FINE},
        {"reachability": [_way("wandb", "redirect-elsewhere", "http", probe={"location": "https://x/", "status": 307})]},
    ],
    bad=[
        {"reachability": [_way("wandb", "ok", "http", page=True, probe={"status": 200, "excerpt": "Sign in to the network"})]},
        {
            "reachability": [
                _way(t, "redirect-elsewhere", "http", probe={"location": "http://portal.lan/login", "status": 302})
                for t in ("wandb", "swanlab")
            ]
        },
        {"reachability": [_way("mlflow", "redirect-loop", "http", probe={"status": 302})]},
    ],
)
def net_wrong_service(reachability: list[Reach]) -> Iterator[Finding]:
    """Something else than the tracker answers at the address of its server.

    A login page of the network, a proxy's page, a gateway that sends clients to a single sign-on, or another service on that
    port. A browser may be taken further; a client takes the page for the answer and reports an error that names neither.

    Fix: sign in to the network, exempt the server from the gateway, or correct the address.

    See: swanlab 0.10.3, measured: an HTML page with status 200 is reported as a wrong key
    """
    for root in roots(reachability, cause.WRONG_SERVICE):
        if root.probe.location:
            template = "{servers} sends {trackers} to {location} (status {status}), where a client cannot follow"
        elif root.probe.cause == "redirect-loop":
            template = "{servers} sends {trackers} round in circles (redirects without end)"
        else:
            template = '{servers} is not the server of {trackers}: it answers "{excerpt}" (status {status})'
        yield _report(
            root,
            template,
            "Correct the address, sign in to the network, or have the gateway let clients through",
            location=root.probe.location,
            excerpt=root.probe.excerpt,
            status=root.probe.status or "-",
        )


@check(
    "NET011",
    "net-authority-file-missing",
    tags=TAGS,
    good=[{"reachability": FINE}, {"reachability": [_untrusted("X")]}],
    bad=[
        {
            "reachability": [
                _way(t, "ca-missing", "tls", trust_variable="REQUESTS_CA_BUNDLE", probe={"reason": "/no.pem does not exist"})
                for t in ("swanlab", "mlflow")
            ]
        },
        {"reachability": [_way("mlflow", "ca-missing", "tls", probe={"reason": "a certificate file cannot be used"})]},
    ],
)
def net_authority_file_missing(reachability: list[Reach], environment: Environment) -> Iterator[Finding]:
    """The file of certificate authorities that a client is told to use is missing or cannot be used.

    requests, and with it SwanLab and MLflow, then fails every https request, whoever the server is. The path must exist where
    the job runs: on the node, in the container.

    Fix: correct the variable, or unset it to use the authorities that the client brings along.

    See: requests 2.34.2 adapters.py, `cert_verify`
    """
    for root in roots(reachability, cause.CA_MISSING):
        name = root.first.trust_variable
        found = _report(
            root,
            "{seen}: {trackers} fails every https request",
            "Correct or unset {named}: the file must exist where the job runs"
            if name
            else "Correct the path of the certificate file: it must exist where the job runs",
            seen=root.probe.reason,
            named=name,
        )
        variable = environment.given(name) if name else None
        found.target = name or found.target
        found.source = variable.source.text if variable else ""
        found.location = variable.source.location if variable else None
        yield found


@check(
    "NET012",
    "net-proxy-variable-ignored",
    tags=TAGS,
    good=[
        {"reachability": [_way("wandb", "ok", "http", ignored=["ALL_PROXY"], probe={"status": 200})]},
        {"reachability": [_way("wandb", "no-answer")]},
    ],
    bad=[{"reachability": [_way("wandb", "no-answer", ignored=["ALL_PROXY"])]}],
)
def net_proxy_variable_ignored(reachability: list[Reach], environment: Environment) -> Iterator[Finding]:
    """A proxy is set in a variable that the client does not read, and it cannot connect without one.

    wandb since 0.18 reads HTTPS_PROXY, HTTP_PROXY and their lower-case forms, and not ALL_PROXY; curl, SwanLab and MLflow read
    ALL_PROXY as well. So they work and W&B times out.

    Fix: set https_proxy to the same address.

    See: Go net/http `ProxyFromEnvironment`, measured with wandb 0.31.0
    """
    for root in roots(reachability, cause.IGNORED):
        names = root.first.ignored
        found = _report(
            root,
            "{trackers} does not read {names}, tries {servers} without a proxy, and fails ({seen})",
            "Set https_proxy to the same address as {names}",
            names=", ".join(names),
            seen=root.probe.reason,
        )
        variable = environment.given(names[0])
        found.target = names[0]
        found.source = variable.source.text if variable else ""
        found.location = variable.source.location if variable else None
        yield found


@check(
    "NET013",
    "net-clock-offset",
    tags=TAGS,
    severity=Severity.WARNING,
    good=[
        {"reachability": FINE},
        {"reachability": [_way("wandb", "ok", "http", probe={"status": 200, "clock_offset_s": -3.0})]},
    ],
    bad=[
        {"reachability": [_way("wandb", "ok", "http", probe={"status": 200, "clock_offset_s": -400.0})]},
        {"reachability": [_way(t, "ok", "http", probe={"status": 200, "clock_offset_s": 90.0}) for t in ("wandb", "mlflow")]},
    ],
)
def net_clock_offset(reachability: list[Reach]) -> Iterator[Finding]:
    """The clock of this machine and that of a tracker's server differ by more than a minute.

    Points and runs then carry wrong times, runs of several nodes do not line up, and short-lived tokens and signed upload
    addresses may be refused.

    Fix: synchronise the clock, for instance with chrony.

    See: RFC 9110, the header Date
    """
    offsets = [
        (reach.server, reach.probe.clock_offset_s)
        for reach in reachability
        if reach.probe is not None and not reach.page and reach.probe.clock_offset_s is not None
    ]
    far = [(server, offset) for server, offset in offsets if abs(offset) > CLOCK_TOLERANCE_S]
    if far:
        yield finding(
            "this machine's clock is {seconds} seconds behind that of {servers}"
            if far[0][1] > 0
            else "this machine's clock is {seconds} seconds ahead of that of {servers}",
            target="clock",
            fix="Synchronise the clocks, for instance with chrony",
            evidence={"offsets_s": dict(offsets)},
            seconds=round(abs(far[0][1])),
            servers=", ".join(dict.fromkeys(server for server, _ in far)),
        )


@check(
    "NET014",
    "net-proxy-address-invalid",
    tags=TAGS,
    good=[{"reachability": FINE}, {"reachability": [_through_proxy("wandb", "refused", "tcp")]}],
    bad=[
        {
            "reachability": [
                _way(t, "route-refused", "route", proxy_variable="https_proxy", probe={"reason": "the port is not a number"})
                for t in ("swanlab", "mlflow")
            ]
        },
    ],
)
def net_proxy_address_invalid(reachability: list[Reach], environment: Environment) -> Iterator[Finding]:
    """A client cannot read the address of the proxy and fails every request.

    Quotes or blanks that an env file left in the value, a port that is not a number, a kind of proxy that the client does not
    know. Clients differ: what one forgives, another refuses, and Go passes over an address with blanks without a word.

    Fix: write the variable as http://host:port.

    See: requests 2.34.2 adapters.py; Go net/http `ProxyFromEnvironment`
    """
    for root in roots(reachability, cause.PROXY_INVALID):
        yield _report(
            root,
            "{trackers} cannot use the proxy in {variable}: {seen}",
            "Write {variable} as http://host:port",
            environment,
            seen=root.probe.reason,
        )


@check(
    "NET015",
    "net-connection-broken",
    tags=TAGS,
    good=[
        {"reachability": FINE},
        {"reachability": [_way("mlflow", "silent", "http")]},
        {"reachability": [_way("swanlab", "closed", "http")]},
    ],
    bad=[
        {"reachability": [_way("wandb", "silent", "http")]},
        {"reachability": [_way("wandb", "tls-timeout", "tls")]},
        {"reachability": [_way("wandb", "tls-closed", "tls")]},
        {"reachability": [_way("wandb", "tls-failed", "tls")]},
        {"reachability": [_way("wandb", "closed", "http")]},
        {"reachability": [_way("wandb", "garbage", "http")]},
    ],
)
def net_connection_broken(reachability: list[Reach]) -> Iterator[Finding]:
    """A tracker's server can be connected to, and then breaks off, stays silent or answers nonsense.

    Something on the way lets the connection through and not the conversation: a firewall that looks into TLS, a load balancer
    without a server behind it, a server that hangs, or another service on that port.

    Fix: ask the server's health on its own machine; compare with another network; correct the port.

    See: https://github.com/SwanHubX/SwanLab/issues/1233
    """
    for root in roots(reachability, cause.BROKEN):
        if root.probe.cause == "garbage":
            template = "what {servers} answers is not HTTP: it is not the server of {trackers}"
        elif root.probe.cause in {"silent", "tls-timeout"}:
            template = "{servers} takes the connection and then stays silent: {trackers} cannot be used"
        elif root.probe.layer == "tls":
            template = "{servers} takes the connection and breaks off the TLS greeting: {trackers} cannot be used ({seen})"
        else:
            template = "{servers} takes the connection and closes it without an answer: {trackers} cannot be used"
        yield _report(
            root,
            template,
            "Look at the server on its own machine, compare from another network, check the port",
            seen=root.probe.reason,
        )
