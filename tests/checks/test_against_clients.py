"""The verdicts of the checks against the real clients: where a client refuses, a check says error, and nowhere else."""

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from verl_doctor.api import Environment, Job, Severity, Undetermined
from verl_doctor.registry import example_facts, load_built_in
from verl_doctor_checks.facts.swanlab import swanlab_files
from verl_doctor_checks.facts.wandb import wandb_files, wandb_login

REGISTRY = load_built_in()
SCRIPT = Path(__file__).with_name("client_rows.py")
KEY = "a" * 40


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed for this Python")


def ask(question, rows, directory, environment=None):
    """What the real client says to each row; the child sees only the given environment and an empty home."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    child = {"PATH": os.environ["PATH"], "HOME": str(home), "WANDB_SILENT": "true"} | (environment or {})
    done = subprocess.run(
        [sys.executable, str(SCRIPT), question],
        input=json.dumps(rows),
        capture_output=True,
        text=True,
        cwd=directory,
        env=child,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def installed(*names):
    """The versions of these distributions for this Python, None for one that is missing."""
    versions = {found.metadata["Name"].lower(): found.version for found in importlib.metadata.distributions()}
    return {name: versions.get(name) for name in names}


def errors(codes, row, **facts):
    """The errors that these checks find; `facts` are given as they are."""
    found = []
    for code in codes:
        check = REGISTRY.checks[code]
        values = example_facts(check, REGISTRY, {name: plain for name, plain in row.items() if name in check.needs})
        values |= {name: value for name, value in facts.items() if name in check.needs}
        try:
            found += [f for f in check.function(**values) if (f.severity or check.severity) is Severity.ERROR]
        except Undetermined as error:
            pytest.fail(f"{code} is undecided: {error}")
    return [finding.message.text for finding in found]


def compare(rows, outcomes, verdicts):
    wrong = [
        f"{row}: the client says {outcome[:150]!r}, the checks say {verdict}"
        for row, outcome, verdict in zip(rows, outcomes, verdicts, strict=True)
        if bool(outcome) != bool(verdict)
    ]
    assert not wrong, "\n".join(wrong)


WANDB_ENVIRONMENTS = [
    *[{"WANDB_MODE": value} for value in ("online", "offline", "dryrun", "run", "shared", "disabled")],
    *[{"WANDB_MODE": value} for value in ("", "Offline", "OFFLINE", "offline ", '"offline"', "local", "true")],
    *[{"WANDB_RESUME": value, "WANDB_RUN_ID": "r"} for value in ("allow", "must", "never", "auto", "", "true", "Allow", "yes")],
    *[
        {"WANDB_RUN_ID": value, "WANDB_RESUME": "allow"}
        for value in ("", " a", "a ", "a/b", "a:b", "a b", "a'b", "项目", "a_b-1.2")
    ],
    *[
        {"WANDB_BASE_URL": value}
        for value in (
            "",
            "api.wandb.ai",
            "https://api.wandb.ai",
            "https://api.wandb.ai/",
            "http://api.wandb.ai",
            "https://wandb.ai",
            "https://wandb.ai/team",
            "https://app.wandb.ai",
            "https://mywandb.ai",
            "https://wandb.ai.example.com",
            "http://wandb.example.ai",
            "localhost:8080",
            "http://localhost:8080",
            "http://10.0.0.7:8080/prefix",
            "http:/wandb.example.com",
            "http://",
            "https//wandb.example.com",
            '"https://wandb.example.com"',
            " https://wandb.example.com",
            "https://wandb example.com",
            "ftp://wandb.example.com",
            "HTTPS://wandb.example.com",
            "https://wandb.example.com:99999",
            "https://forge.coreweave.com",
            "https://forge.coreweave.com/api/wandb",
            "https://api.forge.coreweave.com",
            "http://[::1]:8080",
        )
    ],
    *[
        {name: value}
        for name in ("WANDB_INIT_TIMEOUT", "WANDB_HTTP_TIMEOUT", "WANDB_FILE_PUSHER_TIMEOUT", "WANDB__SERVICE_WAIT")
        for value in ("300", "1.5", " 30 ", "1e3", "2m", "", "abc")
    ],
    {"WANDB_X_SERVICE_WAIT": "-1"},
    *[
        {"WANDB_HTTPS_PROXY": value}
        for value in ("http://p:1", "https://p:1", "http://user:word@p:1", "p:1", "socks5://p:1", "", "//p:1")
    ],
    {"WANDB_API_KEY": f" {KEY}", "WANDB_MODE": "offline"},
    {"WANDB_API_KEY": f"{KEY}\n", "WANDB_MODE": "disabled"},
    {"WANDB_API_KEY": f'"{KEY}"', "WANDB_MODE": "offline"},
    {"WANDB_API_KEY": "short", "WANDB_MODE": "offline"},
    {"WANDB_ENTITY": "team", "WANDB_DISABLED": "true", "WANDB_NO_SUCH": "1"},
]


@needs("wandb")
def test_wandb_refuses_the_same_variables(tmp_path):
    outcomes = ask("wandb_environment", [{"environment": values} for values in WANDB_ENVIRONMENTS], tmp_path)
    codes = ("WANDB003", "WANDB005", "WANDB007", "WANDB010", "WANDB014", "WANDB016", "WANDB018", "WANDB023")
    packages = installed("wandb")
    verdicts = [
        errors(codes, {"environment": {"WANDB_MODE": "offline"} | values, "packages": packages})
        for values in WANDB_ENVIRONMENTS
    ]
    compare(WANDB_ENVIRONMENTS, outcomes, verdicts)


@needs("wandb")
def test_wandb_refuses_the_same_names_and_proxies(tmp_path):
    projects = ["verl_examples", "a b 项目", "org/p", "a:b", "50%", "a#b", "a?b", "a\\b", "p" * 128, "p" * 129]
    proxies = ["http://p:1", "https://p:1", "http://u:w@p:1", "p:1", "socks5://p:1", "http:/p", "//p:1"]
    rows = [{"project": name} for name in projects] + [{"https_proxy": proxy} for proxy in proxies]
    outcomes = ask("wandb_environment", [{"settings": row, "environment": {}} for row in rows], tmp_path)
    keys = {"project": "trainer.project_name", "https_proxy": "trainer.wandb_proxy"}
    verdicts = [
        errors(
            ("WANDB013", "WANDB018"),
            {"job": {keys[name]: value for name, value in row.items()}, "packages": installed("wandb")},
        )
        for row in rows
    ]
    compare(rows, outcomes, verdicts)


@needs("wandb")
def test_wandb_refuses_the_same_keys(tmp_path):
    keys = [
        KEY,
        "a" * 39,
        "a" * 41,
        "wandb_v1_" + "a" * 77,
        "local-" + KEY,
        "local-" + "a" * 39,
        "x-y-" + KEY,
        "a.b.c",
        "aa.bb",
        KEY + "!",
        KEY + " x",
        "123",
        "none",
        "<key>",
        "YOUR_WANDB_API_KEY",
        f'"{KEY}"',
        "sk-" + KEY,
    ]
    outcomes = ask("wandb_key", [{"key": key} for key in keys], tmp_path)
    codes = ("WANDB003", "WANDB004", "WANDB005")
    verdicts = [errors(codes, {"environment": {"WANDB_API_KEY": key}, "packages": installed("wandb")}) for key in keys]
    compare(keys, outcomes, verdicts)


WANDB_HOMES = {
    "nothing": {},
    "netrc": {"home/.netrc": f"machine api.wandb.ai\n  login user\n  password {KEY}\n"},
    "netrc of the new host": {"home/.netrc": f"machine api.forge.coreweave.com login user password {KEY}\n"},
    "netrc of the web page": {"home/.netrc": f"machine wandb.ai login user password {KEY}\n"},
    "netrc with a default": {"home/.netrc": f"default login user password {KEY}\n"},
    "netrc without a key": {"home/.netrc": 'machine api.wandb.ai login user password ""\n'},
    "netrc with a short key": {"home/.netrc": "machine api.wandb.ai login user password short\n"},
    "broken netrc": {"home/.netrc": f"machine api.wandb.ai login user password {KEY}\nnonsense\n"},
    "_netrc": {"home/_netrc": f"machine api.wandb.ai login user password {KEY}\n"},
    "offline in the folder": {"wandb/settings": "[default]\nmode = offline\n"},
    "offline in a hidden folder": {".wandb/settings": "[default]\nmode = offline\n"},
    "offline for the user": {"home/.config/wandb/settings": "[default]\nmode = offline\n"},
    "key in the settings": {"home/.config/wandb/settings": f"[default]\napi_key = {KEY}\n"},
    "unknown setting": {"wandb/settings": "[default]\nmode = offline\nno_such = 1\n"},
    "setting of an old wandb": {"wandb/settings": "[default]\nmode = offline\ndisabled = true\n"},
    "wrong mode": {"wandb/settings": "[default]\nmode = Offline\n"},
    "unknown setting elsewhere": {
        "wandb/settings": "[default]\nmode = offline\n",
        "home/.config/wandb/settings": "[default]\nfoo = 1\n",
    },
    "not an INI file": {"wandb/settings": "mode = offline\n"},
    "another section": {"wandb/settings": "[other]\nmode = offline\n"},
    "server of one's own": {
        "home/.config/wandb/settings": "[default]\nbase_url = http://wandb.lan:8080\n",
        "home/.netrc": f"machine wandb.lan:8080 login user password {KEY}\n",
    },
    "server without the port": {
        "home/.config/wandb/settings": "[default]\nbase_url = http://wandb.lan:8080\n",
        "home/.netrc": f"machine wandb.lan login user password {KEY}\n",
    },
}


def lay_out(directory, files):
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (directory / "home").mkdir(parents=True, exist_ok=True)
    return Job.example({"directory": str(directory)}), Environment.example({"HOME": str(directory / "home")})


@needs("wandb")
@pytest.mark.parametrize("name", WANDB_HOMES)
def test_wandb_finds_a_key_in_the_same_files(tmp_path, name):
    job, environment = lay_out(tmp_path, WANDB_HOMES[name])
    outcomes = ask("wandb_credentials", [{}], tmp_path)
    verdict = errors(
        ("WANDB001", "WANDB003"),
        {"packages": installed("wandb")},
        environment=environment,
        wandb_login=wandb_login(job, environment),
        wandb_files=wandb_files(job, environment),
    )
    compare([name], outcomes, [verdict])


@needs("wandb")
def test_the_mode_that_wandb_offline_writes_is_found(tmp_path):
    job, environment = lay_out(tmp_path, {})
    subprocess.run(
        [sys.executable, "-m", "wandb", "offline"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")},
        capture_output=True,
        timeout=60,
        check=True,
    )
    files = wandb_files(job, environment)
    assert [(file.values, file.problem) for file in files.settings] == [({"mode": "offline"}, "")]


TRACKING = [
    ({"WANDB_MODE": "offline"}, {}),
    ({"WANDB_MODE": "offline", "WANDB_SERVICE": "garbage"}, {}),
    ({"WANDB_MODE": "offline", "WANDB_SERVICE": "3-1-unix-/no/such/socket"}, {}),
    ({"WANDB_MODE": "disabled", "WANDB_SERVICE": "3-1-unix-/no/such/socket"}, {}),
    ({"WANDB_MODE": "offline", "WANDB_IDENTITY_TOKEN_FILE": "/no/such/token"}, {}),
    ({"WANDB_MODE": "disabled", "WANDB_IDENTITY_TOKEN_FILE": "/no/such/token"}, {}),
    ({"WANDB_API_KEY": KEY, "WANDB_IDENTITY_TOKEN_FILE": "/no/such/token"}, {}),
    ({"WANDB_API_KEY": f'"{KEY}"'}, {}),
    ({"WANDB_MODE": "disabled"}, {"project": "org/p"}),
    ({"WANDB_MODE": "offline"}, {"trainer": {"wandb_proxy": "proxy:8080"}}),
    ({}, {}),
]


@needs("wandb", "verl", "orjson", "packaging")
@pytest.mark.parametrize(("variables", "given"), TRACKING)
def test_verl_starts_wandb_in_the_same_cases(tmp_path, variables, given):
    job, _ = lay_out(tmp_path, {})
    environment = Environment.example({"HOME": str(tmp_path / "home")} | variables)
    outcomes = ask("tracking", [{"logger": ["wandb"]} | given], tmp_path, variables)
    settings = {"trainer.project_name": given.get("project", "p")} | {
        f"trainer.{key}": value for key, value in given.get("trainer", {}).items()
    }
    codes = [code for code, check in REGISTRY.checks.items() if check.topic == "WANDB"]
    verdict = errors(
        codes,
        {"job": settings, "packages": installed("wandb")},
        environment=environment,
        wandb_login=wandb_login(job, environment),
        wandb_files=wandb_files(job, environment),
    )
    compare([(variables, given)], outcomes, [verdict])


def test_a_local_module_hides_wandb(tmp_path):
    job, environment = lay_out(tmp_path, {"wandb/__init__.py": "", "home/x": ""})
    done = subprocess.run(
        [sys.executable, "-c", "import wandb; wandb.init"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "has no attribute 'init'" in done.stderr
    assert wandb_files(job, environment).hidden_by == str(tmp_path / "wandb" / "__init__.py")


OFFLINE = {"SWANLAB_MODE": "offline"}
SWANLAB_RUNS = [
    (OFFLINE, {}),
    ({"SWANLAB_MODE": "disabled"}, {}),
    ({"SWANLAB_MODE": "local"}, {}),
    ({"SWANLAB_MODE": "Offline"}, {}),
    ({"SWANLAB_MODE": ""}, {}),
    ({"SWANLAB_MODE": '"offline"'}, {}),
    ({}, {}),
    (OFFLINE, {"project": "a b"}),
    (OFFLINE, {"project": "项目"}),
    (OFFLINE, {"project": "p" * 101}),
    (OFFLINE, {"project": "a.b-c+d_e"}),
    (OFFLINE, {"experiment": "实验 1/2"}),
    (OFFLINE, {"experiment": "e" * 513}),
    (OFFLINE | {"SWANLAB_WORKSPACE": "w" * 26}, {}),
    (OFFLINE | {"SWANLAB_WORKSPACE": "my team"}, {}),
    (OFFLINE | {"SWANLAB_RUN_ID": "r"}, {}),
    (OFFLINE | {"SWANLAB_API_HOST": ""}, {}),
]


@needs("swanlab", "verl", "orjson", "packaging")
@pytest.mark.parametrize(("variables", "given"), SWANLAB_RUNS)
def test_verl_starts_swanlab_in_the_same_cases(tmp_path, variables, given):
    job, _ = lay_out(tmp_path, {})
    environment = Environment.example({"HOME": str(tmp_path / "home")} | variables)
    outcomes = ask("tracking", [{"logger": ["swanlab"]} | given], tmp_path, variables)
    verdict = errors(
        [code for code, check in REGISTRY.checks.items() if check.topic == "SWANLAB"],
        {
            "job": {
                "trainer.logger": ["swanlab"],
                "trainer.project_name": given.get("project", "p"),
                "trainer.experiment_name": given.get("experiment", "e"),
            },
            "packages": installed("swanlab", "swanboard", "protobuf"),
        },
        environment=environment,
        swanlab_files=swanlab_files(job, environment),
    )
    compare([(variables, given)], outcomes, [verdict])


CLOUD = "machine https://api.swanlab.cn login https://swanlab.cn password k"
PRIVATE = "machine http://swan.lan:8000 login http://swan.lan:8000 password k"
SWANLAB_HOMES = {
    "nothing": ({}, {}),
    "login": ({"home/.swanlab/.netrc": CLOUD}, {}),
    "login in the folder": ({".swanlab/.netrc": CLOUD}, {}),
    "broken login": ({"home/.swanlab/.netrc": CLOUD + "\nnonsense"}, {}),
    "key in .env": ({".env": 'export SWANLAB_API_KEY="k"\n'}, {}),
    "key in swanlab.yaml": ({"swanlab.yaml": "api_key: k\n"}, {}),
    "key in the user's config": ({"home/.swanlab/config.yaml": "api_key: k\n"}, {}),
    "another root": ({"elsewhere/.netrc": CLOUD}, {"SWANLAB_ROOT": "elsewhere"}),
    "login of another server": ({"home/.swanlab/.netrc": CLOUD}, {"SWANLAB_API_HOST": "http://swan.lan:8000"}),
    "login of that server": ({"home/.swanlab/.netrc": PRIVATE}, {"SWANLAB_API_HOST": "http://swan.lan:8000"}),
    "login hidden by an empty key": ({"home/.swanlab/.netrc": CLOUD}, {"SWANLAB_API_KEY": ""}),
}


@needs("swanlab")
@pytest.mark.parametrize("name", SWANLAB_HOMES)
def test_swanlab_finds_a_key_in_the_same_files(tmp_path, name):
    files, variables = SWANLAB_HOMES[name]
    job, _ = lay_out(tmp_path, files)
    environment = Environment.example({"HOME": str(tmp_path / "home")} | variables)
    outcomes = ask("swanlab_credentials", [{}], tmp_path, variables)
    verdict = errors(
        ("SWANLAB001",),
        {"job": {"trainer.logger": ["swanlab"]}, "packages": installed("swanlab")},
        environment=environment,
        swanlab_files=swanlab_files(job, environment),
    )
    compare([name], outcomes, [verdict])


@needs("swanlab")
def test_the_login_that_swanlab_writes_is_found_and_a_dotenv_beats_the_environment(tmp_path):
    job, environment = lay_out(tmp_path, {".env": "SWANLAB_API_HOST=http://from.file:1\n"})
    path = tmp_path / "home" / ".swanlab" / ".netrc"
    ask("swanlab_login", [{"path": str(path), "host": "http://swan.lan:8000", "key": "k" * 21}], tmp_path)
    (used,) = ask("swanlab_host", [{}], tmp_path, {"SWANLAB_API_HOST": "http://from.variable:1"})
    files = swanlab_files(job, environment)
    assert used == "http://from.file:1"
    assert [(setting.name, setting.value) for setting in files.strong] == [("SWANLAB_API_HOST", used)]
    assert [(login.path, login.host, login.key.length) for login in files.logins] == [(str(path), "http://swan.lan:8000", 21)]


class FakeMlflow(BaseHTTPRequestHandler):
    """Answers as an MLflow server to the one request that set_experiment makes, and with a page to everything else."""

    def do_GET(self):
        known = self.path.lstrip("/").startswith("api/2.0/mlflow/experiments/get-by-name")
        experiment = {"experiment_id": "1", "name": "p", "lifecycle_stage": "active", "artifact_location": "x"}
        body = json.dumps({"experiment": experiment}).encode() if known else b"<html></html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Keep the output of the tests clean."""


