"""Looks at the servers of the trackers the way each client would: same address, same proxy, same authorities, same credentials.

Each look is at most three small requests that create nothing but, at SwanLab, a login session. A fact here never raises for
what the network does: it says how far it got. Without the environment of the process that logs nothing is tried.
"""

from __future__ import annotations

import base64
import configparser
import importlib.util
import json
import os
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from verl_doctor.api import Environment, Job, Packages, Request, Secret, Undetermined, capture, fact
from verl_doctor.job.model import PROBE_S
from verl_doctor.network.certificates import Trust, is_true, system_bundle, trust_of, trust_of_mlflow
from verl_doctor.network.proxies import Client, Route, resolve, split_target
from verl_doctor.network.result import ProbeResult
from verl_doctor.secrets import original, scrub
from verl_doctor_checks.facts.mlflow import MlflowFiles
from verl_doctor_checks.facts.reached import (
    MlflowServer,
    Reach,
    SwanlabAccess,
    WandbViewer,
    example_access,
    example_reachability,
    example_server,
    example_viewer,
)
from verl_doctor_checks.facts.small_files import read_netrc, read_small
from verl_doctor_checks.facts.swanlab import SwanlabFiles
from verl_doctor_checks.facts.wandb import WandbFiles, WandbLogin
from verl_doctor_checks.mlflow import connects, kind_of, release_of, tracking_address
from verl_doctor_checks.swanlab import REWRITTEN, is_for, is_online
from verl_doctor_checks.swanlab import known_release as swanlab_release
from verl_doctor_checks.trackers import logs_to
from verl_doctor_checks.wandb import (
    PUBLIC_HOSTS,
    applied_settings,
    known_release,
    netrc_machines,
    records_online,
    server_url,
    stored_key,
)

FACT_S = PROBE_S + 2.0
"""A little more than the probe takes, so that what it found is not thrown away."""

_DECIDING = re.compile(
    r".*_proxy|REQUEST_METHOD|SSL_CERT_.*|(REQUESTS|CURL)_CA_BUNDLE|(WANDB|SWANLAB|MLFLOW)_.*|NETRC|HOME", re.IGNORECASE
)
_VIEWER = "query Viewer { viewer { id entity username teams { edges { node { name } } } } }"
_SERVER_INFO = "query ServerInfo { serverInfo { latestLocalVersionInfo { versionOnThisInstanceString } } }"
_GO_SINCE = (0, 18)
"""From here on wandb's core, which is written in Go, sends everything that a run logs (wandb CHANGELOG 0.18.0)."""


class _Unknown(Exception):
    """What decides how to look cannot be known; the message says why."""


