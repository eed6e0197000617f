"""The real clients against staged servers: they prove the doubles, and each verdict is held to what the client then does."""

import base64
import concurrent.futures
import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from doubles import SWANLAB_KEY, WANDB_KEY, Double, SwanlabHandler, WandbHandler
from staged import Authority, Server, answer, forward_proxy

from verl_doctor.diagnosis import diagnose
from verl_doctor.job.model import Argument, Request, Source
from verl_doctor.job.variables import make_variable

SERVER_START_S = 90
CLIENT_S = 100
AT_ONCE = 4

LOG = {
    "wandb": """
import wandb
run = wandb.init(project="p", name="e", entity=os.environ.get("WANDB_ENTITY"))
for step in range(3):
    wandb.log({"loss": step}, step=step)
wandb.finish()
""",
    "swanlab": """
import swanlab
swanlab.login(os.environ["SWANLAB_API_KEY"])
swanlab.init(project="p", experiment_name="e", config={"a": 1}, logdir="swanlog", mode=os.environ.get("SWANLAB_MODE", "cloud"))
for step in range(3):
    swanlab.log({"loss": step}, step=step)
swanlab.finish()
""",
    "mlflow": """
import mlflow
mlflow.set_tracking_uri(os.environ["MLFLOW_TRACKING_URI"])
if os.environ.get("MLFLOW_RUN_ID"):
    mlflow.start_run(run_id=os.environ["MLFLOW_RUN_ID"])
else:
    experiment = mlflow.set_experiment(os.environ["PROJECT"])
    mlflow.start_run(experiment_id=experiment.experiment_id, run_name="e")
mlflow.log_params({"a": 1})
mlflow.log_metrics({"loss": 1.0}, step=1)
""",
}
AROUND = """
import json, os, sys, time
begun, said = time.monotonic(), ""
try:
{body}
except BaseException as error:
    said = f"{{type(error).__name__}}: {{error}}"
print("OUTCOME " + json.dumps([said, time.monotonic() - begun]), flush=True)
os._exit(0)
"""


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed for this Python")


