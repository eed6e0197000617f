"""MLflow: the address of the store, credentials, versions that do not fit, names that it refuses."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from verl_doctor.api import Environment, Finding, Job, Packages, Setting, Severity, Undetermined, Variable, check, finding
from verl_doctor_checks.addresses import has_userinfo, host, is_loopback, scheme, shown
from verl_doctor_checks.facts.mlflow import DEFAULT_OF_VERL, MlflowFiles
from verl_doctor_checks.facts.reached import MlflowServer, Reach
from verl_doctor_checks.roots import roots, was_asked
from verl_doctor_checks.trackers import TRACE, logs_to, number, trace_backend, uses_agent_loop, uses_v1_trainer
from verl_doctor_checks.variables import given, left_behind, secret

URI = "MLFLOW_TRACKING_URI"
NEWEST = (999,)
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
MANAGED = ("databricks", "databricks-uc", "uc", "azureml", "arn", "file-plugin")
KNOWN_SCHEMES = ("file", "http", "https", *DATABASES)
FOREIGN_SCHEMES = ("postgres", "s3", "gs", "hdfs", "dbfs", "duckdb", "wandb", "redis", "mongodb")
FILE_STORE_REFUSED = (3, 13)
FILE_STORE_DEPRECATED = (3, 6)

MLFLOW = {"trainer.logger": ["console", "mlflow"]}
SERVER = {URI: "http://mlflow.example.com:5000"}
TRACED = {"trainer.logger": ["console"], f"{TRACE}.backend": "mlflow"}


def connects(job: Job) -> bool:
    """Whether MLflow is used at all, as a logger or for rollout traces. Raises Undetermined."""
    return logs_to(job, "mlflow") or (trace_backend(job) == "mlflow" and job.verl.release >= (0, 5))


def release_of(packages: Packages) -> tuple[int, ...]:
    """The release of mlflow or mlflow-skinny; the newest when neither is installed. Raises Undetermined."""
    return packages.release("mlflow") or packages.release("mlflow-skinny") or NEWEST


def _version(packages: Packages) -> str:
    return packages.version("mlflow") or packages.version("mlflow-skinny") or "3.13 or later"


def tracking_address(job: Job, environment: Environment, packages: Packages, files: MlflowFiles) -> str:
    """The tracking address that verl ends up with. Raises Undetermined.

    Since 0.5.0 verl has a default of its own; before, MLflow's holds (mlflow 3.17.2, tracking/_tracking_service/utils.py).
    """
    address = environment.get(URI)
    if address is not None:
        return str(address)
    if job.verl.release >= (0, 5):
        return DEFAULT_OF_VERL
    if files.unseen:
        raise Undetermined(f"whether ./mlruns exists is not known: {files.unseen}")
    return "./mlruns" if release_of(packages) < (3, 7) or files.file_store else "sqlite:///mlflow.db"


def kind_of(address: str) -> str:
    """`file`, `http`, one of `DATABASES`, `managed`, or empty for an address that MLflow refuses or a plug-in may know."""
    name = scheme(address.strip())
    lowered = name.lower()
    if address.strip() in MANAGED or lowered in MANAGED:
        return "managed"
    if not name or name == "file":
        return "file"
    if lowered in {"http", "https"}:
        return "http"
    return lowered.partition("+")[0] if lowered.partition("+")[0] in DATABASES else ""


def _at(environment: Environment, job: Job) -> Variable | Setting | None:
    return environment.given(URI) or job.settings.get("trainer.logger")


def _nodes(job: Job) -> int:
    return number(job, "trainer.nnodes", 1)


@check(
    "MLFLOW001",
    "mlflow-file-store-refused",
    tags={"logger", "mlflow", "store", "offline"},
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW, "environment": SERVER},
        {"job": MLFLOW, "environment": {URI: "./mlruns"}, "packages": {"mlflow": "3.12.0"}},
        {"job": MLFLOW, "environment": {URI: "./mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"}},
        {"job": MLFLOW, "environment": {URI: "databricks"}},
        {"job": MLFLOW, "environment": {URI: "uc://x"}},
        {"job": {"trainer.logger": "console"}, "environment": {URI: "./mlruns"}},
        {"job": MLFLOW | {"verl": "0.4.1"}},
        {"job": MLFLOW, "environment": {URI: "127.0.0.1:5000"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {URI: "./mlruns"}},
        {"job": MLFLOW, "environment": {URI: "/shared/mlruns"}},
        {"job": MLFLOW, "environment": {URI: "file:///shared/mlruns"}},
        {"job": MLFLOW, "environment": {URI: "file:mlruns", "MLFLOW_ALLOW_FILE_STORE": "false"}},
        {"job": MLFLOW, "environment": {URI: "./mlruns"}, "packages": {"mlflow": "3.13.0"}},
        {"job": MLFLOW | {"verl": "0.4.1"}, "mlflow_files": {"file_store": True}},
        {"job": TRACED, "environment": {URI: "./mlruns"}},
    ],
)
def mlflow_file_store_refused(
    job: Job, environment: Environment, packages: Packages, mlflow_files: MlflowFiles
) -> Iterator[Finding]:
    """The tracking address is a folder, and this MLflow refuses to write to folders.

    Since 3.13 MLflow raises on its old file store ("the filesystem tracking backend is in maintenance mode") unless
    MLFLOW_ALLOW_FILE_STORE=true. verl 0.7.1 and later print a warning after three attempts and train on without MLflow; older
    ones stop.

    Fix: use a database or a server, for instance `sqlite:////data/mlruns.db`; `mlflow migrate-filestore` moves old runs. To
    stay with the folder set MLFLOW_ALLOW_FILE_STORE=true.

    See: mlflow 3.17.2 store/tracking/file_store.py
         https://github.com/mlflow/mlflow/issues/23634
    """
    if not connects(job):
        return
    address = tracking_address(job, environment, packages, mlflow_files)
    if kind_of(address) != "file" or not address.strip() or _meant_as_address(address):
        return
    if release_of(packages) >= FILE_STORE_REFUSED and not _is_allowed(given(environment, "MLFLOW_ALLOW_FILE_STORE")):
        yield finding(
            'mlflow {version} refuses the folder "{address}" as a tracking address: nothing will be logged to MLflow',
            at=_at(environment, job),
            fix="Use sqlite:////absolute/path.db or a server, or set MLFLOW_ALLOW_FILE_STORE=true",
            commands=["export MLFLOW_ALLOW_FILE_STORE=true"],
            version=_version(packages),
            address=address,
        )


def _is_allowed(value: str) -> bool:
    """As MLflow reads its switches: only `true` and `1` (mlflow 3.17.2, environment_variables.py)."""
    return value.lower() in {"true", "1"}


def _meant_as_address(address: str) -> bool:
    """Whether a text without a scheme was meant as an address all the same; MLFLOW005 explains these."""
    return (
        address.strip()[:1] in "'\""
        or "$" in address
        or re.match(r"https?/", address.strip()) is not None
        or re.fullmatch(r"[\w.\-]+:\d+(/.*)?", address.strip()) is not None
        or re.fullmatch(r"\d+(\.\d+){3}", address.strip()) is not None
    )


@check(
    "MLFLOW003",
    "mlflow-file-store-deprecated",
    tags={"logger", "mlflow", "store"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "environment": {URI: "./mlruns"}},
        {"job": MLFLOW, "environment": {URI: "./mlruns"}, "packages": {"mlflow": "3.5.1"}},
        {"job": MLFLOW, "packages": {"mlflow": "3.8.0"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {URI: "./mlruns"}, "packages": {"mlflow": "3.6.0"}},
        {"job": MLFLOW, "environment": {URI: "file:///data/mlruns"}, "packages": {"mlflow": "3.12.1"}},
    ],
)
def mlflow_file_store_deprecated(
    job: Job, environment: Environment, packages: Packages, mlflow_files: MlflowFiles
) -> Iterator[Finding]:
    """The tracking address is a folder, which the next MLflow refuses.

    MLflow warns about its file store since 3.6 and raises from 3.13 on. An upgrade of mlflow silently ends the logging of such
    a job, because verl goes on without MLflow.

    Fix: move to a database with `mlflow migrate-filestore`, or use a server.

    See: mlflow 3.17.2 store/tracking/file_store.py
    """
    if not connects(job):
        return
    address = tracking_address(job, environment, packages, mlflow_files)
    if kind_of(address) != "file" or not address.strip() or _meant_as_address(address):
        return
    if FILE_STORE_DEPRECATED <= release_of(packages) < FILE_STORE_REFUSED:
        yield finding(
            'the tracking address "{address}" is a folder; mlflow {version} still writes to it, and 3.13 refuses it',
            at=_at(environment, job),
            fix="Use sqlite:////absolute/path.db or a server",
            address=address,
            version=_version(packages),
        )


@check(
    "MLFLOW004",
    "mlflow-uri-empty",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW, "environment": SERVER},
        {"job": MLFLOW | {"verl": "0.4.1"}, "environment": {URI: ""}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {URI: ""}},
        {"job": MLFLOW, "environment": {URI: "  "}},
        {"job": MLFLOW, "environment": {URI: ""}, "packages": {"mlflow": "3.4.0"}},
    ],
)
def mlflow_uri_empty(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """MLFLOW_TRACKING_URI is set and empty.

    MLflow itself takes an empty variable for none. verl reads the variable and passes the empty text on, which means the file
    store: refused from mlflow 3.13 on, and ./mlruns in the working directory before. verl's own default is not used.

    Fix: unset the variable, or give the address.

    See: verl 0.9.1 verl/utils/tracking.py
    """
    variable = environment.given(URI)
    if not connects(job) or variable is None or environment.text(URI).strip() or job.verl.release < (0, 5):
        return
    refused = release_of(packages) >= FILE_STORE_REFUSED
    yield finding(
        "MLFLOW_TRACKING_URI is set and empty: verl takes it for a folder, which this mlflow refuses"
        if refused
        else "MLFLOW_TRACKING_URI is set and empty: runs go to ./mlruns of the working directory",
        at=variable,
        fix="Unset it, or give the address of the server",
        commands=["unset MLFLOW_TRACKING_URI"],
        severity=None if refused else Severity.WARNING,
    )


@check(
    "MLFLOW005",
    "mlflow-uri-invalid",
    tags={"logger", "mlflow", "store", "proxy"},
    good=[
        {"job": MLFLOW},
        *[
            {"job": MLFLOW, "environment": {URI: address}}
            for address in (
                "http://mlflow.example.com:5000",
                "http://127.0.0.1:5000/",
                " http://mlflow.example.com",
                "https://user:word@mlflow.example.com/prefix",
                "databricks",
                "databricks://profile",
                "uc://x",
                "azureml://eastus.api.azureml.ms/mlflow",
                "sqlite:////data/mlruns.db",
                "sqlite+pysqlite:////data/mlruns.db",
                "postgresql://user:word@db/mlflow",
                "mysql+pymysql://user:word@db/mlflow",
                "./mlruns",
                "/data/mlruns",
                "my-plugin://x",
                "arn:aws:sagemaker:x",
            )
        ],
        {"job": {"trainer.logger": "console"}, "environment": {URI: "localhost:5000"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {URI: address}}
        for address in (
            '"http://mlflow.example.com:5000"',
            "${MLFLOW_SERVER}",
            "http://${MLFLOW_HOST}:5000",
            "127.0.0.1:5000",
            "localhost:5000",
            "mlflow-server:5000/path",
            "10.0.0.7",
            "http//mlflow.example.com",
            "http:/localhost:5000",
            "https:///mlflow",
            "http://mlflow.example.com:5000\n",
            "http://mlflow.example.com:5000/#/experiments/1",
            "postgres://user:word@db/mlflow",
            "s3://bucket/mlflow",
            "sqllite:///x.db",
            "sqlite3:///x.db",
            "htp://mlflow.example.com",
            "Sqlite:///x.db",
        )
    ],
)
def mlflow_uri_invalid(job: Job, environment: Environment) -> Iterator[Finding]:
    """MLFLOW_TRACKING_URI is not an address that MLflow understands.

    A text without a known scheme becomes a folder name or an unsupported store: `host:5000`, quotes that were kept, and a
    `${VAR}` that nobody replaced. An address copied from the browser ends at its `#`. MLflow's messages then speak of the
    filesystem backend or of the model registry. verl 0.7.1 and later train on without MLflow.

    Fix: give the root of the server, `http://host:port`, or `sqlite:////absolute/path.db`, or `postgresql://...`.

    See: mlflow 3.17.2 tracking/_tracking_service/utils.py and utils/uri.py
    """
    variable = environment.given(URI)
    if not connects(job) or variable is None:
        return
    address = environment.text(URI)
    template, suggestion = _what_is_wrong(address)
    if template:
        yield finding(
            template,
            at=variable,
            fix="Write an address such as {suggestion}",
            address=shown(address),
            suggestion=suggestion,
        )


def _what_is_wrong(address: str) -> tuple[str, str]:
    """A template and an example of what may be meant; both empty when nothing is certainly wrong."""
    text = address.strip()
    server = "http://mlflow.example.com:5000"
    name = scheme(text)
    lowered = name.lower()
    if text[:1] in {'"', "'"}:
        return "MLFLOW_TRACKING_URI is {address}: the quotes are part of the value, so MLflow takes it for a folder", server
    if re.search(r"\$\{?\w", text):
        return 'MLFLOW_TRACKING_URI is "{address}", with a variable that nobody has replaced', server
    if re.match(r"https?/|https?:/(?!/)", text) or re.match(r"https?:///", text):
        return 'MLFLOW_TRACKING_URI is "{address}"; after http or https must come :// and a host', server
    if re.fullmatch(r"(?!\d+$)[\w.\-]+:\d+(/.*)?", text) or re.fullmatch(r"\d+(\.\d+){3}", text):
        return 'MLFLOW_TRACKING_URI is "{address}" without http://, which MLflow does not take for a server', f"http://{text}"
    if lowered in {"http", "https"} and "#" in text:
        root = server if "@" in text else text.partition("#")[0]
        return 'MLFLOW_TRACKING_URI is "{address}", as the browser shows it: MLflow drops what follows the #', root
    if lowered in {"http", "https"} and address != address.rstrip("\r\n"):
        return "MLFLOW_TRACKING_URI ends with a line break, which MLflow refuses", text
    base = lowered.partition("+")[0]
    if lowered in {"postgres", "sqlite3"}:
        right = {"postgres": "postgresql", "sqlite3": "sqlite"}[lowered]
        return 'MLFLOW_TRACKING_URI is "{address}"; MLflow knows that database under another name', f"{right}://..."
    if base in DATABASES and not name.partition("+")[0].islower():
        return 'MLFLOW_TRACKING_URI is "{address}"; the name of a database must be in small letters', f"{base}://..."
    if lowered in FOREIGN_SCHEMES:
        return 'MLFLOW_TRACKING_URI is "{address}", which is not a tracking store of MLflow', server
    close = difflib.get_close_matches(lowered, KNOWN_SCHEMES, n=1, cutoff=0.8)
    if close and base not in KNOWN_SCHEMES and lowered not in MANAGED:
        return 'MLFLOW_TRACKING_URI is "{address}", whose scheme MLflow does not know', f"{close[0]}://..."
    return "", ""


@check(
    "MLFLOW006",
    "mlflow-sqlite-slashes",
    tags={"logger", "mlflow", "store", "offline"},
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW, "environment": {URI: "sqlite:////data/x.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:///x.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite://"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {URI: "sqlite://tmp/x.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:/x.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:x.db"}},
    ],
)
def mlflow_sqlite_slashes(job: Job, environment: Environment) -> Iterator[Finding]:
    """The sqlite address has too few slashes.

    SQLAlchemy wants three slashes and then the path: `sqlite:///` and a relative path, or `sqlite:////` and an absolute one.
    With one or two it raises, and verl goes on without MLflow.

    Fix: write `sqlite:////absolute/path.db`.

    See: mlflow 3.17.2 with SQLAlchemy 2.1 (measured)
    """
    address = given(environment, URI) if connects(job) else ""
    match = re.fullmatch(r"\s*(sqlite(?:\+\w+)?):(/{0,2})([^/].*)", address)
    if match:
        yield finding(
            'MLFLOW_TRACKING_URI is "{address}"; sqlite needs three slashes before a path, four for an absolute one',
            at=environment.given(URI),
            fix="Write {suggestion}",
            address=address,
            suggestion=f"{match[1]}:////{match[3].strip()}",
        )


ROOT_FOLDERS = ("tmp", "home", "root", "data", "mnt", "var", "opt", "workspace", "shared", "nfs", "scratch", "lustre", "fsx")


@check(
    "MLFLOW007",
    "mlflow-sqlite-relative",
    tags={"logger", "mlflow", "store"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW, "environment": {URI: "sqlite:////data/x.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:///mlflow.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:///:memory:", "unseen": "elsewhere"}},
        {"job": MLFLOW, "environment": SERVER | {"unseen": "elsewhere"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {URI: "sqlite:///tmp/x.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:///data/mlruns.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:///mlflow.db", "unseen": "the job is submitted to a Ray cluster"}},
        {"job": MLFLOW | {"trainer.nnodes": 2}, "environment": {URI: "sqlite:///mlflow.db"}},
    ],
)
def mlflow_sqlite_relative(job: Job, environment: Environment) -> Iterator[Finding]:
    """The sqlite address names a relative path.

    With three slashes the path starts at the working directory of the process that logs. `sqlite:///tmp/x.db` is not in /tmp
    but in ./tmp, without a message. Under a running Ray cluster the working directory is a folder of Ray's session or the place
    where `ray start` was called, so the database is hard to find or is deleted.

    Fix: write four slashes and an absolute path, `sqlite:////data/mlruns.db`.

    See: mlflow 3.17.2 with SQLAlchemy 2.1 (measured)
    """
    address = given(environment, URI) if connects(job) else ""
    match = re.fullmatch(r"\s*sqlite(?:\+\w+)?:///([^/:].*)", address)
    if not match:
        return
    absolute = match[1].partition("/")[0] in ROOT_FOLDERS and "/" in match[1]
    if not absolute and not environment.unseen and _nodes(job) < 2:
        return
    yield finding(
        'MLFLOW_TRACKING_URI is "{address}", which means ./{path} of the working directory, not /{path}'
        if absolute
        else 'MLFLOW_TRACKING_URI is "{address}", a path in the working directory of the process that logs, which Ray chooses',
        at=environment.given(URI),
        fix="Write four slashes and an absolute path, such as sqlite:////{path}",
        address=address,
        path=match[1].strip(),
    )


@check(
    "MLFLOW008",
    "mlflow-store-in-tmp",
    tags={"logger", "mlflow", "store"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "environment": SERVER},
        {"job": MLFLOW, "environment": {URI: "sqlite:////data/mlruns.db"}},
        {"job": MLFLOW | {"verl": "0.4.1"}},
        {"job": {"trainer.logger": "console"}},
    ],
    bad=[
        {"job": MLFLOW},
        {"job": MLFLOW, "environment": {URI: "sqlite:////tmp/mine.db"}},
        {"job": MLFLOW, "environment": {URI: "sqlite:////dev/shm/x.db"}},
    ],
)
def mlflow_store_in_tmp(job: Job, environment: Environment) -> Iterator[Finding]:
    """MLflow's database lies in a temporary folder.

    Without MLFLOW_TRACKING_URI verl writes to /tmp/mlruns.db of the node on which the trainer happens to run. The file is lost
    with the container or at the next boot, is on another node next time, and is shared by all users of the machine, the first
    of whom owns it. `mlflow ui` without the same address shows an empty store.

    Fix: set MLFLOW_TRACKING_URI to a server, or to a database on a disk that stays, `sqlite:////data/mlruns.db`.

    See: verl 0.9.1 verl/utils/tracking.py
         https://github.com/mlflow/mlflow/issues/7206
    """
    if not connects(job):
        return
    address = environment.get(URI)
    if address is None and job.verl.release >= (0, 5):
        template = "MLFLOW_TRACKING_URI is not set: verl writes to /tmp/mlruns.db of the node that logs, which does not last"
    elif re.match(r"\s*sqlite(\+\w+)?:////(tmp|var/tmp|dev/shm)/", str(address or "")):
        template = 'MLFLOW_TRACKING_URI is "{address}", in a temporary folder of one node, which does not last'
    else:
        return
    yield finding(
        template,
        at=_at(environment, job),
        fix="Set MLFLOW_TRACKING_URI to a server, or to sqlite:////path on a disk that stays",
        address=str(address or ""),
    )


@check(
    "MLFLOW009",
    "mlflow-server-on-loopback",
    tags={"logger", "mlflow", "store"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "environment": {URI: "http://localhost:5000"}},
        {"job": MLFLOW | {"trainer.nnodes": 4}, "environment": SERVER},
        {"job": MLFLOW, "environment": SERVER | {"unseen": "elsewhere"}},
    ],
    bad=[
        {"job": MLFLOW | {"trainer.nnodes": 2}, "environment": {URI: "http://localhost:5000"}},
        {"job": MLFLOW, "environment": {URI: "http://127.0.0.1:5000", "unseen": "the job is submitted to a Ray cluster"}},
    ],
)
def mlflow_server_on_loopback(job: Job, environment: Environment) -> Iterator[Finding]:
    """The MLflow server is given as localhost, and the process that logs may run on another machine.

    `localhost` means the node on which the trainer runs. With several nodes, or a job that is submitted to a cluster, that need
    not be the node of the server. verl then waits through all retries, 12 minutes by default, and trains without MLflow.

    Fix: give the name or address of the server's machine; start the server with `--host 0.0.0.0` and, for a host name,
    `--allowed-hosts`.

    See: https://github.com/mlflow/mlflow/issues/12154
         mlflow 3.17.2 (refused connection with default retries: 247 s for each of verl's three attempts)
    """
    address = given(environment, URI) if connects(job) else ""
    if kind_of(address) != "http" or not is_loopback(address):
        return
    if _nodes(job) > 1 or environment.unseen:
        yield finding(
            'MLFLOW_TRACKING_URI is "{address}", and the process that logs may run on another node',
            at=environment.given(URI),
            fix="Give the name of the machine on which the server runs",
            address=shown(address),
        )


@check(
    "MLFLOW010",
    "mlflow-credentials-in-uri",
    tags={"logger", "mlflow", "secrets"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "environment": SERVER},
        {"job": MLFLOW, "environment": {URI: "postgresql://user:word@db/mlflow"}},
        {"job": MLFLOW, "environment": {URI: "https://mlflow.example.com/a@b"}},
    ],
    bad=[{"job": MLFLOW, "environment": {URI: "https://user:pass@mlflow.example.com"}}],
)
def mlflow_credentials_in_uri(job: Job, environment: Environment) -> Iterator[Finding]:
    """The tracking address holds a user name or password.

    MLflow prints the whole address, password included, in the line "View run ... at" of the console log, and `mlflow doctor`
    prints it too.

    Fix: take them out of the address and set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.

    See: mlflow 3.17.2 tracking/fluent.py (measured)
    """
    address = given(environment, URI) if connects(job) else ""
    if kind_of(address) == "http" and has_userinfo(address):
        yield finding(
            "MLFLOW_TRACKING_URI holds credentials ({address}); MLflow prints them into the console log",
            at=environment.given(URI),
            fix="Use MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead",
            address=shown(address),
        )


@check(
    "MLFLOW011",
    "mlflow-credentials-incomplete",
    tags={"logger", "mlflow", "secrets"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "environment": SERVER},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "word"}},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_TOKEN": "tok"}},
        {
            "job": MLFLOW,
            "environment": SERVER | {"MLFLOW_TRACKING_USERNAME": "u"},
            "mlflow_files": {"credentials": "/home/user/.mlflow/credentials"},
        },
        {"job": MLFLOW, "environment": {"MLFLOW_TRACKING_USERNAME": "u"}},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_TRACKING_USERNAME": "u"}, "mlflow_files": {"unseen": "elsewhere"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_TRACKING_USERNAME": "u"}},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_TRACKING_PASSWORD": "word"}},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": ""}},
    ],
)
def mlflow_credentials_incomplete(job: Job, environment: Environment, mlflow_files: MlflowFiles) -> Iterator[Finding]:
    """Only one of MLflow's user name and password is set.

    MLflow sends them only together. With one alone it sends nothing, the server answers 401, and verl trains without MLflow.

    Fix: set both, or MLFLOW_TRACKING_TOKEN.

    See: mlflow 3.17.2 utils/credentials.py
    """
    address = given(environment, URI) if connects(job) else ""
    if kind_of(address) != "http" or mlflow_files.unseen or mlflow_files.credentials or has_userinfo(address):
        return
    if host(address) in mlflow_files.netrc_machines or "default" in mlflow_files.netrc_machines:
        return
    name, word = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
    has_name, has_word = bool(environment.get(name)), bool(environment.get(word))
    if has_name == has_word or environment.get("MLFLOW_TRACKING_TOKEN"):
        return
    present, missing = (name, word) if has_name else (word, name)
    yield finding(
        "{present} is set and {missing} is not: MLflow sends neither",
        at=environment.given(present),
        fix="Set both, or MLFLOW_TRACKING_TOKEN",
        present=present,
        missing=missing,
    )


DRIVERS = {
    "postgresql+psycopg2": ("psycopg2", "psycopg2-binary"),
    "postgresql+psycopg": ("psycopg",),
    "postgresql+pg8000": ("pg8000",),
    "mysql": ("mysqlclient",),
    "mysql+mysqldb": ("mysqlclient",),
    "mysql+pymysql": ("pymysql",),
    "mysql+mysqlconnector": ("mysql-connector-python", "mysql-connector"),
    "mssql": ("pyodbc",),
    "mssql+pyodbc": ("pyodbc",),
    "mssql+pymssql": ("pymssql",),
}
"""Distributions, any of which holds the driver of a dialect (SQLAlchemy 2.1, dialects)."""


@check(
    "MLFLOW012",
    "mlflow-driver-missing",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW, "environment": {URI: "postgresql://u:w@db/m"}, "packages": {"psycopg": "3.2"}},
        {"job": MLFLOW, "environment": {URI: "postgresql+psycopg2://u:w@db/m"}, "packages": {"psycopg2-binary": "2.9"}},
        {
            "job": MLFLOW,
            "environment": {URI: "postgresql://u:w@db/m"},
            "packages": {"psycopg2": "2.9", "sqlalchemy": "2.0.40"},
        },
        {"job": MLFLOW, "environment": {URI: "mysql+pymysql://u:w@db/m"}, "packages": {"pymysql": "1.1"}},
        {"job": MLFLOW, "environment": {URI: "mysql+other://u:w@db/m"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {URI: "postgresql://u:w@db/m"}},
        {"job": MLFLOW, "environment": {URI: "postgresql://u:w@db/m"}, "packages": {"psycopg2-binary": "2.9"}},
        {"job": MLFLOW, "environment": {URI: "mysql://u:w@db/m"}, "packages": {"pymysql": "1.1"}},
        {"job": MLFLOW, "environment": {URI: "mssql+pyodbc://u:w@db/m"}},
        {"job": TRACED, "environment": {URI: "postgresql+psycopg2://u:w@db/m"}, "packages": {"psycopg": "3.2"}},
    ],
)
def mlflow_driver_missing(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """The driver for MLflow's database is not installed.

    MLflow brings drivers for sqlite only. Since SQLAlchemy 2.1 a plain `postgresql://` means psycopg 3, before it meant
    psycopg2, so an upgrade of SQLAlchemy breaks an address that worked. The import fails and verl goes on without MLflow.

    Fix: install the driver, or name the one you have in the address: `postgresql+psycopg2://`, `mysql+pymysql://`.

    See: SQLAlchemy 2.1 dialects/postgresql (measured with mlflow 3.17.2)
         https://github.com/mlflow/mlflow/issues/20926
    """
    address = given(environment, URI) if connects(job) else ""
    if kind_of(address) not in {"postgresql", "mysql", "mssql"}:
        return
    dialect = scheme(address.strip())
    if dialect == "postgresql":
        release = packages.release("sqlalchemy")
        dialect = "postgresql+psycopg2" if release is not None and release < (2, 1) else "postgresql+psycopg"
    wanted = DRIVERS.get(dialect, ())
    if wanted and all(packages.version(name) is None for name in wanted):
        yield finding(
            "the tracking address needs the driver {driver}, which is not installed",
            at=environment.given(URI),
            fix="Install it, or name an installed driver in the address",
            commands=[f"pip install {wanted[-1]}"],
            driver=" or ".join(wanted),
        )


@check(
    "MLFLOW013",
    "mlflow-sqlalchemy-too-new",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW, "packages": {"mlflow": "2.22.5", "sqlalchemy": "2.0.43"}},
        {"job": MLFLOW, "packages": {"mlflow": "2.22.5"}, "environment": SERVER},
        {"job": MLFLOW, "packages": {"mlflow": "3.9.0"}},
    ],
    bad=[
        {"job": MLFLOW, "packages": {"mlflow": "2.22.5", "sqlalchemy": "2.1.0"}},
        {"job": MLFLOW, "packages": {"mlflow": "3.8.1"}, "environment": {URI: "sqlite:////data/x.db"}},
    ],
)
def mlflow_sqlalchemy_too_new(
    job: Job, environment: Environment, packages: Packages, mlflow_files: MlflowFiles
) -> Iterator[Finding]:
    """This MLflow does not work with SQLAlchemy 2.1.

    MLflow before 3.9 imports `FallbackAsyncAdaptedQueuePool`, which SQLAlchemy 2.1 has removed, although its metadata allows
    that version. Every database address fails, sqlite included.

    Fix: install SQLAlchemy below 2.1, or upgrade mlflow.

    See: https://github.com/mlflow/mlflow/pull/20203
    """
    if not connects(job) or release_of(packages) >= (3, 9):
        return
    sqlalchemy = packages.release("sqlalchemy")
    if (
        sqlalchemy is None
        or sqlalchemy < (2, 1)
        or kind_of(tracking_address(job, environment, packages, mlflow_files)) not in DATABASES
    ):
        return
    yield finding(
        "mlflow {version} cannot open a database with SQLAlchemy {sqlalchemy}",
        target="sqlalchemy",
        fix="Install SQLAlchemy below 2.1, or mlflow 3.9 or later",
        commands=['pip install "sqlalchemy<2.1"'],
        version=_version(packages),
        sqlalchemy=packages.version("sqlalchemy"),
    )


SKINNY = {"mlflow": None, "mlflow-skinny": "3.17.2"}


@check(
    "MLFLOW014",
    "mlflow-skinny-without-database",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW, "packages": SKINNY | {"alembic": "1.20.1"}},
        {"job": MLFLOW, "packages": SKINNY | {"sqlalchemy": None}, "environment": SERVER},
        {"job": MLFLOW, "packages": {"mlflow": None}},
    ],
    bad=[
        {"job": MLFLOW, "packages": SKINNY | {"sqlalchemy": None}},
        {"job": MLFLOW, "packages": SKINNY},
        {"job": TRACED, "packages": SKINNY | {"sqlalchemy": None}},
    ],
)
def mlflow_skinny_without_database(
    job: Job, environment: Environment, packages: Packages, mlflow_files: MlflowFiles
) -> Iterator[Finding]:
    """Only mlflow-skinny is installed, and the store is a database.

    mlflow-skinny leaves out SQLAlchemy and Alembic. Without them a database address, and so verl's own default, raises an error
    that speaks of an unsupported address for the model registry.

    Fix: install mlflow itself, or use an http:// server.

    See: mlflow-skinny 3.17.2 (measured)
    """
    if not connects(job) or packages.version("mlflow") or not packages.version("mlflow-skinny"):
        return
    if kind_of(tracking_address(job, environment, packages, mlflow_files)) not in DATABASES:
        return
    missing = [name for name in ("sqlalchemy", "alembic") if packages.version(name) is None]
    if missing:
        yield finding(
            "mlflow-skinny is installed without {missing}, which a database address needs",
            target="mlflow-skinny",
            fix="Install mlflow itself, or use an http:// server",
            commands=["pip install mlflow"],
            missing=" and ".join(missing),
        )


@check(
    "MLFLOW015",
    "mlflow-run-id-before-verl-0-7",
    tags={"logger", "mlflow", "resume"},
    good=[
        {"job": MLFLOW, "environment": {"MLFLOW_RUN_ID": "a" * 32}},
        {"job": MLFLOW | {"verl": "0.7.0"}, "environment": {"MLFLOW_RUN_ID": "a" * 32}},
        {"job": MLFLOW | {"verl": "0.6.1"}},
        {"job": MLFLOW | {"verl": "0.6.1"}, "environment": {"MLFLOW_RUN_ID": ""}},
    ],
    bad=[{"job": MLFLOW | {"verl": "0.6.1"}, "environment": {"MLFLOW_RUN_ID": "b" * 32}}],
)
def mlflow_run_id_before_verl_0_7(job: Job, environment: Environment) -> Iterator[Finding]:
    """MLFLOW_RUN_ID is set, and this verl does not attach to that run.

    verl before 0.7.0 sets the experiment to `trainer.project_name` and starts a run there, while MLflow takes the run of
    MLFLOW_RUN_ID, which belongs to another experiment: it raises and the training stops. Azure ML and Databricks set the
    variable by themselves. Since 0.7.0 verl logs into that run.

    Fix: upgrade verl, or unset MLFLOW_RUN_ID.

    See: https://github.com/verl-project/verl/issues/4740
    """
    if logs_to(job, "mlflow") and job.verl.release < (0, 7) and given(environment, "MLFLOW_RUN_ID"):
        yield finding(
            "MLFLOW_RUN_ID is set, and verl {verl} starts a run in another experiment, which MLflow refuses",
            at=environment.given("MLFLOW_RUN_ID"),
            fix="Upgrade verl to 0.7.0 or later, or unset MLFLOW_RUN_ID",
            commands=["unset MLFLOW_RUN_ID"],
            verl=job.verl.version,
        )


@check(
    "MLFLOW016",
    "mlflow-metric-names",
    tags={"logger", "mlflow", "names"},
    good=[
        {"job": MLFLOW},
        {"job": MLFLOW | {"verl": "0.5.0"}},
        {"job": MLFLOW | {"verl": "0.3.0.post1"}},
        {"job": MLFLOW | {"verl": "0.6.1", "kind": "sft", "entry": "verl.trainer.fsdp_sft_trainer"}},
        {"job": {"verl": "0.5.0", "kind": "sft", "entry": "verl.trainer.fsdp_sft_trainer", "trainer.logger": "console"}},
    ],
    bad=[
        {"job": MLFLOW | {"verl": "0.5.0", "kind": "sft", "entry": "verl.trainer.fsdp_sft_trainer"}},
        {"job": MLFLOW | {"verl": "0.3.0.post1", "kind": "sft", "entry": "verl.trainer.fsdp_sft_trainer"}},
        {"job": MLFLOW | {"verl": "0.3.1.dev"}},
    ],
)
def mlflow_metric_names(job: Job) -> Iterator[Finding]:
    """This verl logs metrics under names that MLflow refuses.

    MLflow allows letters, digits, underscores, dashes, dots, blanks, colons and slashes. The SFT trainer of verl logs
    `train/lr(1e-3)`, which verl before 0.6.1 passes on as it is: the first step ends the training. Validation metrics such as
    `mean@1` were renamed for MLflow from 0.4.0 on.

    Fix: upgrade verl, or take mlflow out of `trainer.logger`.

    See: verl 0.6.0 verl/trainer/fsdp_sft_trainer.py
         https://github.com/verl-project/verl/issues/1242
         https://github.com/verl-project/verl/issues/984
    """
    if not logs_to(job, "mlflow") or job.verl.release >= (0, 6, 1):
        return
    if job.entry.endswith("fsdp_sft_trainer"):
        name = "train/lr(1e-3)"
    elif job.kind == "ppo" and (0, 3, 1) <= job.verl.release < (0, 4):
        name = "mean@1"
    else:
        return
    yield finding(
        'verl {verl} logs "{name}", a metric name that MLflow refuses: the training stops at that step',
        at=job.settings.get("trainer.logger"),
        fix="Upgrade verl to 0.6.1 or later, or take mlflow out of trainer.logger",
        verl=job.verl.version,
        name=name,
    )


@check(
    "MLFLOW017",
    "mlflow-parameter-name",
    tags={"logger", "mlflow", "names"},
    good=[
        {"job": MLFLOW | {"trainer.total_epochs": 1}},
        {"job": MLFLOW | {"ray_kwargs.ray_init.runtime_env.env_vars.A_B": "1", "data.项目": 1, "a.b c:d-e": 1}},
        {"job": {"trainer.logger": "console", "reward.x(y)": 1}},
        {"job": MLFLOW | {"reward.names": [{"acc": 1}]}},
    ],
    bad=[
        {"job": MLFLOW | {"reward.x[0]": 1}},
        {"job": MLFLOW | {"reward.weight(acc)": 0.5}},
        {"job": MLFLOW | {"reward.acc@1": 0.5}},
        {"job": MLFLOW | {"reward.list": [{"a=b": 1}]}},
        {"job": MLFLOW | {"data./root": 1}},
        {"job": MLFLOW | {"data." + "k" * 250: 1}},
    ],
)
def mlflow_parameter_name(job: Job) -> Iterator[Finding]:
    """A configuration key is not allowed as the name of an MLflow parameter.

    verl logs the whole configuration as parameters, under names such as `trainer/total_epochs`, and does not repair them as it
    does with metric names. One key with a bracket, @, = or similar makes the call fail after the run was started: verl then
    reports "Run with UUID ... is already active", and the run stays empty.

    Fix: rename the key; letters, digits, underscores, dashes, dots, blanks and colons are allowed, 250 characters in all.

    See: mlflow 3.17.2 utils/validation.py
         verl 0.9.1 verl/utils/tracking.py (`_compute_mlflow_params_from_objects`)
    """
    if not logs_to(job, "mlflow"):
        return
    for key, setting in job.settings.items():
        for name in _parameter_names(key.replace(".", "/"), setting.value):
            problem = _refused(name)
            if problem:
                yield finding(problem, at=setting, fix="Rename the key", key=name[:300])
                break


def _parameter_names(name: str, value: Any) -> Iterable[str]:
    """The names under which verl logs a value: lists are taken apart by their index, dictionaries by their keys."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _parameter_names(f"{name}/{key}", item)
    elif isinstance(value, (list, tuple)):
        for number_in_list, item in enumerate(value):
            yield from _parameter_names(f"{name}/{number_in_list}", item)
    else:
        yield name


def _refused(name: str) -> str:
    if re.search(r"[^/\w.\- :]", name):
        return 'the configuration key "{key}" has a character that MLflow refuses in a parameter name: the run stays empty'
    if any(part in {"", ".", ".."} for part in name.split("/")):
        return 'the configuration key "{key}" has an empty part, which MLflow refuses in a parameter name: the run stays empty'
    if len(name) > 250:
        return 'the configuration key "{key}" is longer than the 250 characters of an MLflow parameter: the run stays empty'
    return ""


@check(
    "MLFLOW018",
    "mlflow-name-too-long",
    tags={"logger", "mlflow", "names"},
    good=[
        {"job": MLFLOW | {"trainer.project_name": "p" * 300}},
        {"job": MLFLOW | {"trainer.project_name": "p" * 256}, "environment": {URI: "postgresql://u:w@db/m"}},
        {"job": MLFLOW | {"trainer.experiment_name": "e" * 300}, "environment": {URI: "sqlite:////data/x.db"}},
        {"job": MLFLOW | {"trainer.project_name": 5}},
    ],
    bad=[
        {"job": MLFLOW | {"trainer.project_name": "p" * 501}},
        {"job": MLFLOW | {"trainer.project_name": "p" * 257}, "environment": {URI: "postgresql://u:w@db/m"}},
        {"job": MLFLOW | {"trainer.experiment_name": "e" * 251}, "environment": {URI: "mysql+pymysql://u:w@db/m"}},
    ],
)
def mlflow_name_too_long(job: Job, environment: Environment) -> Iterator[Finding]:
    """The project or experiment name is too long for MLflow.

    verl's project is MLflow's experiment, and verl's experiment is MLflow's run. MLflow allows 500 characters for the former;
    the columns of PostgreSQL and MySQL hold 256, and 250 for the name of a run. Longer names fail and verl goes on without
    MLflow.

    Fix: shorten the name.

    See: mlflow 3.17.2 utils/validation.py (measured with PostgreSQL 18 and MariaDB 10.11)
    """
    if not logs_to(job, "mlflow"):
        return
    strict = kind_of(given(environment, URI)) in {"postgresql", "mysql"}
    limits = {"trainer.project_name": 256 if strict else 500} | ({"trainer.experiment_name": 250} if strict else {})
    for key, limit in limits.items():
        name = job.get(key)
        if isinstance(name, str) and len(name) > limit:
            yield finding(
                "{key} has {length} characters, and this MLflow store allows {limit}",
                at=job.settings[key],
                fix="Shorten the name",
                key=key,
                length=len(name),
                limit=limit,
            )


@check(
    "MLFLOW019",
    "mlflow-traces-need-mlflow-3",
    tags={"logger", "mlflow", "traces"},
    good=[
        {"job": TRACED | {"trainer.use_v1": False}},
        {"job": TRACED | {"trainer.use_v1": False}, "packages": {"mlflow": "3.1.4"}},
        {"job": TRACED, "packages": {"mlflow": "2.22.5"}},
        {"job": MLFLOW, "packages": {"mlflow": "2.22.5", "sqlalchemy": "2.0.43"}},
    ],
    bad=[
        {"job": TRACED | {"trainer.use_v1": False}, "packages": {"mlflow": "2.22.5"}},
        {"job": TRACED | {"verl": "0.7.0"}, "packages": {"mlflow": "2.22.5"}},
    ],
)
def mlflow_traces_need_mlflow_3(job: Job, packages: Packages) -> Iterator[Finding]:
    """Rollout traces with MLflow need mlflow 3.

    verl calls `mlflow.set_trace_tag` and reads `span.trace_id`, which mlflow 2 does not have: the first rollout raises an
    AttributeError inside the agent loop.

    Fix: upgrade mlflow, or unset `actor_rollout_ref.rollout.trace.backend`.

    See: verl 0.9.1 verl/utils/rollout_trace.py
         mlflow 2.22.5 (measured)
    """
    if trace_backend(job) != "mlflow" or job.verl.release < (0, 5) or uses_v1_trainer(job) or not uses_agent_loop(job):
        return
    if release_of(packages) < (3,):
        yield finding(
            "mlflow {version} cannot take verl's rollout traces, which need mlflow 3",
            at=job.settings[f"{TRACE}.backend"],
            fix="Upgrade mlflow, or unset the trace backend",
            commands=["pip install -U mlflow"],
            version=_version(packages),
        )


@check(
    "MLFLOW020",
    "mlflow-retries-refused",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3"}},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "10"}},
        {"job": MLFLOW, "environment": {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "50"}},
        {
            "job": MLFLOW,
            "environment": SERVER | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "20", "_MLFLOW_HTTP_REQUEST_MAX_RETRIES_LIMIT": "20"},
        },
    ],
    bad=[
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "11"}},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "-1"}},
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "many"}},
    ],
)
def mlflow_retries_refused(job: Job, environment: Environment) -> Iterator[Finding]:
    """MLFLOW_HTTP_REQUEST_MAX_RETRIES has a value that MLflow refuses.

    MLflow allows 0 to 10 and raises on every request otherwise, so nothing is logged.

    Fix: set a number from 0 to 10. A small one, such as 3, also shortens the time that verl waits for a server that is down.

    See: mlflow 3.17.2 utils/rest_utils.py (`_validate_max_retries`)
    """
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    variable = environment.given(name)
    if not connects(job) or variable is None or kind_of(given(environment, URI)) != "http":
        return
    if environment.given("_MLFLOW_HTTP_REQUEST_MAX_RETRIES_LIMIT") is not None:
        return
    value = environment.text(name)
    if not re.fullmatch(r"\s*\+?(\d|10)\s*", value):
        yield finding(
            '{name} is "{value}"; MLflow allows 0 to 10 and refuses every request otherwise',
            at=variable,
            fix="Set a number from 0 to 10",
            commands=[f"export {name}=3"],
            name=name,
            value=value,
        )