@pytest.fixture
def server():
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), FakeMlflow)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


@needs("mlflow", "sqlalchemy")
def test_mlflow_refuses_the_same_addresses(tmp_path, server):
    addresses = [
        f"http://{server}",
        f"http://{server}/",
        f" http://{server}",
        f"HTTP://{server}",
        f"http://user:word@{server}",
        f"http://{server}/#/experiments/1",
        f"http://{server}\n",
        server,
        f"localhost:{server.partition(':')[2]}",
        f'"http://{server}"',
        f"http//{server}",
        f"http:/{server}",
        "https:///mlflow",
        "${MLFLOW_SERVER}",
        "$MLFLOW_SERVER",
        "10.0.0.7",
        "",
        "./mlruns",
        "mlruns",
        "file:mlruns",
        (tmp_path / "store").as_uri(),
        "postgres://user:word@db/mlflow",
        "mysql+pymysql://user:word@127.0.0.1:9/mlflow",
        "s3://bucket/mlflow",
        "dbfs:/mlflow",
        "sqlite3:///x.db",
        "sqllite:///x.db",
        "Sqlite:///x.db",
        "htp://mlflow.example.com",
        "sqlite://tmp/x.db",
        "sqlite:/x.db",
        "sqlite:x.db",
        "sqlite:///relative.db",
        "sqlite+pysqlite:///relative2.db",
        f"sqlite:///{tmp_path}/absolute.db",
        f"sqlite:////{tmp_path}/absolute2.db",
    ]
    packages = installed(
        "mlflow", "mlflow-skinny", "sqlalchemy", "alembic", "psycopg", "psycopg2", "psycopg2-binary", "pymysql"
    )
    if packages["pymysql"]:
        addresses.remove("mysql+pymysql://user:word@127.0.0.1:9/mlflow")
    quick = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
    outcomes = ask("mlflow_address", [{"address": address} for address in addresses], tmp_path, quick)
    codes = ("MLFLOW001", "MLFLOW004", "MLFLOW005", "MLFLOW006", "MLFLOW012", "MLFLOW013", "MLFLOW014")
    job = {"trainer.logger": ["mlflow"]}
    verdicts = [
        errors(codes, {"job": job, "environment": {"MLFLOW_TRACKING_URI": address}, "packages": packages})
        for address in addresses
    ]
    compare(addresses, outcomes, verdicts)