class Stage:
    """What a case may start; `clean` ends all of it."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = Authority(folder)
        self.ends = contextlib.ExitStack()

    def double(self, tracker, mode="", *, tls=False):
        handler = {"wandb": WandbHandler, "swanlab": SwanlabHandler}[tracker]
        context = self.authority.server() if tls else None
        started = Double(handler, mode, context)
        self.ends.callback(started.close)
        return started

    def server(self, handle):
        started = Server(handle)
        self.ends.callback(started.close)
        return started

    def proxy(self, **options):
        return f"http://127.0.0.1:{self.server(forward_proxy(**options)).port}"

    def closed_port(self):
        reserved = self.ends.enter_context(socket.socket())
        reserved.bind(("127.0.0.1", 0))
        return reserved.getsockname()[1]

    def black_hole(self):
        listener = self.ends.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = self.ends.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    staged = Stage(tmp_path_factory.mktemp("stage"))
    with staged.ends:
        yield staged


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def client(tracker, environment, folder, before=""):
    """What the real client says, empty when it logs, and the seconds that it took. It sees this environment alone."""
    (folder / "home").mkdir(parents=True, exist_ok=True)
    body = "\n".join("    " + line for line in (before + LOG[tracker]).strip().splitlines())
    given = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        [sys.executable, "-c", AROUND.format(body=body)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=given | environment,
        timeout=CLIENT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("OUTCOME ")), None)
    assert line is not None, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(line.removeprefix("OUTCOME "))


def verdict(tracker, environment, folder):
    """The codes that we find, with how bad they are, and the seconds that it took."""
    (folder / "home").mkdir(parents=True, exist_ok=True)
    source = Source("shell", "environment")
    given = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")} | environment
    request = Request(
        overrides=[
            Argument(f"trainer.logger=[{tracker}]"),
            Argument(f"trainer.project_name={environment.get('PROJECT', 'p')}"),
        ],
        environment={name: make_variable(name, value, source) for name, value in given.items()},
        directory=str(folder),
    )
    begun = time.monotonic()
    report = diagnose([request], ["network"])
    return {result.code: result.severity.value for result in report.findings}, time.monotonic() - begun


# --- the cases: what is staged, what we find, whether the real client logs all the same ---


def wandb(**more):
    return {
        "WANDB_API_KEY": WANDB_KEY,
        "WANDB_INIT_TIMEOUT": "4",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
    } | more


def swanlab(**more):
    return {"SWANLAB_API_KEY": SWANLAB_KEY, "SWANLAB_INTERACTIVE": "0"} | more


def names(host):
    return {"names": {host: "127.0.0.1"}}


WANDB_CASES = {
    "good": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb").url), {}, True),
    "good through a proxy": (
        lambda s: wandb(
            WANDB_BASE_URL=f"http://wandb.example:{s.double('wandb').port}", http_proxy=s.proxy(**names("wandb.example"))
        ),
        {},
        True,
    ),
    "wrong key": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb").url, WANDB_API_KEY="b" * 40), {"WANDB050": "error"}, False),
    "forbidden": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb", "403").url), {"WANDB052": "error"}, False),
    "no account": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb", "null").url), {"WANDB051": "warning"}, True),
    "other team": (
        lambda s: wandb(WANDB_BASE_URL=s.double("wandb").url, WANDB_ENTITY="strangers"),
        {"WANDB053": "warning"},
        True,  # the double lets everybody write
    ),
    "server error": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb", "500").url), {"WANDB055": "warning"}, False),
    "login page": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb", "portal").url), {"NET010": "error"}, False),
    "redirect": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb", "login page").url), {"NET010": "error"}, False),
    "refused": (lambda s: wandb(WANDB_BASE_URL=f"http://127.0.0.1:{s.closed_port()}"), {"NET005": "error"}, False),
    "black hole": (lambda s: wandb(WANDB_BASE_URL=f"http://127.0.0.1:{s.black_hole()}"), {"NET006": "error"}, False),
    "dead proxy": (
        lambda s: wandb(WANDB_BASE_URL="http://wandb.example", HTTP_PROXY=f"http://127.0.0.1:{s.closed_port()}"),
        {"NET001": "error"},
        False,
    ),
    "proxy wants a login": (
        lambda s: wandb(WANDB_BASE_URL="https://wandb.example", HTTPS_PROXY=s.proxy(login="x")),
        {"NET002": "error"},
        False,
    ),
    "proxy forbids": (
        lambda s: wandb(WANDB_BASE_URL="https://wandb.example", HTTPS_PROXY=s.proxy(deny="403 Forbidden")),
        {"NET003": "error"},
        False,
    ),
    "private authority": (lambda s: wandb(WANDB_BASE_URL=s.double("wandb", tls=True).url), {"NET007": "error"}, False),
    "authority in SSL_CERT_FILE": (
        lambda s: wandb(WANDB_BASE_URL=s.double("wandb", tls=True).url, SSL_CERT_FILE=s.authority.file),
        {},
        True,
    ),
    "authority in REQUESTS_CA_BUNDLE": (
        lambda s: wandb(WANDB_BASE_URL=s.double("wandb", tls=True).url, REQUESTS_CA_BUNDLE=s.authority.file),
        {"NET007": "error"},
        False,
    ),
    "https to a plain port": (
        lambda s: wandb(WANDB_BASE_URL=s.double("wandb").url.replace("http", "https")),
        {"NET009": "error"},
        False,
    ),
    "a proxy in ALL_PROXY": (
        lambda s: wandb(
            WANDB_BASE_URL=f"http://wandb.invalid:{s.double('wandb').port}", ALL_PROXY=s.proxy(**names("wandb.invalid"))
        ),
        {"NET012": "error"},
        False,
    ),
}

SWANLAB_CASES = {
    "good": (lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab").url), {}, True),
    "a proxy in ALL_PROXY": (
        lambda s: swanlab(
            SWANLAB_API_HOST=f"http://swanlab.invalid:{s.double('swanlab').port}",
            ALL_PROXY=s.proxy(**names("swanlab.invalid")),
            NO_PROXY="127.0.0.1",
        ),
        {},
        True,
    ),
    "wrong key": (
        lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab").url, SWANLAB_API_KEY="z" * 21),
        {"SWANLAB050": "error"},
        False,
    ),
    "not activated": (lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab", "403").url), {"SWANLAB051": "error"}, False),
    "bad gateway": (lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab", "502").url), {"SWANLAB052": "warning"}, False),
    "login page": (lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab", "portal").url), {"NET010": "error"}, False),
    "refused": (lambda s: swanlab(SWANLAB_API_HOST=f"http://127.0.0.1:{s.closed_port()}"), {"SWANLAB003": "error"}, False),
    "no such name": (lambda s: swanlab(SWANLAB_API_HOST="http://swanlab.invalid"), {"SWANLAB003": "error"}, False),
    "offline with a key": (
        lambda s: swanlab(SWANLAB_API_HOST=f"http://127.0.0.1:{s.closed_port()}", SWANLAB_MODE="offline"),
        {"SWANLAB003": "error"},
        False,
    ),
    "loopback through a dead proxy": (
        lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab").url, HTTP_PROXY=f"http://127.0.0.1:{s.closed_port()}"),
        {"NET001": "error"},
        False,
    ),
    "no scheme": (
        lambda s: swanlab(SWANLAB_API_HOST=f"127.0.0.1:{s.double('swanlab').port}"),
        {"NET009": "error"},
        False,
    ),
    "private authority": (lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab", tls=True).url), {"NET007": "error"}, False),
    "authority in REQUESTS_CA_BUNDLE": (
        lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab", tls=True).url, REQUESTS_CA_BUNDLE=s.authority.file),
        {},
        True,
    ),
    "missing bundle": (
        lambda s: swanlab(SWANLAB_API_HOST=s.double("swanlab", tls=True).url, REQUESTS_CA_BUNDLE="/no/such.pem"),
        {"NET011": "error"},
        False,
    ),
}


@pytest.fixture(scope="module")
def outcomes(stage, tmp_path_factory):
    """For each case our verdict and what the client says; the clients run side by side."""
    wanted = [("wandb", name, case) for name, case in WANDB_CASES.items() if importlib.util.find_spec("wandb")]
    wanted += [("swanlab", name, case) for name, case in SWANLAB_CASES.items() if importlib.util.find_spec("swanlab")]
    found = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = {}
        for tracker, name, (staging, _, _) in wanted:
            environment = staging(stage)
            folder = tmp_path_factory.mktemp("case")
            found[tracker, name] = [verdict(tracker, environment, folder)]
            running[tracker, name] = pool.submit(client, tracker, environment, folder)
        for case, future in running.items():
            found[case].append(future.result())
    return found


def judge(outcomes, tracker, name, cases):
    (codes, seconds), (said, client_seconds) = outcomes[tracker, name]
    _, expected, logs = cases[name]
    assert codes == expected
    assert (said == "") == logs, said
    assert seconds < 7
    if not logs and client_seconds > 8:  # a fault of the network: the client retries
        assert seconds < client_seconds


@needs("wandb", "verl")
@pytest.mark.parametrize("name", WANDB_CASES)
def test_the_verdict_agrees_with_wandb(name, outcomes):
    judge(outcomes, "wandb", name, WANDB_CASES)


@needs("swanlab", "verl")
@pytest.mark.parametrize("name", SWANLAB_CASES)
def test_the_verdict_agrees_with_swanlab(name, outcomes):
    judge(outcomes, "swanlab", name, SWANLAB_CASES)


@needs("wandb")
def test_the_real_wandb_logs_to_the_double(stage, tmp_path):
    double = stage.double("wandb")
    log_in = "import wandb\nassert wandb.login(verify=True)\n"
    said, _ = client("wandb", wandb(WANDB_BASE_URL=double.url), tmp_path, before=log_in)
    assert said == ""
    assert double.seen("Viewer")
    assert double.seen("UpsertBucket")
    assert {request["credentials"] for request in double.seen("/graphql")} == {WANDB_KEY}
    rows = [
        row
        for part in double.state["streams"]
        for row in part.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
    ]
    assert [json.loads(row)["loss"] for row in rows] == [0, 1, 2]
    assert any(part.get("exitcode") == 0 for part in double.state["streams"])


@needs("swanlab")
def test_the_real_swanlab_logs_to_the_double(stage, tmp_path):
    double = stage.double("swanlab")
    said, _ = client("swanlab", swanlab(SWANLAB_API_HOST=double.url), tmp_path)
    assert said == ""
    assert [request["credentials"] for request in double.seen("login")] == [SWANLAB_KEY]
    values = [metric["data"] for metric in double.state["metrics"] if metric.get("key") == "loss"]
    assert values == [0, 1, 2]
    assert double.state["finished"]["state"] == "FINISHED"


# --- MLflow: its real server ---


@contextlib.contextmanager
def mlflow_running(folder, *options, **environment):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/store.db",
        "--artifacts-destination",
        str(folder / "artifacts"),
        *options,
    ]
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    given |= {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"} | environment
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, env=given, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait(20)


def wait_for(url, process, log):
    end = time.monotonic() + SERVER_START_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < end:
        with contextlib.suppress(OSError), opener.open(url, timeout=2) as response:
            if response.status == 200:
                return
        assert process.poll() is None, log.read_text()[-3000:]
        time.sleep(0.2)
    pytest.fail(f"mlflow server did not start: {log.read_text()[-3000:]}")


def post(url, path, content, login=""):
    request = urllib.request.Request(f"{url}/api/2.0/mlflow/{path}", json.dumps(content).encode())
    request.add_header("Content-Type", "application/json")
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        return json.load(response)


@pytest.fixture(scope="module")
def mlflow_url(tmp_path_factory):
    with mlflow_running(tmp_path_factory.mktemp("mlflow")) as url:
        deleted = post(url, "experiments/create", {"name": "deleted"})["experiment_id"]
        post(url, "experiments/delete", {"experiment_id": deleted})
        yield url


def mlflow(url, **more):
    quick = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {"MLFLOW_TRACKING_URI": url, "PROJECT": "p"} | quick | more


MLFLOW_CASES = {
    "good": (lambda s, url: mlflow(url + "/"), {}, True),
    "deleted experiment": (lambda s, url: mlflow(url, PROJECT="deleted"), {"MLFLOW056": "error"}, False),
    "wrong prefix": (lambda s, url: mlflow(url + "/mlflow"), {"MLFLOW055": "error"}, False),
    "too much path": (lambda s, url: mlflow(url + "/api/2.0"), {"MLFLOW055": "error"}, False),
    "missing run": (lambda s, url: mlflow(url, MLFLOW_RUN_ID="0" * 32), {"MLFLOW059": "error"}, False),
    "host header": (
        lambda s, url: mlflow(url.replace("127.0.0.1", "mlflow.example"), http_proxy=s.proxy(**names("mlflow.example"))),
        {"MLFLOW053": "error"},
        False,
    ),
    "refused": (lambda s, url: mlflow(f"http://127.0.0.1:{s.closed_port()}"), {"MLFLOW050": "error"}, False),
    "no such name": (lambda s, url: mlflow("http://mlflow.invalid"), {"MLFLOW050": "error"}, False),
    "another service": (
        lambda s, url: mlflow(
            f"http://127.0.0.1:{s.server(answer(body=b'<html>Grafana</html>', Content_Type='text/html')).port}"
        ),
        {"MLFLOW054": "error"},
        False,
    ),
    "in trouble": (
        lambda s, url: mlflow(f"http://127.0.0.1:{s.server(answer(503, b'no')).port}"),
        {"MLFLOW058": "error"},
        False,
    ),
    "https to a plain port": (lambda s, url: mlflow(url.replace("http", "https")), {"NET009": "error"}, False),
    "loopback through a dead proxy": (
        lambda s, url: mlflow(url, HTTP_PROXY=f"http://127.0.0.1:{s.closed_port()}"),
        {"NET001": "error"},
        False,
    ),
}


@pytest.fixture(scope="module")
def mlflow_outcomes(stage, mlflow_url, tmp_path_factory):
    found = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        running = {}
        for name, (staging, _, _) in MLFLOW_CASES.items():
            environment, folder = staging(stage, mlflow_url), tmp_path_factory.mktemp("case")
            found["mlflow", name] = [verdict("mlflow", environment, folder)]
            running["mlflow", name] = pool.submit(client, "mlflow", environment, folder)
        for case, future in running.items():
            found[case].append(future.result())
    return found


@needs("mlflow", "verl")
@pytest.mark.parametrize("name", MLFLOW_CASES)
def test_the_verdict_agrees_with_mlflow(name, mlflow_outcomes):
    judge(mlflow_outcomes, "mlflow", name, MLFLOW_CASES)


@needs("mlflow", "flask_wtf", "verl")
def test_mlflow_with_logins(tmp_path):
    """Its basic-auth app: each request hashes the password, so a look takes a moment."""
    admin, password = "admin", "Admin-passw0rd-1"
    settings = {"MLFLOW_FLASK_SERVER_SECRET_KEY": "secret-of-the-test", "MLFLOW_AUTH_ADMIN_PASSWORD": password}
    with mlflow_running(tmp_path, "--app-name", "basic-auth", **settings) as url:
        login = {"MLFLOW_TRACKING_USERNAME": admin, "MLFLOW_TRACKING_PASSWORD": password}
        wrong = login | {"MLFLOW_TRACKING_PASSWORD": "not-the-passw0rd"}
        other = tmp_path / "other"
        assert verdict("mlflow", mlflow(url), other)[0] == {"MLFLOW051": "error"}
        assert verdict("mlflow", mlflow(url, **wrong), other)[0] == {"MLFLOW051": "error"}
        assert verdict("mlflow", mlflow(url, **login), other)[0] == {}
        assert client("mlflow", mlflow(url, **wrong), other)[0] != ""
        assert client("mlflow", mlflow(url, **login), other)[0] == ""
        (other / "home" / ".netrc").write_text("machine 127.0.0.1\n login admin\n password not-the-passw0rd\n")
        assert verdict("mlflow", mlflow(url, **login), other)[0] == {"MLFLOW051": "error"}
        assert client("mlflow", mlflow(url, **login), other)[0] != ""


# --- side by side, credentials, time ---


@needs("mlflow", "verl")
def test_three_healthy_trackers_take_less_than_a_second(stage, mlflow_url, tmp_path):
    environment = wandb(WANDB_BASE_URL=stage.double("wandb").url) | swanlab(SWANLAB_API_HOST=stage.double("swanlab").url)
    environment |= mlflow(mlflow_url)
    verdict("wandb,swanlab,mlflow", environment, tmp_path)
    codes, seconds = verdict("wandb,swanlab,mlflow", environment, tmp_path)
    assert codes == {}
    assert seconds < 1


@needs("verl")
def test_one_dead_proxy_is_one_finding_for_all_trackers(stage, tmp_path):
    proxy = f"http://127.0.0.1:{stage.closed_port()}"
    environment = wandb(WANDB_BASE_URL="http://wandb.example", HTTP_PROXY=proxy, http_proxy=proxy)
    environment |= swanlab(SWANLAB_API_HOST="http://swanlab.example") | mlflow("http://mlflow.example")
    assert verdict("wandb,swanlab,mlflow", environment, tmp_path)[0] == {"NET001": "error"}


@needs("verl")
def test_nothing_that_is_secret_is_printed_passed_on_or_sent_elsewhere(stage, tmp_path):
    """Keys that are refused, a proxy with a password, a redirect: what a report shows, and who received what."""
    other = stage.double("wandb")
    secrets = ["b7" * 20, "qwertyuiopasdfghjklzx", "mlflow-pass-w0rd", "proxy-pass-w0rd"]
    away = stage.server(answer(302, b"", Location=f"{other.url}/graphql"))
    proxy = stage.server(forward_proxy(login="x"))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(tmp_path),
        "WANDB_BASE_URL": f"http://127.0.0.1:{away.port}",
        "WANDB_API_KEY": secrets[0],
        "SWANLAB_API_HOST": stage.double("swanlab").url,
        "SWANLAB_API_KEY": secrets[1],
        "MLFLOW_TRACKING_URI": f"http://ada:{secrets[2]}@mlflow.example",
        "HTTP_PROXY": f"http://ada:{secrets[3]}@127.0.0.1:{proxy.port}",
        "NO_PROXY": "127.0.0.1",
    }
    for form in ("text", "json"):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "verl_doctor",
                "check",
                "network",
                "trainer.logger=[wandb,swanlab,mlflow]",
                "--format",
                form,
                "-vv",
            ],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        shown = done.stdout + done.stderr
        assert all(code in shown for code in ("NET010", "SWANLAB050", "NET002")), shown
        assert not [secret for secret in secrets if secret in shown]
        assert not [text for secret in secrets if (text := base64.b64encode(secret.encode()).decode()[4:-4]) in shown]
    assert other.requests == []
    assert all(secrets[3].encode() not in head and secrets[2].encode() not in head for head in away.seen)
    assert not [path for path in Path(tmp_path).rglob("*") if path.is_file()]
