"""The looks at the servers, against doubles in this process: which host, which way, which credentials, which verdict."""

import base64
import json
import re
import time

import pytest
from doubles import SWANLAB_KEY, WANDB_KEY

from verl_doctor.api import Environment, Job, Packages, Request
from verl_doctor.registry import Unavailable
from verl_doctor_checks.facts import reachability as facts
from verl_doctor_checks.facts.mlflow import mlflow_files
from verl_doctor_checks.facts.swanlab import swanlab_files
from verl_doctor_checks.facts.wandb import wandb_files, wandb_login

ALL = {"trainer.logger": ["console", "wandb", "swanlab", "mlflow"], "trainer.project_name": "p q"}


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


def environment_of(home, variables):
    return Environment.example({"HOME": str(home)} | variables)


def job_of(home, plain):
    return Job.example({"directory": str(home.parent / "work")} | ALL | plain)


def common(job, environment, packages, timeout):
    """What every look takes."""
    asked = Request(probe_timeout=timeout)
    return {"request": asked, "job": job, "environment": environment, "packages": Packages.example(packages)}


def look_at_wandb(home, variables, job=None, packages=None, timeout=5.0):
    environment, job = environment_of(home, variables), job_of(home, job or {})
    login, files = wandb_login(job, environment), wandb_files(job, environment)
    return facts.wandb_viewer(**common(job, environment, packages, timeout), wandb_login=login, wandb_files=files)


def look_at_swanlab(home, variables, job=None, packages=None, timeout=5.0):
    environment, job = environment_of(home, variables), job_of(home, job or {})
    files = swanlab_files(job, environment)
    return facts.swanlab_access(**common(job, environment, packages, timeout), swanlab_files=files)


def look_at_mlflow(home, variables, job=None, packages=None, timeout=5.0):
    environment, job = environment_of(home, variables), job_of(home, job or {})
    files = mlflow_files(job, environment)
    return facts.mlflow_server(**common(job, environment, packages, timeout), mlflow_files=files)


LOOKS = {"wandb": look_at_wandb, "swanlab": look_at_swanlab, "mlflow": look_at_mlflow}


# --- whether to look ---


@pytest.mark.parametrize("tracker", LOOKS)
def test_nothing_is_asked_for_a_tracker_that_the_job_does_not_use(tracker, home):
    found = LOOKS[tracker](home, {}, {"trainer.logger": ["console"]})
    assert found.reach.state == "not-needed"


@pytest.mark.parametrize("tracker", LOOKS)
def test_nothing_is_asked_when_the_environment_is_not_seen(tracker, home, double):
    server = double("wandb")
    variables = {"unseen": "the Ray cluster was started elsewhere", "WANDB_BASE_URL": server.url, "WANDB_API_KEY": WANDB_KEY}
    variables |= {"SWANLAB_API_HOST": server.url, "SWANLAB_API_KEY": SWANLAB_KEY, "MLFLOW_TRACKING_URI": server.url}
    found = LOOKS[tracker](home, variables)
    assert (found.reach.state, "started elsewhere" in found.reach.reason) == ("unknown", True)
    assert not server.requests


@pytest.mark.parametrize("tracker", LOOKS)
def test_an_unknown_list_of_loggers_is_no_crash(tracker, home):
    found = LOOKS[tracker](home, {}, {"trainer.logger": "x", "unknown": {"trainer.logger": "it comes from a file"}})
    assert found.reach.state == "unknown"


@pytest.mark.parametrize("mode", ["offline", "disabled", "dryrun"])
def test_wandb_offline_asks_nothing(mode, home, double):
    server = double("wandb")
    found = look_at_wandb(home, {"WANDB_MODE": mode, "WANDB_BASE_URL": server.url, "WANDB_API_KEY": WANDB_KEY})
    assert found.reach.state == "not-needed"
    assert not server.requests


def test_the_server_of_an_unknown_wandb_is_not_guessed(home):
    found = look_at_wandb(home, {"WANDB_API_KEY": WANDB_KEY}, packages={"unseen": "another Python"})
    assert found.reach.state == "unknown"