@check(
    "MLFLOW021",
    "mlflow-trace-database-race",
    tags={"logger", "mlflow", "traces", "store"},
    severity=Severity.WARNING,
    good=[
        {"job": TRACED},
        {"job": TRACED, "environment": SERVER},
        {"job": MLFLOW, "mlflow_files": {"database_missing": True}},
        {"job": TRACED | {"actor_rollout_ref.rollout.agent.num_workers": 1}, "mlflow_files": {"database_missing": True}},
        {"job": TRACED | {"verl": "0.6.1"}, "mlflow_files": {"database_missing": True}},
        {"job": TRACED, "environment": {URI: "./mlruns"}, "mlflow_files": {"unseen": "elsewhere"}},
    ],
    bad=[
        {"job": TRACED, "mlflow_files": {"database_missing": True}},
        {"job": TRACED, "environment": {URI: "sqlite:////data/x.db"}, "mlflow_files": {"database_missing": True}},
    ],
)
def mlflow_trace_database_race(job: Job, environment: Environment, mlflow_files: MlflowFiles) -> Iterator[Finding]:
    """Several workers will create the same sqlite database at once.

    With rollout traces each agent loop worker, eight by default, opens the store by itself. On a file that does not exist yet
    they all create the tables and get in each other's way: most of them raise, which ends the job, and the file can be left
    half made, so that the next start fails too. Once the tables exist, many workers are no problem.

    Fix: create the database before the launch with `mlflow db upgrade ADDRESS`, or use a server.

    See: verl 0.9.1 verl/utils/rollout_trace.py and docs/advance/rollout_trace.rst
         mlflow 3.17.2 store/tracking/sqlalchemy_store.py (measured with 4 and 8 processes)
    """
    if trace_backend(job) != "mlflow" or job.verl.release < (0, 5) or not uses_agent_loop(job):
        return
    if number(job, "actor_rollout_ref.rollout.agent.num_workers", 8) < 2:
        return
    address = environment.text(URI, DEFAULT_OF_VERL)
    if not re.match(r"sqlite(\+\w+)?:///", address):
        return
    if mlflow_files.unseen:
        raise Undetermined(f"whether the database exists already is not known: {mlflow_files.unseen}")
    if mlflow_files.database_missing:
        yield finding(
            "the database {address} does not exist, and several workers will create it at once, which can break it and the job",
            at=job.settings[f"{TRACE}.backend"],
            fix="Create it before the launch with `mlflow db upgrade {address}`",
            commands=[f"mlflow db upgrade {shlex.quote(address)}"],
            address=address,
        )


