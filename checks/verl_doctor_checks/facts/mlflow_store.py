"""The database behind MLflow, read without importing mlflow and without changing anything in it.

A local sqlite file is read here; a database server is asked by a child process of the job's Python, which has the driver.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from verl_doctor.api import Environment, Job, Packages, Request, Secret, Undetermined, fact, protect
from verl_doctor.job.model import PROBE_S
from verl_doctor.job.packages import job_python, module_folders
from verl_doctor.job.working_directory import logging_directory
from verl_doctor.secrets import capture, original, scrub
from verl_doctor.stores import filesystem, server_script, sqlite
from verl_doctor.stores.child import NoAnswer, ask_python
from verl_doctor.stores.filesystem import Place
from verl_doctor_checks.facts.mlflow import MlflowFiles
from verl_doctor_checks.facts.mlflow_schema import (
    FIRST_TABLES,
    KEY_COLUMNS,
    Migrations,
    Schema,
    judge,
    read_migrations,
    release_of_revision,
)
from verl_doctor_checks.mlflow import URI, connects, kind_of, tracking_address

LOCK_WATCH_S = 1.0
"""How long a lock must last to be reported: what MLflow writes takes milliseconds, and it waits 20 s for a lock."""
_WRITTEN = ["runs", "metrics", "latest_metrics", "params", "tags"]
_MAX_VALUE = 6000
"""MLflow cuts longer parameters (mlflow 3.17.2, utils/validation.py), so that they cannot be compared."""
_CHANGED_BY_VERL = ("reward.", "reward_model.", "custom_reward_function.", "sandbox_fusion.", "transfer_queue.")
_CHANGED_KEYS = {
    "trainer.device",
    "data.gen_batch_size",
    "actor_rollout_ref.rollout.nnodes",
    "actor_rollout_ref.rollout.n_gpus_per_node",
}
_CHILD_VARIABLES = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_CHILD_PREFIXES = ("PG", "MYSQL_", "LC_")


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter that the run has with one value and the job would log with another."""

    key: str
    stored: Any
    now: Any


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds, as far as the job meets it.

    `schema` is empty when the installed MLflow could not be read: `unknown` says why. `revision_release` and `client` are the
    releases of MLflow that the database and the installed client belong to; the former is empty when it is not known.
    `artifacts` is the local folder of an experiment that exists already, None when that lies elsewhere.
    """

    unknown: str = ""
    schema: Literal["", Schema] = ""
    revision: str = ""
    revision_release: str = ""
    experiment: Literal["", "active", "deleted"] = ""
    artifacts: Place | None = None
    run: Literal["", "active", "missing", "deleted"] = ""
    conflicts: list[Conflict] = msgspec.field(default_factory=list)


class MlflowStore(msgspec.Struct, frozen=True, kw_only=True):
    """The sqlite file of the job. `state` is empty when the job has none, `unknown` says why it was not looked at.

    `parent_missing`: the folder does not exist. `writer` is the process that has kept it locked for `LOCK_WATCH_S` seconds, 0
    when it cannot be named.
    """

    unknown: str = ""
    state: Literal["", "missing", "empty", "database", "other", "folder", "unreadable"] = ""
    place: Place = Place()
    parent_missing: bool = False
    writer: int | None = None
    writer_name: str = ""
    contents: Contents = Contents()


class MlflowDatabase(msgspec.Struct, frozen=True, kw_only=True):
    """The database server of the job. `cause` is empty when the job has none, `ok`, or what went wrong (server_script.py).

    `unknown` says why it was not asked. `unwritable` are tables that the user may not insert into.
    """

    unknown: str = ""
    cause: str = ""
    text: str = ""
    server: str = ""
    database: str = ""
    user: str = ""
    read_only: bool = False
    unwritable: list[str] = msgspec.field(default_factory=list)
    may_create: bool = True
    contents: Contents = Contents()


def _example_store(plain: dict[str, Any] | None) -> MlflowStore:
    return msgspec.convert(plain or {}, MlflowStore)


def _example_database(plain: dict[str, Any] | None) -> MlflowDatabase:
    return msgspec.convert(plain or {}, MlflowDatabase)


@fact(timeout=8, example=_example_store)
def mlflow_store(
    request: Request, job: Job, environment: Environment, packages: Packages, mlflow_files: MlflowFiles
) -> MlflowStore:
    """The sqlite file that MLflow will write to, as it is now."""
    try:
        path = sqlite_path(request, job, environment, packages, mlflow_files)
        return look_at(path, request, job, environment) if path else MlflowStore()
    except Undetermined as error:
        return MlflowStore(unknown=str(error))


def sqlite_path(request: Request, job: Job, environment: Environment, packages: Packages, files: MlflowFiles) -> str:
    """The file that an sqlite address means (SQLAlchemy 2.1, dialects/sqlite/pysqlite.py); empty when the job has none.

    Raises Undetermined when it is not a file of this machine, or not known.
    """
    address = tracking_address(job, environment, packages, files) if connects(job) else ""
    start, separator, rest = address.strip().partition(":///")
    if not separator or kind_of(start + ":") != "sqlite":
        return ""
    name = rest.partition("?")[0]
    if not name or name.startswith((":memory:", "file:")):
        return ""
    if environment.unseen:
        raise Undetermined(environment.unseen)
    directory = "" if os.path.isabs(name) else logging_directory(request, job)
    return os.path.normpath(os.path.join(directory, name))


def look_at(path: str, request: Request, job: Job, environment: Environment) -> MlflowStore:
    """The state of an sqlite file. Raises Undetermined when it cannot be read at this moment."""
    place = filesystem.look_at(path)
    if place.is_folder:
        return MlflowStore(state="folder", place=place)
    state = sqlite.state_of(path)
    if place.exists and place.writable:
        place = _with_folder(place)
    writer = sqlite.steady_writer(path, LOCK_WATCH_S) if state == "database" else None
    contents = Contents()
    if state == "database":
        contents = _read(path, request, job, environment) if writer is None else Contents(unknown="it is locked")
    return MlflowStore(
        state=state,
        place=place,
        parent_missing=not os.path.isdir(os.path.dirname(path)),
        writer=writer,
        writer_name=_process_name(writer) if writer else "",
        contents=contents,
    )


def _with_folder(place: Place) -> Place:
    """sqlite also needs its folder, for the journal of each transaction."""
    folder = filesystem.look_at(os.path.dirname(place.path))
    return msgspec.structs.replace(place, writable=folder.writable, obstacle=folder.obstacle)


def _process_name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(64).strip()
    except OSError:  # it ended, or lives in another container
        return ""


def _read(path: str, request: Request, job: Job, environment: Environment) -> Contents:
    run = _run_id(job, environment)
    try:
        with sqlite.reading(path) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            misfits = [
                table
                for table, column in KEY_COLUMNS.items()
                if table in tables and column not in {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}
            ]
            revisions = _rows(database, "SELECT version_num FROM alembic_version") if "alembic_version" in tables else []
            found = {"tables": tables, "misfits": misfits, "revisions": [str(row[0]) for row in revisions]}
            if set(tables) >= FIRST_TABLES and not misfits:
                found |= _read_runs(database, job.get("trainer.project_name"), run)
    except sqlite.CannotRead as error:
        return Contents(unknown=f"the database cannot be read at this moment: {error}")
    return contents_of(found, request, job, run)


def _read_runs(database: Any, project: Any, run: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "experiments": _rows(
            database, "SELECT lifecycle_stage, artifact_location FROM experiments WHERE name = ?", str(project)
        )
    }
    if run:
        found["runs"] = _rows(database, "SELECT lifecycle_stage FROM runs WHERE run_uuid = ?", run)
        found["parameters"] = dict(_rows(database, "SELECT key, value FROM params WHERE run_uuid = ?", run))
    return found


def _rows(database: Any, statement: str, *values: str) -> list[Any]:
    return list(database.execute(statement, values).fetchall())


def _run_id(job: Job, environment: Environment) -> str:
    """The run that verl attaches to (since 0.7.0), empty when it starts one. Raises Undetermined."""
    return environment.text("MLFLOW_RUN_ID") if "mlflow" in job.loggers and job.verl.release >= (0, 7) else ""


def contents_of(found: Mapping[str, Any], request: Request, job: Job, run: str) -> Contents:
    """What was read from a store, judged against the installed MLflow and the configuration of the job."""
    migrations, unknown = _installed_migrations(request, job)
    revision = (found["revisions"] or [""])[0]
    stage, location = (found.get("experiments") or [("", "")])[0]
    runs = found.get("runs")
    return Contents(
        unknown=unknown,
        schema=judge(found["tables"], revision, found["misfits"], migrations) if migrations else "",
        revision=revision,
        revision_release=release_of_revision(revision),
        experiment="deleted" if stage == "deleted" else "active" if stage else "",
        artifacts=_artifacts(str(location or "")),
        run="" if runs is None else "missing" if not runs else "deleted" if runs[0][0] == "deleted" else "active",
        conflicts=list(conflicts(job, found.get("parameters", {}))) if run else [],
    )


def _installed_migrations(request: Request, job: Job) -> tuple[Migrations | None, str]:
    try:
        migrations = read_migrations(module_folders(request, job))
    except Undetermined as error:
        return None, str(error)
    return migrations, "" if migrations else "the migrations of the installed MLflow were not found"


def _artifacts(location: str) -> Place | None:
    parts = urlsplit(location)
    path = unquote(parts.path) if parts.scheme == "file" else location
    return filesystem.look_at(os.path.normpath(path)) if os.path.isabs(path) else None


def conflicts(job: Job, stored: Mapping[str, str]) -> Iterator[Conflict]:
    """Parameters of a run that this job would log with another value, which MLflow refuses.

    Only values that the user gave are compared: verl itself changes some others before it logs them.
    """
    for key, setting in job.settings.items():
        given = setting.source.kind not in {"verl-default", "built-in"} and not setting.unknown
        changed = key.startswith(_CHANGED_BY_VERL) or key in _CHANGED_KEYS or key.endswith(".total_training_steps")
        if not given or changed:
            continue
        for name, value in parameters(key.replace(".", "/"), setting.value):
            old = stored.get(name)
            if old is not None and old != value and max(len(old), len(value)) < _MAX_VALUE and "***" not in value:
                yield Conflict(key=name, stored=protect(key, old), now=protect(key, value))


def parameters(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The parameters that verl logs for a value (verl 0.9.1, verl/utils/tracking.py, _compute_mlflow_params_from_objects)."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from parameters(f"{name}/{key}", item)
    elif isinstance(value, (list, tuple)):
        yield f"{name}/list_len", str(len(value))
        for number, item in enumerate(value):
            yield from parameters(f"{name}/{number}", item)
    else:
        revealed = value.reveal() if isinstance(value, Secret) else value
        if revealed is not None or not isinstance(value, Secret):
            yield name, str(revealed)


@fact(timeout=PROBE_S + 3, network=True, example=_example_database)
def mlflow_database(request: Request, job: Job, environment: Environment) -> MlflowDatabase:
    """The PostgreSQL or MySQL server in MLFLOW_TRACKING_URI, asked the way MLflow would."""
    try:
        return _ask(request, job, environment)
    except (Undetermined, NoAnswer) as error:
        return MlflowDatabase(unknown=f"the database was not asked: {error}")


def server_address(job: Job, environment: Environment) -> str:
    """The address of the job's database server with its password, empty when it has none. Raises Undetermined."""
    kept = environment.text(URI) if connects(job) and environment.given(URI) else ""
    if kind_of(kept) not in server_script.DEFAULT_PORTS:
        return ""
    if environment.unseen:
        raise Undetermined(environment.unseen)
    address = original(URI, kept)
    if address is None:
        raise Undetermined("the password in MLFLOW_TRACKING_URI is not known")
    return address.strip()