@pytest.mark.parametrize("address", ["databricks", "databricks://profile", "azureml://x"])
def test_managed_mlflow_is_not_probed(address, home):
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": address})
    assert (found.reach.state, "not probed" in found.reach.reason) == ("not-probed", True)


@pytest.mark.parametrize("address", ["sqlite:////tmp/x.db", "./mlruns", "postgresql://h/db"])
def test_mlflow_without_a_server_asks_nothing(address, home):
    assert look_at_mlflow(home, {"MLFLOW_TRACKING_URI": address}).reach.state == "not-needed"


# --- W&B ---


def test_a_good_wandb_key(home, double):
    server = double("wandb")
    found = look_at_wandb(home, {"WANDB_BASE_URL": server.url + "/", "WANDB_API_KEY": WANDB_KEY})
    assert (found.verdict, found.teams, found.key_from) == ("accepted", ("ada", "lab"), "WANDB_API_KEY")
    assert (found.public, found.server_version) == (False, "0.75.0")
    assert [request["path"] for request in server.requests] == ["/graphql", "/graphql"]
    assert abs(found.reach.probe.clock_offset_s) < 2


@pytest.mark.parametrize(
    ("mode", "key", "verdict", "page"),
    [
        ("", "b" * 40, "refused", False),
        ("403", WANDB_KEY, "forbidden", False),
        ("null", WANDB_KEY, "no-account", False),
        ("500", WANDB_KEY, "trouble", False),
        ("429", WANDB_KEY, "trouble", False),
        ("portal", WANDB_KEY, "", True),
    ],
)
def test_what_a_wandb_server_says(mode, key, verdict, page, home, double):
    server = double("wandb", mode)
    found = look_at_wandb(home, {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": key})
    assert (found.verdict, found.reach.page) == (verdict, page)
    assert key not in repr(found)


def test_without_a_key_only_the_way_is_tried(home, double):
    server = double("wandb")
    found = look_at_wandb(home, {"WANDB_BASE_URL": server.url})
    assert (found.verdict, found.reach.state, found.reach.page) == ("", "looked", False)
    assert server.requests[0]["credentials"] == ""


def test_the_stored_wandb_key_of_this_host_and_no_other(home, double):
    server = double("wandb")
    (home / ".netrc").write_text(f"machine api.wandb.ai\n login user\n password {'c' * 40}\n")
    assert look_at_wandb(home, {"WANDB_BASE_URL": server.url}).key_from == ""
    assert all(request["credentials"] == "" for request in server.requests)
    (home / ".netrc").write_text(f"machine 127.0.0.1:{server.port}\n login user\n password {WANDB_KEY}\n")
    found = look_at_wandb(home, {"WANDB_BASE_URL": server.url})
    assert (found.verdict, found.key_from) == ("accepted", str(home / ".netrc"))


def test_server_and_key_from_the_settings_files(home, double):
    server = double("wandb")
    folder = home / ".config" / "wandb"
    folder.mkdir(parents=True)
    (folder / "settings").write_text(f"[default]\nbase_url = {server.url}\napi_key = {WANDB_KEY}\n")
    assert look_at_wandb(home, {}).verdict == "accepted"
    (home / ".netrc").write_text(f"machine 127.0.0.1:{server.port}\n login user\n password {'b' * 40}\n")
    assert look_at_wandb(home, {}).verdict == "refused"
    (home / ".netrc").write_text(f"machine 127.0.0.1\n login user\n password {'b' * 40}\n")
    assert look_at_wandb(home, {}, packages={"wandb": "0.22.2"}).verdict == "accepted"


def test_the_default_server_moved_with_wandb_0_31(home):
    asked = {"WANDB_API_KEY": WANDB_KEY, "HTTPS_PROXY": "http://127.0.0.1:9"}
    assert look_at_wandb(home, asked).reach.server == "api.forge.coreweave.com:443"
    assert look_at_wandb(home, asked, packages={"wandb": "0.30.0"}).reach.server == "api.wandb.ai:443"


def test_a_proxy_in_verl_s_configuration(home, serve, handlers):
    proxy = serve(handlers.forward_proxy(deny="403 Forbidden"))
    variables = {"WANDB_BASE_URL": "https://wandb.example", "WANDB_API_KEY": WANDB_KEY, "NO_PROXY": "*"}
    job = {"trainer.wandb_proxy": f"http://user:pass-word@127.0.0.1:{proxy.port}"}
    found = look_at_wandb(home, variables, job)
    assert (found.reach.probe.cause, found.reach.proxy) == ("proxy-denied", f"http://127.0.0.1:{proxy.port}")
    sent = re.search(rb"Proxy-Authorization: Basic (\S+)", proxy.seen[0])[1]
    assert base64.b64decode(sent) == b"user:pass-word"
    assert "pass-word" not in repr(found)


def test_a_proxy_password_of_a_variable_reaches_the_proxy_and_nothing_else(home, serve, handlers, double):
    server = double("wandb")
    login = base64.b64encode(b"user:pass-word").decode()
    proxy = serve(handlers.forward_proxy(login, names={"wandb.example": "127.0.0.1"}))
    variables = {
        "WANDB_BASE_URL": f"http://wandb.example:{server.port}",
        "WANDB_API_KEY": WANDB_KEY,
        "http_proxy": f"http://user:pass-word@127.0.0.1:{proxy.port}",
    }
    found = look_at_wandb(home, variables)
    assert found.verdict == "accepted"
    assert "pass-word" not in repr(found)


@pytest.mark.parametrize(
    ("variables", "cause"),
    [
        ({}, "unknown-ca"),
        ({"SSL_CERT_FILE": "CA"}, "ok"),
        ({"REQUESTS_CA_BUNDLE": "CA"}, "unknown-ca"),
        ({"SSL_CERT_FILE": "CA", "REQUESTS_CA_BUNDLE": "CA"}, "ok"),
        ({"WANDB_INSECURE_DISABLE_SSL": "true"}, "ok"),
    ],
)
def test_the_authorities_that_wandb_s_core_trusts(variables, cause, home, double, authority):
    server = double("wandb", context=authority.server())
    named = {name: authority.file if value == "CA" else value for name, value in variables.items()}
    found = look_at_wandb(home, {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": WANDB_KEY} | named)
    assert found.reach.probe.cause == cause
    assert bool(server.requests) == (cause == "ok")


# --- SwanLab ---


def test_a_good_swanlab_key(home, double):
    server = double("swanlab")
    found = look_at_swanlab(home, {"SWANLAB_API_HOST": server.url + "/api", "SWANLAB_API_KEY": SWANLAB_KEY})
    assert (found.verdict, found.key_from, found.online) == ("accepted", "SWANLAB_API_KEY", True)
    assert [request["path"] for request in server.requests] == ["/api", "/api/login/api_key"]
    assert [request["credentials"] for request in server.requests] == ["", SWANLAB_KEY]
    assert "s3ss10n" not in repr(found)


@pytest.mark.parametrize(
    ("mode", "key", "verdict", "page"),
    [
        ("", "z" * 21, "refused", False),
        ("403", SWANLAB_KEY, "forbidden", False),
        ("502", SWANLAB_KEY, "trouble", False),
        ("portal", SWANLAB_KEY, "", True),
    ],
)
def test_what_a_swanlab_server_says(mode, key, verdict, page, home, double):
    server = double("swanlab", mode)
    found = look_at_swanlab(home, {"SWANLAB_API_HOST": server.url, "SWANLAB_API_KEY": key})
    assert (found.verdict, found.reach.page) == (verdict, page)
    if page:
        assert not any(request["credentials"] for request in server.requests)


def test_the_key_in_offline_mode_is_still_logged_in_with(home, double):
    server = double("swanlab")
    variables = {"SWANLAB_API_HOST": server.url, "SWANLAB_MODE": "offline"}
    assert look_at_swanlab(home, variables).reach.state == "not-needed"
    assert not server.requests
    found = look_at_swanlab(home, variables | {"SWANLAB_API_KEY": SWANLAB_KEY})
    assert (found.verdict, found.online) == ("accepted", False)


def test_the_stored_swanlab_login_brings_its_own_server(home, double):
    server, other = double("swanlab"), double("swanlab")
    (home / ".swanlab").mkdir()
    (home / ".swanlab" / ".netrc").write_text(f"machine {server.url}\n login {server.url}\n password {SWANLAB_KEY}\n")
    assert look_at_swanlab(home, {}).verdict == "accepted"
    found = look_at_swanlab(home, {"SWANLAB_API_HOST": other.url})
    assert (found.verdict, found.key_from) == ("", "")
    assert not any(request["credentials"] for request in other.requests)


def test_a_dotenv_file_beats_the_environment(home, double):
    server = double("swanlab")
    (home.parent / "work" / ".env").write_text(f"SWANLAB_API_HOST={server.url}\n")
    found = look_at_swanlab(home, {"SWANLAB_API_HOST": "http://127.0.0.1:9", "SWANLAB_API_KEY": SWANLAB_KEY})
    assert found.verdict == "accepted"


def test_a_host_without_a_scheme_means_https(home, double):
    server = double("swanlab")
    found = look_at_swanlab(home, {"SWANLAB_API_HOST": f"127.0.0.1:{server.port}", "SWANLAB_API_KEY": SWANLAB_KEY})
    assert (found.reach.url, found.reach.probe.cause) == (f"https://127.0.0.1:{server.port}", "tls-on-plain-port")


def test_swanlab_sends_loopback_to_the_proxy(home, serve, handlers, double):
    proxy, server = serve(handlers.forward_proxy(deny="403 Forbidden")), double("swanlab")
    variables = {"SWANLAB_API_HOST": server.url, "SWANLAB_API_KEY": SWANLAB_KEY, "ALL_PROXY": f"127.0.0.1:{proxy.port}"}
    assert look_at_swanlab(home, variables).reach.probe.status == 403
    assert len(proxy.seen) == 1
    assert look_at_swanlab(home, variables | {"NO_PROXY": "127.0.0.1"}).verdict == "accepted"


# --- MLflow ---


def mlflow_like(experiment=None, version="3.17.2", login=None, prefix=""):
    """A handler that answers like an MLflow server."""

    def handle(server, connection):
        head = server.read_request(connection).decode("latin-1")
        path = (head + "  ").split(" ")[1]
        authorised = login is None or f"\r\nAuthorization: {login}\r\n" in head
        status, kind, body = 404, "text/html", "<!doctype html><title>404 Not Found</title>"
        if path == f"{prefix}/health":
            status, kind, body = 200, "text/plain", "OK"
        elif not authorised:
            status, kind, body = 401, "text/plain", "You are not authenticated."
        elif path == f"{prefix}/version":
            status, kind, body = 200, "text/plain", version
        elif path.startswith(f"{prefix}/api/2.0/mlflow/experiments/get-by-name?experiment_name=p%20q"):
            missing = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no"}
            status, kind, body = (200 if experiment else 404), "application/json", json.dumps(experiment or missing)
        elif path.startswith(f"{prefix}/api/2.0/mlflow/runs/get"):
            missing = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Run with id=x not found"}
            status, kind, body = 404, "application/json", json.dumps(missing)
        connection.sendall(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())

    return handle


def experiment(**fields):
    return {
        "experiment": {"experiment_id": "1", "lifecycle_stage": "active", "artifact_location": "mlflow-artifacts:/1"} | fields
    }


def url_of(server, path=""):
    return f"http://127.0.0.1:{server.port}{path}"


def basic(text):
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_a_good_mlflow_server(home, serve):
    server = serve(mlflow_like(experiment()))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server, "/")})
    assert (found.verdict, found.experiment, found.server_version) == ("ready", "exists", "3.17.2")
    assert found.artifact_location == "mlflow-artifacts:/1"
    assert look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(serve(mlflow_like()))}).experiment == "absent"