@needs("mlflow")
def test_mlflow_refuses_the_same_parameter_names_and_retries(tmp_path):
    allowed = ["data.a", "data.a.b c:d-e", "data.项目", "data.x/y", "d." + "k" * 248]
    refused = [
        "data.x[0]",
        "data.w(acc)",
        "data.acc@1",
        "data.a=b",
        "data.a,b",
        "data.a%b",
        "data./root",
        "data.b/",
        "d." + "k" * 249,
    ]
    keys = allowed + refused
    outcomes = ask("mlflow_parameter", [{"name": key.replace(".", "/")} for key in keys], tmp_path)
    verdicts = [errors(("MLFLOW017",), {"job": {"trainer.logger": ["mlflow"], key: 1}}) for key in keys]
    compare(keys, outcomes, verdicts)
    counts = ["0", "3", "10", "11", "-1", "many", " 5 "]
    outcomes = ask("mlflow_retries", [{"value": count} for count in counts], tmp_path)
    server = {"MLFLOW_TRACKING_URI": "http://mlflow.example.com:5000"}
    verdicts = [
        errors(
            ("MLFLOW020",),
            {"job": {"trainer.logger": ["mlflow"]}, "environment": server | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": count}},
        )
        for count in counts
    ]
    compare(counts, outcomes, verdicts)