def _ask(request: Request, job: Job, environment: Environment) -> MlflowDatabase:
    address = server_address(job, environment)
    if not address:
        return MlflowDatabase()
    user, password, database = _parts(address)
    if password:  # from here on no text that is kept can hold it, as it stands in the address or as the server knows it
        capture(password)
        capture(unquote(password))
    run = _run_id(job, environment)
    question = {
        "address": address,
        "arguments": _mysql_arguments(environment) if kind_of(address) == "mysql" else {},
        "timeout": max(1, round(request.probe_timeout * 0.6)),  # drivers take whole seconds; the rest is for the questions
        "key_columns": KEY_COLUMNS,
        "written": _WRITTEN,
        "project": str(job.get("trainer.project_name")),
        "run": run,
    }
    script = Path(server_script.__file__)
    variables = child_environment(environment)
    found = ask_python(job_python(request, job), script, question, environment=variables, timeout=request.probe_timeout)
    if found["cause"] in {"no-driver", "no-sqlalchemy", "address"}:  # said by the checks of packages and addresses
        raise Undetermined(scrub(found["text"]))
    return MlflowDatabase(
        cause=found["cause"],
        text=scrub(found["text"]),
        server=f"{found['host']}:{found['port']}" if found["host"] else "local socket",
        database=scrub(database),
        user=scrub(user),
        read_only=found.get("read_only", False),
        unwritable=found.get("unwritable", []),
        may_create=found.get("may_create", True),
        contents=contents_of(found, request, job, run) if found["cause"] == "ok" else Contents(),
    )