def test_an_experiment_that_was_deleted_and_one_with_artifacts_elsewhere(home, serve, tmp_path):
    server = serve(mlflow_like(experiment(lifecycle_stage="deleted", artifact_location="/no/such/folder/1")))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server)})
    assert (found.experiment, found.artifact_folder_missing) == ("deleted", True)
    server = serve(mlflow_like(experiment(artifact_location=f"file://{tmp_path}/1")))
    assert not look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server)}).artifact_folder_missing


def test_the_run_of_mlflow_run_id(home, serve):
    server = serve(mlflow_like())
    variables = {"MLFLOW_TRACKING_URI": url_of(server), "MLFLOW_RUN_ID": "0123"}
    assert look_at_mlflow(home, variables).run == "missing"
    assert look_at_mlflow(home, variables, {"verl": "0.6.1"}).run == ""


@pytest.mark.parametrize(
    ("path", "prefix", "verdict"),
    [("", "", "ready"), ("/mlflow", "", "wrong-path"), ("/api/2.0/mlflow", "", "wrong-path"), ("/p", "/p", "ready")],
)
def test_the_path_of_the_address(path, prefix, verdict, home, serve):
    server = serve(mlflow_like(prefix=prefix))
    assert look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server, path)}).verdict == verdict


@pytest.mark.parametrize(
    ("status", "body", "kind", "verdict"),
    [
        (200, b"<html>Grafana</html>", "text/html", "wrong-service"),
        (404, b"404 page not found", "text/plain", "wrong-service"),
        (403, b"Invalid Host header - possible DNS rebinding attack detected", "text/plain", "host-refused"),
        (403, b"Permission denied", "text/plain", "forbidden"),
        (401, b"no", "text/plain", "unauthorized"),
        (503, b"no", "text/plain", "trouble"),
    ],
)
def test_what_an_mlflow_server_says(status, body, kind, verdict, home, serve, handlers):
    server = serve(handlers.answer(status, body, Content_Type=kind))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server)})
    assert (found.verdict, found.status) == (verdict, status)
    assert found.stall_s == (244.0 if status == 503 else 0)