class _Way:
    """The way of one client to one server. The `timeout` is seconds for all that is asked there, from the first question on."""

    def __init__(
        self,
        client: Client,
        url: str,
        environment: Mapping[str, str],
        trust: Trust,
        own: Mapping[str, str],
        *,
        timeout: float = PROBE_S,
    ) -> None:
        self.client = client
        self.url = url
        self.environment = environment
        self.trust = trust
        self.route = resolve(client, url, environment, own=own)
        self.end = time.monotonic() + timeout

    def ask(
        self, path: str, *, root: str = "", method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> _Reply:
        """Ask for a path below the client's address, or below another `root` on the same server."""
        from verl_doctor.network.probe import Question, ask

        url = (root or self.url) + path
        question = Question(url=url, route=self.route, trust=self.trust, method=method, headers=headers or {}, body=body)
        return _Reply(*ask(question, deadline_s=max(0.1, self.end - time.monotonic())))

    def reach(self, tracker: str, reply: _Reply, *, page: bool = False) -> Reach:
        proxy = self.route.proxy
        return Reach(
            tracker=tracker,
            state="looked",
            url=scrub(self.url),
            server="{1}:{2}".format(*split_target(self.url)),
            client=self.client,
            proxy=proxy.shown if proxy else "",
            proxy_variable=self.route.variable,
            ignored=self.route.ignored,
            near_entry=_near_entry(self.url, self.route, self.environment),
            trust_variable=self.trust.variable,
            page=page,
            probe=reply.result,
        )


class _Reply:
    """An answer, or how far the request got."""

    def __init__(self, result: ProbeResult, body: bytes) -> None:
        self.result = result
        self.body = body

    @property
    def status(self) -> int | None:
        return self.result.status if self.result.cause == "ok" else None

    @property
    def came(self) -> bool:
        return self.result.cause == "ok"

    def json(self) -> Any:
        """The answer as data, None when it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def is_page(self) -> bool:
        """Whether it is made for a browser."""
        return "html" in self.result.content_type.lower() or self.body.lstrip()[:1] == b"<"

    @property
    def is_trouble(self) -> bool:
        """Whether the server says that it cannot answer now."""
        return self.status is not None and (self.status >= 500 or self.status in {408, 429})


def _near_entry(url: str, route: Route, environment: Mapping[str, str]) -> str:
    """The entry of NO_PROXY that was meant for this server, and that this client does not understand."""
    if route.way != "proxy" or route.variable.endswith("settings"):
        return ""
    for name in ("no_proxy", "NO_PROXY"):
        for entry in re.split(r"[,;\s]+", environment.get(name, "")):
            wide = {"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:1", "NO_PROXY": entry}
            if entry and resolve("go", url, wide).variable == "NO_PROXY":
                return entry
    return ""


def _plain(environment: Environment) -> dict[str, str]:
    """The variables as the clients read them, credentials included. Raises _Unknown."""
    if environment.unseen:
        raise _Unknown(environment.unseen)
    found: dict[str, str] = {}
    for name, variable in environment.variables.items():
        if not _DECIDING.fullmatch(name):
            continue
        if variable.unknown:
            raise _Unknown(f"{name} is not known: {variable.unknown} ({variable.source})")
        value = variable.value.reveal() if isinstance(variable.value, Secret) else original(name, variable.value)
        if value is None and (isinstance(variable.value, str) or variable.value):
            raise _Unknown(f"the credentials in {name} are not known")
        found[name] = value or ""
    return found


def _stop_for(reason: str) -> None:
    """Raise _Unknown when there is a reason."""
    if reason:
        raise _Unknown(reason)


def _bundles(packages: Packages) -> tuple[str, ...]:
    """The authorities that requests trusts by itself: those of certifi.

    Those of the system too when the job's Python is not known, or when pip-system-certs makes requests trust them.
    """
    found = importlib.util.find_spec("certifi")
    path = os.path.join(os.path.dirname(found.origin), "cacert.pem") if found and found.origin else ""
    own = (path,) if os.path.isfile(path) else ()
    trusts_system = bool(packages.unseen) or importlib.util.find_spec("pip_system_certs") is not None
    return (*own, *system_bundle()) if trusts_system or not own else own


def _not_tried(tracker: str, reason: str) -> Reach:
    return Reach(tracker=tracker, state="unknown", reason=scrub(reason))


# --- W&B ---------------------------------------------------------------------------------------------------------------------


@fact(network=True, timeout=FACT_S, example=example_viewer)
def wandb_viewer(
    *,
    request: Request,
    job: Job,
    environment: Environment,
    packages: Packages,
    wandb_login: WandbLogin,
    wandb_files: WandbFiles,
) -> WandbViewer:
    """Asks the W&B server who the key is and which teams it has (wandb 0.31.0, the operation `Viewer` of its core)."""
    try:
        if not logs_to(job, "wandb") or not records_online(environment, wandb_files, packages):
            return WandbViewer(reach=Reach(tracker="wandb"))
        settings = applied_settings(wandb_files, packages)
        variables = _plain(environment)
        url = _checked(server_url(environment, wandb_files, packages))
        _default_server_is_known(environment, packages, settings)
        key, key_from = _wandb_key(variables, wandb_login, settings, netrc_machines(url, packages), known_release(packages))
        way = _wandb_way(job, url, variables, settings, packages, timeout=request.probe_timeout)
    except (_Unknown, Undetermined) as error:
        return WandbViewer(reach=_not_tried("wandb", str(error)))
    return _look_at_wandb(way, key, key_from)


def _checked(url: str) -> str:
    """An address that can be looked at; its form is for other checks. Raises _Unknown."""
    try:
        split_target(url)
    except ValueError as error:
        raise _Unknown(f"{scrub(url)[:100]} is not an address that can be looked at") from error
    return url.rstrip("/")


def _default_server_is_known(environment: Environment, packages: Packages, settings: Mapping[str, Any]) -> None:
    """The default moved with wandb 0.31. Raises Undetermined when it decides and the version is not known."""
    if not environment.text("WANDB_BASE_URL") and not settings.get("base_url"):
        packages.version("wandb")


def _wandb_key(
    variables: Mapping[str, str], login: WandbLogin, settings: Mapping[str, Any], machines: set[str], release: tuple[int, ...]
) -> tuple[str, str]:
    """The key that wandb will use, and where it is from (wandb 0.31.0 and 0.22.2, measured). Raises _Unknown, Undetermined."""
    if variables.get("WANDB_IDENTITY_TOKEN_FILE"):
        return "", ""
    if variables.get("WANDB_API_KEY"):
        return variables["WANDB_API_KEY"], "WANDB_API_KEY"
    stored, written = stored_key(login, machines), settings.get("api_key")
    sources = [(stored, login.path), (written, "a settings file of wandb")]
    if release < (0, 23):
        sources.reverse()
    for secret, place in sources:
        if secret:
            value = secret.reveal() if isinstance(secret, Secret) else str(secret)
            if value is None:
                raise _Unknown(f"the key in {place} is not known")
            return value, place
    return "", ""


def _wandb_way(
    job: Job, url: str, variables: Mapping[str, str], settings: Mapping[str, Any], packages: Packages, *, timeout: float
) -> _Way:
    client: Client = "go" if known_release(packages) >= _GO_SINCE else "requests"
    own = {
        scheme: variables.get(f"WANDB_{scheme.upper()}_PROXY") or str(settings.get(f"{scheme}_proxy") or "")
        for scheme in ("http", "https")
    }
    given = job.get("trainer.wandb_proxy")
    if isinstance(given, str) and given:
        unscrubbed = original("trainer.wandb_proxy", given)
        if unscrubbed is None:
            raise _Unknown("the credentials in trainer.wandb_proxy are not known")
        own["https"] = unscrubbed
    if is_true(str(settings.get("insecure_disable_ssl", ""))):
        variables = {"WANDB_INSECURE_DISABLE_SSL": "true", **variables}
    trust = trust_of("go" if client == "go" else "requests", variables, directory=job.directory, bundles=_bundles(packages))
    return _Way(client, url, variables, trust, own, timeout=timeout)


def _look_at_wandb(way: _Way, key: str, key_from: str) -> WandbViewer:
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = _basic("api", key)
    reply = way.ask("/graphql", method="POST", headers=headers, body=_query(_VIEWER))
    public = split_target(way.url)[1] in PUBLIC_HOSTS
    found = WandbViewer(reach=way.reach("wandb", reply), status=reply.status, key_from=key_from, public=public)
    if not reply.came:
        return found
    if reply.status == 403 or (reply.status == 401 and key):
        return msgspec.structs.replace(found, verdict="refused" if reply.status == 401 else "forbidden")
    if reply.is_trouble:
        return msgspec.structs.replace(found, verdict="trouble")
    answer = reply.json()
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not {"data", "errors"} & answer.keys():
        no_service = reply.status != 401
        return msgspec.structs.replace(found, reach=way.reach("wandb", reply, page=no_service))
    if not key or not isinstance(data, dict) or "viewer" not in data:
        return found
    viewer = data["viewer"]
    if not isinstance(viewer, dict):
        return msgspec.structs.replace(found, verdict="no-account")
    version = "" if public else _wandb_server_version(way, headers)
    return msgspec.structs.replace(found, verdict="accepted", teams=_teams(viewer), server_version=version)


def _query(text: str) -> bytes:
    return json.dumps({"query": text, "variables": {}}).encode()


def _basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def _teams(viewer: Mapping[str, Any]) -> tuple[str, ...]:
    """The entities that the key may log to, empty when the answer does not list them."""
    edges = viewer.get("teams", {}).get("edges") if isinstance(viewer.get("teams"), dict) else None
    if not isinstance(edges, list):
        return ()
    nodes = [edge.get("node") for edge in edges if isinstance(edge, dict)]
    names = [viewer.get("entity"), viewer.get("username"), *(node.get("name") for node in nodes if isinstance(node, dict))]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _wandb_server_version(way: _Way, headers: Mapping[str, str]) -> str:
    """The version of a server of one's own, empty when it does not tell."""
    answer = way.ask("/graphql", method="POST", headers=headers, body=_query(_SERVER_INFO)).json()
    for key in ("data", "serverInfo", "latestLocalVersionInfo", "versionOnThisInstanceString"):
        answer = answer.get(key) if isinstance(answer, dict) else None
    return answer if isinstance(answer, str) and re.fullmatch(r"v?\d+(\.\d+)+\S{0,20}", answer) else ""


# --- SwanLab -----------------------------------------------------------------------------------------------------------------


@fact(network=True, timeout=FACT_S, example=example_access)
def swanlab_access(
    *, request: Request, job: Job, environment: Environment, packages: Packages, swanlab_files: SwanlabFiles
) -> SwanlabAccess:
    """Logs in to SwanLab once, as verl does whenever SWANLAB_API_KEY is set (swanlab 0.10.3, sdk/internal/pkg/client)."""
    try:
        if not logs_to(job, "swanlab"):
            return SwanlabAccess(reach=Reach(tracker="swanlab"))
        online = is_online(environment)
        if not online and not environment.get("SWANLAB_API_KEY"):
            return SwanlabAccess(reach=Reach(tracker="swanlab"), online=False)
        _stop_for(swanlab_files.unseen or ("SWANLAB_SECRETS_DIR may hold settings" if swanlab_files.secrets_folder else ""))
        variables = _plain(environment)
        key, key_from = _swanlab_key(variables, environment, swanlab_files)
        url = _swanlab_url(variables, environment, swanlab_files, swanlab_release(packages))
        trust = trust_of("requests", variables, directory=job.directory, bundles=_bundles(packages))
        way = _Way("requests", _checked(url), variables, trust, {}, timeout=request.probe_timeout)
    except (_Unknown, Undetermined) as error:
        return SwanlabAccess(reach=_not_tried("swanlab", str(error)))
    return _look_at_swanlab(way, key, key_from, online)


def _swanlab_setting(name: str, variables: Mapping[str, str], files: SwanlabFiles) -> str:
    """A setting by SwanLab's own order: some files, then the environment in any case, then other files. Raises _Unknown."""
    strong = [(setting.name, setting.value) for setting in files.strong]
    given = [(variable.upper(), value.strip().strip("'\"")) for variable, value in variables.items()]
    weak = [(setting.name, setting.value) for setting in files.weak]
    for found, value in [*strong, *given, *weak]:
        if found == name and value:
            text = value.reveal() if isinstance(value, Secret) else value
            if text is None:
                raise _Unknown(f"{name} is not known")
            return text
    return ""


def _swanlab_key(variables: Mapping[str, str], environment: Environment, files: SwanlabFiles) -> tuple[str, str]:
    """verl passes SWANLAB_API_KEY to swanlab.login(); without it SwanLab's own settings count, then a stored login."""
    if variables.get("SWANLAB_API_KEY"):
        return variables["SWANLAB_API_KEY"], "SWANLAB_API_KEY"
    key = _swanlab_setting("SWANLAB_API_KEY", variables, files)
    if key:
        return key, "a settings file of SwanLab"
    for login in files.logins:
        if login.key and is_for(login.host, environment, files):
            value = login.key.reveal()
            if value is None:
                raise _Unknown(f"the key in {login.path} is not known")
            return value, login.path
    return "", ""


def _swanlab_url(variables: Mapping[str, str], environment: Environment, files: SwanlabFiles, release: tuple[int, ...]) -> str:
    """The address before which `/api` stands not: the login's own host counts only when no key is set elsewhere."""
    host = _swanlab_setting("SWANLAB_API_HOST", variables, files)
    if not host and not _swanlab_setting("SWANLAB_API_KEY", variables, files):
        stored = next((login for login in files.logins if login.key and is_for(login.host, environment, files)), None)
        host = stored.host if stored else ""
    if not host:
        return "https://api.swanlab.cn"
    if release < REWRITTEN:
        # These releases take the value as it is and want `/api` in it, which another check says.
        return host.rstrip("/").removesuffix("/api")
    name, separator, rest = host.partition("://")
    return f"{name}://{re.split('[/?#]', rest, maxsplit=1)[0]}" if separator else f"https://{re.split('[/?#]', host)[0]}"


def _look_at_swanlab(way: _Way, key: str, key_from: str, online: bool) -> SwanlabAccess:
    greeting = way.ask("/api")
    found = SwanlabAccess(reach=way.reach("swanlab", greeting), status=greeting.status, key_from=key_from, online=online)
    if not greeting.came:
        return found
    if greeting.is_trouble:
        return msgspec.structs.replace(found, verdict="trouble")
    if greeting.is_page or (greeting.status != 200 and greeting.json() is None):  # the key is for SwanLab alone
        return msgspec.structs.replace(found, reach=way.reach("swanlab", greeting, page=True))
    if not key:
        return found
    reply = way.ask("/api/login/api_key", method="POST", headers={"authorization": key})
    found = msgspec.structs.replace(found, reach=way.reach("swanlab", reply), status=reply.status)
    if not reply.came:
        return found
    verdicts: dict[int | None, Any] = {401: "refused", 403: "forbidden"}
    if reply.status in verdicts:
        return msgspec.structs.replace(found, verdict=verdicts[reply.status])
    if reply.is_trouble:
        return msgspec.structs.replace(found, verdict="trouble")
    answer = reply.json()
    if reply.status == 200 and isinstance(answer, dict) and "sid" in answer:
        return msgspec.structs.replace(found, verdict="accepted")
    return msgspec.structs.replace(found, reach=way.reach("swanlab", reply, page=True))


# --- MLflow ------------------------------------------------------------------------------------------------------------------


class _Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What MLflow's client sends with each request, and where it is from. `plugin`: something that cannot be imitated."""

    header: str = ""
    origin: str = ""
    plugin: bool = False


@fact(network=True, timeout=FACT_S, example=example_server)
def mlflow_server(
    *, request: Request, job: Job, environment: Environment, packages: Packages, mlflow_files: MlflowFiles
) -> MlflowServer:
    """Asks an MLflow server for the job's experiment (or run), as MLflow's client does (mlflow 3.17.2, utils/rest_utils.py)."""
    try:
        if not connects(job):
            return MlflowServer(reach=Reach(tracker="mlflow"))
        address = tracking_address(job, environment, packages, mlflow_files)
        kind = kind_of(address)
        if kind == "managed":
            reason = f"{scrub(address)[:60]} is not a server of MLflow's own kind and is not probed"
            return MlflowServer(reach=Reach(tracker="mlflow", state="not-probed", reason=reason))
        if kind != "http":
            return MlflowServer(reach=Reach(tracker="mlflow"))
        variables = _plain(environment)
        _stop_for(mlflow_files.unseen)
        address = variables.get("MLFLOW_TRACKING_URI", address).strip()
        _checked(address)
        credentials = _mlflow_credentials(address, variables, mlflow_files)
        way = _mlflow_way(request, job, address, variables, _bundles(packages))
        stall = _Stall(variables, release_of(packages) if not packages.unseen else (3,))
        target = _mlflow_target(job, variables)
    except (_Unknown, Undetermined) as error:
        return MlflowServer(reach=_not_tried("mlflow", str(error)))
    return _look_at_mlflow(way, credentials, target, stall)


def _mlflow_way(request: Request, job: Job, address: str, variables: Mapping[str, str], bundles: tuple[str, ...]) -> _Way:
    """MLflow puts its paths behind the address as it is: a fragment swallows them."""
    parts = urlsplit(address)
    if parts.fragment or parts.query:
        raise _Unknown("the tracking address holds a query or a fragment, which another check explains")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    try:
        authority = host + (f":{parts.port}" if parts.port else "")
    except ValueError as error:
        raise _Unknown("the port of the tracking address is not a number") from error
    url = _checked(f"{parts.scheme}://{authority}{parts.path.rstrip('/')}")
    trust = trust_of_mlflow(variables, directory=job.directory, bundles=bundles)
    return _Way("requests", url, variables, trust, {}, timeout=request.probe_timeout)


def _mlflow_credentials(address: str, variables: Mapping[str, str], files: MlflowFiles) -> _Credentials:
    """By the order of MLflow and requests: a plug-in, netrc, the address, user and password, a token. Raises _Unknown."""
    if is_true(variables.get("MLFLOW_TRACKING_AWS_SIGV4", "")) or variables.get("MLFLOW_TRACKING_AUTH"):
        return _Credentials(origin="a plug-in", plugin=True)
    parts = urlsplit(address)
    login = read_netrc(files.netrc) if files.netrc else None
    entries = {entry.machine: entry for entry in login.entries} if login else {}
    entry = entries.get(parts.hostname or "") or entries.get("default")
    if entry is not None:
        return _Credentials(header=_basic(entry.login, entry.password.reveal() or ""), origin=files.netrc)
    if parts.username or parts.password:
        header = _basic(unquote(parts.username or ""), unquote(parts.password or ""))
        return _Credentials(header=header, origin="the tracking address")
    stored = _stored_mlflow_login(files.credentials)
    name = variables.get("MLFLOW_TRACKING_USERNAME") or stored.get("mlflow_tracking_username", "")
    password = variables.get("MLFLOW_TRACKING_PASSWORD") or stored.get("mlflow_tracking_password", "")
    if name and password:
        capture(password)
        from_variables = variables.get("MLFLOW_TRACKING_USERNAME") and variables.get("MLFLOW_TRACKING_PASSWORD")
        origin = "MLFLOW_TRACKING_USERNAME" if from_variables else files.credentials
        return _Credentials(header=_basic(name, password), origin=origin)
    token = variables.get("MLFLOW_TRACKING_TOKEN", "")
    return _Credentials(header=f"Bearer {token}", origin="MLFLOW_TRACKING_TOKEN") if token else _Credentials()


def _stored_mlflow_login(path: str) -> dict[str, str]:
    file = read_small(path) if path else None
    parser = configparser.ConfigParser()
    try:
        parser.read_string(file.text if file else "")
        return dict(parser.items("mlflow")) if parser.has_section("mlflow") else {}
    except configparser.Error:
        raise _Unknown(f"{path} cannot be read") from None  # the text of the error may quote a password


def _mlflow_target(job: Job, variables: Mapping[str, str]) -> str:
    """What verl asks for first: the run of MLFLOW_RUN_ID (since 0.7), else the experiment of the project's name."""
    if variables.get("MLFLOW_RUN_ID") and job.verl.release >= (0, 7) and "mlflow" in job.loggers:
        return "/api/2.0/mlflow/runs/get?" + urlencode({"run_id": variables["MLFLOW_RUN_ID"]})
    name = job.get("trainer.project_name")
    name = name if isinstance(name, str) and name else "Default"
    return "/api/2.0/mlflow/experiments/get-by-name?" + urlencode({"experiment_name": name}, quote_via=quote)


class _Stall:
    """How long one request of MLflow's client blocks, by its settings (mlflow 3.17.2; retry waits of urllib3 2)."""

    def __init__(self, variables: Mapping[str, str], release: tuple[int, ...]) -> None:
        self.timeout = _number(variables, "MLFLOW_HTTP_REQUEST_TIMEOUT", 120)
        self.retries = int(_number(variables, "MLFLOW_HTTP_REQUEST_MAX_RETRIES", 7 if release >= (2, 22) else 5))
        self.factor = _number(variables, "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", 2)

    def seconds(self, reply: _Reply) -> float:
        """For what was found: each attempt fails at once, or only after the time-out."""
        waits: float = sum(min(120.0, self.factor * 2.0**attempt) for attempt in range(1, self.retries))
        silent = reply.result.cause in {"no-answer", "silent", "tls-timeout", "dns-timeout", "proxy-silent"}
        return waits + (self.timeout * (self.retries + 1) if silent else 0.0)


def _number(variables: Mapping[str, str], name: str, default: float) -> float:
    try:
        return max(0.0, float(variables.get(name) or default))
    except ValueError:
        return default


def _look_at_mlflow(way: _Way, credentials: _Credentials, target: str, stall: _Stall) -> MlflowServer:
    headers = {"Authorization": credentials.header} if credentials.header else {}
    reply = way.ask(target, headers=headers)
    found = MlflowServer(reach=way.reach("mlflow", reply), status=reply.status, credentials=credentials.origin)
    if not reply.came or reply.is_trouble:
        verdict: Any = "trouble" if reply.came else ""
        return msgspec.structs.replace(found, verdict=verdict, stall_s=stall.seconds(reply))
    if reply.status in {401, 403}:
        refused = b"Invalid Host header" in reply.body
        verdict = "host-refused" if refused else "unauthorized" if reply.status == 401 else "forbidden"
        return found if credentials.plugin and not refused else msgspec.structs.replace(found, verdict=verdict)
    answer = reply.json()
    if not isinstance(answer, dict) or not {"experiment", "run", "error_code"} & answer.keys():
        return msgspec.structs.replace(found, verdict=_which_is_wrong(way))
    return msgspec.structs.replace(
        found, verdict="ready", server_version=_mlflow_version(way, headers), **_described(answer, target)
    )


def _described(answer: Mapping[str, Any], target: str) -> dict[str, Any]:
    """What the server says of the experiment or the run."""
    experiment, run = answer.get("experiment"), answer.get("run")
    if isinstance(experiment, dict):
        deleted = experiment.get("lifecycle_stage") == "deleted"
        location = experiment.get("artifact_location")
        return {
            "experiment": "deleted" if deleted else "exists",
            "artifact_location": scrub(location) if isinstance(location, str) else "",
            "artifact_folder_missing": isinstance(location, str) and _is_missing_folder(location),
        }
    if isinstance(run, dict):
        info = run.get("info")
        deleted = isinstance(info, dict) and info.get("lifecycle_stage") == "deleted"
        return {"run": "deleted" if deleted else "exists"}
    if answer.get("error_code") != "RESOURCE_DOES_NOT_EXIST":
        return {}
    return {"run": "missing"} if "/runs/get" in target else {"experiment": "absent"}


def _is_missing_folder(location: str) -> bool:
    """Whether the experiment's artifacts go to a local path whose root does not exist on this machine."""
    path = location.removeprefix("file://")
    return path.startswith("/") and not os.path.isdir(path) and not os.path.isdir(os.path.dirname(path.rstrip("/")))


def _which_is_wrong(way: _Way) -> Any:
    """Whether the server is MLflow at another path, or something else."""
    parts = urlsplit(way.url)
    roots = [way.url, f"{parts.scheme}://{parts.netloc}"] if parts.path else [way.url]
    for root in roots:
        health = way.ask("/health", root=root)
        if health.status == 200 and health.body.strip() == b"OK":
            return "wrong-path"
    return "wrong-service"


def _mlflow_version(way: _Way, headers: Mapping[str, str]) -> str:
    reply = way.ask("/version", headers=headers)
    text = reply.body.decode("utf-8", "replace").strip()
    return text if reply.status == 200 and re.fullmatch(r"\d+(\.\d+)+\S{0,20}", text) else ""


# --- all of them -------------------------------------------------------------------------------------------------------------


@fact(example=example_reachability)
def reachability(wandb_viewer: WandbViewer, swanlab_access: SwanlabAccess, mlflow_server: MlflowServer) -> list[Reach]:
    """The ways to the servers of all trackers, to find what they have in common."""
    return [wandb_viewer.reach, swanlab_access.reach, mlflow_server.reach]