LEFT_BEHIND = (
    URI,
    "MLFLOW_RUN_ID",
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_ALLOW_FILE_STORE",
    "MLFLOW_TRACKING_INSECURE_TLS",
)


@check(
    "MLFLOW022",
    "mlflow-variables-left-behind",
    tags={"logger", "mlflow", "store"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "environment": SERVER},
        {"job": MLFLOW, "environment": {"unseen": "elsewhere"}},
        {"job": MLFLOW, "environment": SERVER | {"unseen": "elsewhere"}},
        {"job": {"trainer.logger": "console"}, "environment": {"unseen": "elsewhere", "left_behind": SERVER}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {"unseen": "the job is submitted to a Ray cluster", "left_behind": SERVER}},
        {"job": MLFLOW, "environment": {"left_behind": SERVER}},
        {"job": MLFLOW, "environment": {"left_behind": {"MLFLOW_TRACKING_TOKEN": "tok"}}},
    ],
)
def mlflow_variables_left_behind(job: Job, environment: Environment) -> Iterator[Finding]:
    """MLflow settings of the launching shell do not reach the process that logs.

    verl logs in a Ray actor, which has the environment of its Ray node. When MLFLOW_TRACKING_URI was exported after
    `ray start`, the actor does not see it and verl writes to /tmp/mlruns.db of that node, without any message: the server stays
    empty.

    Fix: export the variables before `ray start` on every node, or pass them in Ray's runtime_env, for instance as
    `+ray_kwargs.ray_init.runtime_env.env_vars.MLFLOW_TRACKING_URI=http://host:5000`.

    See: verl 0.9.1 verl/trainer/constants_ppo.py
         https://github.com/NovaSky-AI/SkyRL/issues/135
    """
    forgotten = left_behind(environment, LEFT_BEHIND) if connects(job) else []
    if not forgotten:
        return
    address_is_lost = any(variable.name == URI for variable in forgotten)
    certain = address_is_lost and not environment.unseen
    if certain:
        template = "{names} of the launching shell does not reach the process that logs: runs go to another store, silently"
    elif environment.unseen:
        template = (
            "{names} of the launching shell does not reach the process that logs, unless the Ray cluster was started with it"
        )
    else:
        template = "{names} of the launching shell does not reach the process that logs: its Ray node was started without it"
    yield finding(
        template,
        at=forgotten[0],
        fix="Export before `ray start` on every node, or pass it in Ray's runtime_env",
        severity=Severity.ERROR if certain else None,
        names=", ".join(variable.name for variable in forgotten),
    )