CREDENTIALS = [
    ({"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "pass-word"}, basic("ada:pass-word")),
    ({"MLFLOW_TRACKING_TOKEN": "t0ken-t0ken"}, "Bearer t0ken-t0ken"),
    (
        {"MLFLOW_TRACKING_TOKEN": "t0ken-t0ken", "MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "pass-word"},
        basic("ada:pass-word"),
    ),
]


@pytest.mark.parametrize(("variables", "header"), CREDENTIALS, ids=["password", "token", "both"])
def test_credentials_of_the_environment(variables, header, home, serve):
    server = serve(mlflow_like(experiment(), login=header))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server)} | variables)
    assert found.verdict == "ready"
    assert not any(value in repr(found) for value in ("pass-word", "t0ken"))


def test_a_user_name_alone_sends_nothing(home, serve):
    server = serve(mlflow_like(login="x"))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server), "MLFLOW_TRACKING_USERNAME": "ada"})
    assert (found.verdict, found.credentials) == ("unauthorized", "")
    assert b"Authorization" not in server.seen[0]


def test_stored_credentials_and_the_order_of_all(home, serve):
    (home / ".mlflow").mkdir()
    stored = "[mlflow]\nmlflow_tracking_username = stored\nmlflow_tracking_password = w0rd-w0rd\n"
    (home / ".mlflow" / "credentials").write_text(stored)
    server = serve(mlflow_like(experiment(), login=basic("stored:w0rd-w0rd")))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server)})
    assert (found.verdict, found.credentials) == ("ready", str(home / ".mlflow" / "credentials"))
    server = serve(mlflow_like(experiment(), login=basic("in:address-w0rd")))
    address = f"http://in:address-w0rd@127.0.0.1:{server.port}"
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": address})
    assert (found.verdict, found.credentials) == ("ready", "the tracking address")
    assert "address-w0rd" not in repr(found)
    (home / ".netrc").write_text("machine 127.0.0.1\n login in\n password netrc-w0rd\n")
    server = serve(mlflow_like(experiment(), login=basic("in:netrc-w0rd")))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": f"http://in:address-w0rd@127.0.0.1:{server.port}"})
    assert (found.verdict, found.credentials) == ("ready", str(home / ".netrc"))