def _parts(address: str) -> tuple[str, str, str]:
    """User, password and database of an address, divided as SQLAlchemy does: the last @ counts."""
    userinfo, _, rest = address.partition("://")[2].rpartition("@")
    user, _, password = userinfo.partition(":")
    return unquote(user), password, rest.partition("/")[2].partition("?")[0]


def _mysql_arguments(environment: Environment) -> dict[str, str]:
    """The certificates that MLflow gives to the driver (mlflow 3.17.2, store/db/utils.py). Raises Undetermined."""
    names = {"ssl_ca": "MLFLOW_MYSQL_SSL_CA", "ssl_cert": "MLFLOW_MYSQL_SSL_CERT", "ssl_key": "MLFLOW_MYSQL_SSL_KEY"}
    return {argument: path for argument, name in names.items() if (path := environment.text(name))}


def child_environment(environment: Environment) -> dict[str, str]:
    """The variables of the job that a database driver reads, with their values; nothing else of it."""
    chosen: dict[str, str] = {}
    for name, variable in environment.variables.items():
        if variable.unknown or not (name in _CHILD_VARIABLES or name.startswith(_CHILD_PREFIXES)):
            continue
        value = variable.value.reveal() if isinstance(variable.value, Secret) else original(name, variable.value)
        if value is not None:
            chosen[name] = value
    return chosen