@check(
    "MLFLOW023",
    "mlflow-netrc-overrides",
    tags={"logger", "mlflow", "secrets"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "environment": SERVER | {"MLFLOW_TRACKING_TOKEN": "tok"}},
        {"job": MLFLOW, "environment": SERVER, "mlflow_files": {"netrc_machines": ["mlflow.example.com"]}},
        {
            "job": MLFLOW,
            "environment": SERVER | {"MLFLOW_TRACKING_TOKEN": "tok"},
            "mlflow_files": {"netrc_machines": ["api.wandb.ai"]},
        },
    ],
    bad=[
        {
            "job": MLFLOW,
            "environment": SERVER | {"MLFLOW_TRACKING_TOKEN": "tok"},
            "mlflow_files": {"netrc": "/home/user/.netrc", "netrc_machines": ["mlflow.example.com"]},
        },
        {
            "job": MLFLOW,
            "environment": SERVER | {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "word"},
            "mlflow_files": {"netrc": "/home/user/.netrc", "netrc_machines": ["default"]},
        },
    ],
)
def mlflow_netrc_overrides(job: Job, environment: Environment, mlflow_files: MlflowFiles) -> Iterator[Finding]:
    """A netrc entry for the MLflow server beats the credentials in the environment.

    MLflow sends its requests with Python's requests, which replaces the Authorization header by the entry of ~/.netrc for the
    same host, a token included. The server then sees another user, or answers 401.

    Fix: remove the entry, or point NETRC at another file.

    See: mlflow 3.17.2 (measured)
    """
    address = given(environment, URI) if connects(job) else ""
    if kind_of(address) != "http" or not {host(address), "default"} & set(mlflow_files.netrc_machines):
        return
    names = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD")
    used = next((name for name in names if secret(environment, name)), "")
    if used:
        yield finding(
            "{path} has an entry for {host}, which is sent instead of {name}",
            at=environment.given(used),
            fix="Remove the entry, or point NETRC at another file",
            path=mlflow_files.netrc,
            host=host(address),
            name=used,
        )