def test_a_plug_in_for_the_login_is_not_judged(home, serve):
    server = serve(mlflow_like(login="x"))
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": url_of(server), "MLFLOW_TRACKING_AUTH": "kubernetes"})
    assert (found.verdict, found.reach.state) == ("", "looked")


def test_mlflow_over_tls(home, serve, authority, tmp_path):
    server = serve(mlflow_like(experiment()), context=authority.server())
    address = {"MLFLOW_TRACKING_URI": f"https://127.0.0.1:{server.port}"}
    assert look_at_mlflow(home, address).reach.probe.cause == "unknown-ca"
    for name in ("MLFLOW_TRACKING_SERVER_CERT_PATH", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        assert look_at_mlflow(home, address | {name: authority.file}).verdict == "ready"
    assert look_at_mlflow(home, address | {"MLFLOW_TRACKING_INSECURE_TLS": "true"}).verdict == "ready"
    assert look_at_mlflow(home, address | {"SSL_CERT_FILE": authority.file}).reach.probe.cause == "unknown-ca"
    assert look_at_mlflow(home, address | {"REQUESTS_CA_BUNDLE": "/no/such.pem"}).reach.probe.cause == "ca-missing"


@pytest.mark.parametrize(
    ("variables", "packages", "seconds"),
    [
        ({}, {}, 244),
        ({}, {"mlflow": "2.16.2"}, 60),
        ({"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}, {}, 0),
        ({"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3", "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1"}, {}, 6),
    ],
)
def test_how_long_a_dead_server_blocks(variables, packages, seconds, home, closed_port):
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{closed_port}"} | variables, packages=packages)
    assert (found.reach.probe.cause, found.stall_s) == ("refused", seconds)


def test_how_long_a_silent_server_blocks(home, black_hole):
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{black_hole}"}, timeout=0.4)
    assert (found.reach.probe.cause, found.stall_s) == ("no-answer", 244 + 8 * 120)


# --- all of them ---


def test_an_entry_of_no_proxy_that_this_client_does_not_understand(home, closed_port):
    variables = {"http_proxy": f"http://127.0.0.1:{closed_port}", "NO_PROXY": "*.corp.example"}
    found = look_at_mlflow(home, {"MLFLOW_TRACKING_URI": "http://mlflow.corp.example"} | variables)
    assert (found.reach.probe.at, found.reach.near_entry) == ("proxy", "*.corp.example")


def test_the_deadline_holds_for_all_requests_together(home, double):
    server = double("swanlab", "hang")
    begun = time.monotonic()
    found = look_at_swanlab(home, {"SWANLAB_API_HOST": server.url, "SWANLAB_API_KEY": SWANLAB_KEY}, timeout=0.5)
    assert found.reach.probe.cause == "silent"
    assert time.monotonic() - begun < 1.5


def test_facts_never_raise_for_a_bad_address(home):
    for address in ("http://", "http://[::1", "http://h:port", "https://h/#/experiments", "http://exa mple"):
        for tracker, variable in (
            ("wandb", "WANDB_BASE_URL"),
            ("mlflow", "MLFLOW_TRACKING_URI"),
            ("swanlab", "SWANLAB_API_HOST"),
        ):
            variables = {
                variable: address,
                "SWANLAB_API_KEY": SWANLAB_KEY,
                "HTTP_PROXY": "127.0.0.1:9",
                "HTTPS_PROXY": "127.0.0.1:9",
            }
            try:
                assert LOOKS[tracker](home, variables).reach.state in {"looked", "unknown"}
            except Unavailable:
                pytest.fail("a look may not be unavailable")