ATTEMPTS_SINCE = (0, 7, 1)
"""From here on verl tries three times, five seconds apart, and then trains without MLflow (verl/utils/tracking.py)."""


def _unreached(layer: str, cause: str, **more: Any) -> dict[str, Any]:
    probe = {"layer": layer, "cause": cause, "status": None, "address": "mlflow.example.com:5000"}
    return {"tracker": "mlflow", "server": "mlflow.example.com:5000", "client": "requests", "probe": probe} | more


@check(
    "MLFLOW050",
    "mlflow-server-unreachable",
    tags={"logger", "mlflow", "network"},
    good=[
        {},
        {"reachability": [_unreached("http", "ok")]},
        {"reachability": [_unreached("tcp", "refused", tracker="wandb")]},
        {"reachability": [_unreached("tls", "expired")]},
        {"reachability": [_unreached("tcp", "no-answer"), _unreached("tcp", "no-answer", tracker="swanlab")]},
    ],
    bad=[
        {"reachability": [_unreached("tcp", "refused")], "mlflow_server": {"stall_s": 244.0}, "job": MLFLOW},
        {"reachability": [_unreached("tcp", "no-answer")], "mlflow_server": {"stall_s": 1204.0}, "job": MLFLOW},
        {"reachability": [_unreached("dns", "dns-failed")], "mlflow_server": {"stall_s": 244.0}, "job": MLFLOW},
        {
            "reachability": [_unreached("http", "silent")],
            "mlflow_server": {"stall_s": 1204.0},
            "job": MLFLOW | {"verl": "0.7.0"},
        },
    ],
)
def mlflow_server_unreachable(
    job: Job, environment: Environment, reachability: list[Reach], mlflow_server: MlflowServer
) -> Iterator[Finding]:
    """The MLflow server cannot be reached, and MLflow's client blocks for a long time over it.

    One request is tried eight times with growing pauses: four minutes when the server refuses, twenty when it stays silent.
    verl 0.7.1 and later start it three times and then train without MLflow; older ones stop. A server that dies later blocks
    every training step in the same way. When other trackers suffer from the same cause, one finding about the network names
    them all.

    Fix: correct MLFLOW_TRACKING_URI or start the server; set MLFLOW_HTTP_REQUEST_MAX_RETRIES=2 and
    MLFLOW_HTTP_REQUEST_TIMEOUT=10 so that a dead server costs seconds.

    See: mlflow 3.17.2, measured: 247 seconds refused, 1207 seconds silent
         https://github.com/ecmwf/anemoi-training/pull/111
    """
    tries = 3 if job.verl.release >= ATTEMPTS_SINCE else 1
    for root in roots(reachability, "MLFLOW050"):
        if root.probe.layer == "dns":
            template = (
                "the name of {server} cannot be resolved: MLflow blocks the start of training for about {minutes} minutes"
            )
        elif root.probe.cause == "refused":
            template = "{server} refuses connections: MLflow blocks the start of training for about {minutes} minutes"
        elif root.probe.layer == "tcp":
            template = "no answer from {server}: MLflow blocks the start of training for about {minutes} minutes"
        else:
            template = "{server} gives no usable answer: MLflow blocks the start of training for about {minutes} minutes"
        yield finding(
            template,
            at=_at(environment, job),
            fix="Correct {variable} or start the server; MLFLOW_HTTP_REQUEST_MAX_RETRIES=2 shortens the wait",
            commands=["export MLFLOW_HTTP_REQUEST_MAX_RETRIES=2 MLFLOW_HTTP_REQUEST_TIMEOUT=10"],
            evidence={
                "layer": root.probe.layer,
                "cause": root.probe.cause,
                "seen": root.probe.reason,
                "milliseconds": root.probe.milliseconds,
                "seconds_a_request": mlflow_server.stall_s,
            },
            server=root.servers,
            variable=URI,
            minutes=max(1, round((tries * mlflow_server.stall_s + 5 * (tries - 1)) / 60)),
        )


@check(
    "MLFLOW051",
    "mlflow-login-refused",
    tags={"logger", "mlflow", "network", "secrets"},
    good=[
        {},
        {"mlflow_server": {"verdict": "ready"}},
        {"mlflow_server": {"verdict": "forbidden", "status": 403}},
    ],
    bad=[
        {"mlflow_server": {"verdict": "unauthorized", "status": 401}},
        {"mlflow_server": {"verdict": "unauthorized", "status": 401, "credentials": "MLFLOW_TRACKING_USERNAME"}},
        {"mlflow_server": {"verdict": "unauthorized", "status": 401, "credentials": "/home/user/.netrc"}},
    ],
)
def mlflow_login_refused(environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """The MLflow server wants a login and does not accept the one that it gets.

    It answers 401 to every request of the API, so nothing is logged. The client sends, in this order: an entry of netrc for the
    host, user and password of the address, MLFLOW_TRACKING_USERNAME together with MLFLOW_TRACKING_PASSWORD, a token.

    Fix: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, where the job runs.

    See: mlflow 3.17.2 utils/credentials.py; requests 2.34.2 sessions.py
    """
    if not was_asked(mlflow_server.reach) or mlflow_server.verdict != "unauthorized":
        return
    place = mlflow_server.credentials
    yield finding(
        "{server} does not accept the login from {place} (status 401): nothing will be logged to MLflow"
        if place
        else "{server} wants a login and gets none (status 401): nothing will be logged to MLflow",
        at=environment.given(place) or environment.given(URI),
        fix="Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, where the job runs",
        server=mlflow_server.reach.server,
        place=place,
    )


@check(
    "MLFLOW052",
    "mlflow-access-forbidden",
    tags={"logger", "mlflow", "network"},
    good=[{}, {"mlflow_server": {"verdict": "ready"}}, {"mlflow_server": {"verdict": "host-refused", "status": 403}}],
    bad=[
        {
            "mlflow_server": {
                "verdict": "forbidden",
                "status": 403,
                "reach": {"probe": {"status": 403, "excerpt": "Permission denied"}},
            }
        }
    ],
)
def mlflow_access_forbidden(environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """The MLflow server knows the login and does not let it at the job's experiment.

    It answers 403: the user has no permission for that experiment, or a gateway forbids the path. verl's first request fails
    with PERMISSION_DENIED and nothing is logged.

    Fix: have the permission granted, or use a project name of one's own.

    See: mlflow 3.17.2 server/auth (measured)
    """
    if was_asked(mlflow_server.reach) and mlflow_server.verdict == "forbidden":
        probe = mlflow_server.reach.probe
        yield finding(
            '{server} forbids access to the job\'s experiment (status 403): "{excerpt}"',
            at=environment.given(URI),
            fix="Have access granted, or choose another trainer.project_name",
            server=mlflow_server.reach.server,
            excerpt=probe.excerpt if probe else "",
        )


@check(
    "MLFLOW053",
    "mlflow-host-header-refused",
    tags={"logger", "mlflow", "network"},
    good=[{}, {"mlflow_server": {"verdict": "ready"}}, {"mlflow_server": {"verdict": "forbidden", "status": 403}}],
    bad=[{"mlflow_server": {"verdict": "host-refused", "status": 403, "reach": {"server": "mlflow.svc:5000"}}}],
)
def mlflow_host_header_refused(environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """The MLflow server refuses the host name under which it is called.

    Since 3.5 a server answers 403 "Invalid Host header" to names that it was not told, while /health and /version stay green.
    By default it knows localhost and private addresses only; an entry of --allowed-hosts without a port does not match a name
    with one.

    Fix: start the server with `--allowed-hosts "name:*"`, or call it by its private address.

    See: https://github.com/mlflow/mlflow/pull/17910
         https://github.com/mlflow/mlflow/issues/22095
    """
    if was_asked(mlflow_server.reach) and mlflow_server.verdict == "host-refused":
        name = mlflow_server.reach.server.rpartition(":")[0]
        yield finding(
            "the MLflow server refuses to be called {name} (403 Invalid Host header): nothing will be logged to MLflow",
            at=environment.given(URI),
            fix='Start the server with --allowed-hosts "{name}:*", or call it by its private address',
            commands=[f'mlflow server --allowed-hosts "{name}:*"'],
            name=name,
        )


@check(
    "MLFLOW054",
    "mlflow-wrong-service",
    tags={"logger", "mlflow", "network"},
    good=[{}, {"mlflow_server": {"verdict": "ready"}}, {"mlflow_server": {"verdict": "wrong-path", "status": 404}}],
    bad=[
        {
            "mlflow_server": {
                "verdict": "wrong-service",
                "status": 200,
                "reach": {"probe": {"status": 200, "excerpt": "Grafana"}},
            }
        }
    ],
)
def mlflow_wrong_service(environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """Something else than an MLflow server answers at the tracking address.

    Its answer is neither the API's nor MLflow's health page: another service on that port, a login page, or a gateway. MLflow
    then reports that the response "was not in a valid JSON format", or ENDPOINT_NOT_FOUND.

    Fix: correct host, port and path of MLFLOW_TRACKING_URI.

    See: mlflow 3.17.2 utils/rest_utils.py, `verify_rest_response`
    """
    if was_asked(mlflow_server.reach) and mlflow_server.verdict == "wrong-service":
        probe = mlflow_server.reach.probe
        yield finding(
            '{server} is not an MLflow server: it answers "{excerpt}" (status {status})',
            at=environment.given(URI),
            fix="Correct host, port and path of {variable}",
            server=mlflow_server.reach.server,
            status=mlflow_server.status,
            excerpt=probe.excerpt if probe else "",
            variable=URI,
        )


@check(
    "MLFLOW055",
    "mlflow-wrong-path",
    tags={"logger", "mlflow", "network"},
    good=[{}, {"mlflow_server": {"verdict": "ready"}}, {"mlflow_server": {"verdict": "wrong-service", "status": 404}}],
    bad=[{"mlflow_server": {"verdict": "wrong-path", "status": 404, "reach": {"url": "http://mlflow.lan:5000/api/2.0"}}}],
)
def mlflow_wrong_path(environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """An MLflow server answers there, but its API is not under the path of the tracking address.

    The address must end where the server's own paths begin: the plain address, or the prefix of `--static-prefix`. MLflow's
    client puts /api/2.0/mlflow behind it and gets ENDPOINT_NOT_FOUND.

    Fix: remove what was added to the address, or add the prefix with which the server was started.

    See: mlflow 3.17.2 (measured)
    """
    if was_asked(mlflow_server.reach) and mlflow_server.verdict == "wrong-path":
        yield finding(
            "the MLflow server has no API under {url} (status {status}): the path of the tracking address is wrong",
            at=environment.given(URI),
            fix="Use the address up to where the server's own paths begin, with its --static-prefix if it has one",
            url=mlflow_server.reach.url,
            status=mlflow_server.status,
        )


@check(
    "MLFLOW056",
    "mlflow-experiment-deleted",
    tags={"logger", "mlflow", "network", "names"},
    good=[
        {},
        {"mlflow_server": {"verdict": "ready", "experiment": "exists"}},
        {"mlflow_server": {"verdict": "ready", "experiment": "absent"}},
    ],
    bad=[{"job": MLFLOW | {"trainer.project_name": "p"}, "mlflow_server": {"verdict": "ready", "experiment": "deleted"}}],
)
def mlflow_experiment_deleted(job: Job, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """The experiment of the job's name was deleted on the MLflow server, which keeps the name.

    MLflow deletes softly: set_experiment() raises "Cannot set a deleted experiment", and creating it anew is refused because
    the name exists.

    Fix: restore the experiment (`mlflow experiments restore`), have `mlflow gc` remove it for good, or change the name.

    See: https://github.com/mlflow/mlflow/issues/6445
    """
    if was_asked(mlflow_server.reach) and mlflow_server.experiment == "deleted":
        yield finding(
            'the experiment "{name}" was deleted on {server}, and MLflow refuses to log to it',
            at=job.settings.get("trainer.project_name"),
            fix="Restore it with `mlflow experiments restore`, or choose another trainer.project_name",
            name=job.get("trainer.project_name"),
            server=mlflow_server.reach.server,
        )


@check(
    "MLFLOW057",
    "mlflow-artifacts-on-server-disk",
    tags={"logger", "mlflow", "network", "generations"},
    severity=Severity.WARNING,
    good=[
        {},
        {"mlflow_server": {"verdict": "ready", "artifact_location": "mlflow-artifacts:/1"}},
        {"mlflow_server": {"verdict": "ready", "artifact_location": "s3://bucket/1"}},
        {"mlflow_server": {"verdict": "ready", "artifact_location": "/srv/artifacts/1", "artifact_folder_missing": False}},
    ],
    bad=[{"mlflow_server": {"verdict": "ready", "artifact_location": "/srv/artifacts/1", "artifact_folder_missing": True}}],
)
def mlflow_artifacts_on_server_disk(environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """The experiment keeps its artifacts in a folder of the server's machine that is not here.

    The server was started with --no-serve-artifacts or the experiment is older than artifact serving: the client writes to
    that path itself. Metrics arrive; saving validation generations fails with PermissionError or FileNotFoundError, or makes
    a folder on the training node that nobody reads.

    Fix: mount the folder at the same path, or use a new experiment on a server that serves artifacts.

    See: https://github.com/mlflow/mlflow/issues/810
    """
    if was_asked(mlflow_server.reach) and mlflow_server.artifact_folder_missing:
        yield finding(
            "the experiment keeps artifacts in {location} on the server's machine, and there is no such folder here",
            at=environment.given(URI),
            fix="Mount that folder here, or use a new experiment on a server that serves artifacts",
            location=mlflow_server.artifact_location,
        )


@check(
    "MLFLOW058",
    "mlflow-server-in-trouble",
    tags={"logger", "mlflow", "network"},
    good=[{}, {"mlflow_server": {"verdict": "ready"}}],
    bad=[
        {"mlflow_server": {"verdict": "trouble", "status": 503, "stall_s": 244.0}, "job": MLFLOW},
        {"mlflow_server": {"verdict": "trouble", "status": 429, "stall_s": 244.0}, "job": MLFLOW},
    ],
)
def mlflow_server_in_trouble(job: Job, environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """The MLflow server answers that it cannot serve requests now.

    MLflow retries 429, 500, 502, 503 and 504 for four minutes a request, and verl starts it three times. A database behind the
    server that cannot be reached or needs `mlflow db upgrade` looks like this, while /health stays green.

    Fix: look at the server's log and its database.

    See: mlflow 3.17.2, measured: 246 seconds a request
    """
    if was_asked(mlflow_server.reach) and mlflow_server.verdict == "trouble":
        tries = 3 if job.verl.release >= ATTEMPTS_SINCE else 1
        yield finding(
            "{server} answers status {status} to the first request: MLflow blocks the start for about {minutes} minutes",
            at=environment.given(URI),
            fix="Look at the server's log and its database",
            severity=Severity.WARNING if mlflow_server.status == 429 else None,
            server=mlflow_server.reach.server,
            status=mlflow_server.status,
            minutes=max(1, round((tries * mlflow_server.stall_s + 5 * (tries - 1)) / 60)),
        )


@check(
    "MLFLOW059",
    "mlflow-run-gone",
    tags={"logger", "mlflow", "network"},
    good=[
        {},
        {"mlflow_server": {"verdict": "ready", "run": "exists"}},
        {"mlflow_server": {"verdict": "ready", "experiment": "absent"}},
    ],
    bad=[
        {"mlflow_server": {"verdict": "ready", "run": "missing"}, "environment": {"MLFLOW_RUN_ID": "abc"}},
        {"mlflow_server": {"verdict": "ready", "run": "deleted"}, "environment": {"MLFLOW_RUN_ID": "abc"}},
    ],
)
def mlflow_run_gone(environment: Environment, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """MLFLOW_RUN_ID names a run that the MLflow server does not have.

    Since 0.7 verl continues the run of MLFLOW_RUN_ID instead of making one. When it does not exist, or was deleted, starting it
    fails and nothing is logged.

    Fix: unset MLFLOW_RUN_ID, or restore the run, or correct the tracking address.

    See: verl 0.7.0 verl/utils/tracking.py
    """
    if was_asked(mlflow_server.reach) and mlflow_server.run in {"missing", "deleted"}:
        yield finding(
            "the run {run} of MLFLOW_RUN_ID does not exist on {server}"
            if mlflow_server.run == "missing"
            else "the run {run} of MLFLOW_RUN_ID was deleted on {server}",
            at=environment.given("MLFLOW_RUN_ID"),
            fix="Unset MLFLOW_RUN_ID, restore the run, or correct the tracking address",
            run=environment.text("MLFLOW_RUN_ID"),
            server=mlflow_server.reach.server,
        )


@check(
    "MLFLOW060",
    "mlflow-server-has-no-traces",
    tags={"logger", "mlflow", "network", "traces"},
    severity=Severity.WARNING,
    good=[
        {},
        {"job": TRACED, "mlflow_server": {"verdict": "ready", "server_version": "3.17.2"}},
        {"job": TRACED, "mlflow_server": {"verdict": "ready", "server_version": ""}},
        {"job": MLFLOW, "mlflow_server": {"verdict": "ready", "server_version": "2.10.2"}},
    ],
    bad=[{"job": TRACED, "mlflow_server": {"verdict": "ready", "server_version": "2.10.2"}}],
)
def mlflow_server_has_no_traces(job: Job, mlflow_server: MlflowServer) -> Iterator[Finding]:
    """Rollout traces go to an MLflow server that is too old to take them.

    Servers before 2.14 have no interface for traces: every trace is lost with a warning in the log of a worker, while runs,
    parameters and metrics arrive.

    Fix: upgrade the server, or unset actor_rollout_ref.rollout.trace.backend.

    See: mlflow 2.10.2 server, measured with a client of 3.18
    """
    if not was_asked(mlflow_server.reach) or trace_backend(job) != "mlflow":
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", mlflow_server.server_version)[:2])
    if numbers and numbers < (2, 14):
        yield finding(
            "the MLflow server is {version} and takes no traces: all rollout traces will be lost",
            at=job.settings.get(f"{TRACE}.backend"),
            fix="Upgrade the server to 3.4 or later",
            version=mlflow_server.server_version,
        )
