"""MLflow: the database that it writes to, as it is before the job starts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from verl_doctor.api import Environment, Finding, Job, Packages, Setting, Severity, Undetermined, Variable, check, finding
from verl_doctor_checks.facts.mlflow_store import LOCK_WATCH_S, Contents, MlflowDatabase, MlflowStore
from verl_doctor_checks.mlflow import MLFLOW, TRACED, URI, release_of
from verl_doctor_checks.trackers import generation_sinks, logs_to, number, trace_backend, tracks, uses_agent_loop, validations

RUN = "MLFLOW_RUN_ID"
PARENTS_ARE_MADE = (3, 7)
"""From here on MLflow makes the folder of an sqlite file (mlflow 3.7.0, store/db/utils.py)."""

FILE = {"state": "database", "place": {"path": "/data/m.db", "nearest": "/data/m.db", "exists": True}}
READY = FILE | {"contents": {"schema": "current", "experiment": "active"}}
SERVED = {"cause": "ok", "server": "db:5432", "database": "mlflow", "user": "verl", "contents": {"schema": "current"}}
POSTGRES = {URI: "postgresql://verl:word@db/mlflow"}
UPGRADE_SERVER = f'mlflow db upgrade "${URI}"'


def _at(environment: Environment, job: Job) -> Variable | Setting | None:
    return environment.given(URI) or job.settings.get("trainer.logger")


def _known(store: MlflowStore) -> MlflowStore:
    """The store. Raises Undetermined when it was not looked at."""
    if store.unknown:
        raise Undetermined(f"MLflow's database was not looked at: {store.unknown}")
    return store


def _answered(database: MlflowDatabase) -> MlflowDatabase:
    """The server. Raises Undetermined when it was not asked."""
    if database.unknown:
        raise Undetermined(database.unknown)
    return database


def _schema(contents: Contents) -> str:
    """How the installed MLflow finds the tables. Raises Undetermined."""
    if contents.unknown and not contents.schema:
        raise Undetermined(f"whether the database fits the installed MLflow is not known: {contents.unknown}")
    return contents.schema


def openers(job: Job) -> int:
    """How many processes open the store at about the same time: rollout traces do so in each worker. Raises Undetermined."""
    if trace_backend(job) != "mlflow" or job.verl.release < (0, 5) or not uses_agent_loop(job):
        return 1
    return max(number(job, "actor_rollout_ref.rollout.agent.num_workers", 8), 1)


def _upgrade(path: str) -> str:
    return f"mlflow db upgrade {shlex.quote('sqlite:///' + path)}"


def _release(contents: Contents) -> str:
    return f"mlflow {contents.revision_release}" if contents.revision_release else f"revision {contents.revision}"


def _installed(packages: Packages) -> str:
    return packages.version("mlflow") or packages.version("mlflow-skinny") or ""


def _schema_findings(
    contents: Contents, name: str, upgrade: str, at: Variable | Setting | None, packages: Packages
) -> Iterator[Finding]:
    """What is said of tables that do not fit, for a file and for a server."""
    schema = _schema(contents)
    if schema == "older":
        yield finding(
            "the tables of {name} are of {release}, and the installed mlflow {version} refuses them until they are upgraded",
            at=at,
            fix="Make a copy of the database, then upgrade it; older clients can no longer use it afterwards",
            commands=[upgrade],
            name=name,
            release=_release(contents),
            version=_installed(packages),
        )
    elif schema == "newer":
        yield finding(
            "the tables of {name} are of {release}, which the installed mlflow {version} does not know and refuses",
            at=at,
            fix="Install the mlflow that made the database, or a later one; `mlflow db upgrade` cannot help",
            commands=["pip install -U mlflow"],
            name=name,
            release=_release(contents),
            version=_installed(packages),
        )
    elif schema == "upgraded":
        yield finding(
            "the job upgrades the tables of {name} from {release}: clients of that release can no longer use it afterwards",
            at=at,
            fix="Make a copy of the database first, or use another one, if older clients still need it",
            severity=Severity.INFO,
            name=name,
            release=_release(contents) if contents.revision else "an unfinished start",
        )


@check(
    "MLFLOW070",
    "mlflow-schema-mismatch",
    tags={"logger", "mlflow", "store", "offline"},
    good=[
        {"job": MLFLOW, "mlflow_store": READY},
        {"job": MLFLOW, "mlflow_store": {}},
        {"job": MLFLOW, "mlflow_store": FILE | {"contents": {"schema": "unfinished"}}},
        {"job": MLFLOW, "mlflow_store": FILE | {"contents": {"schema": "foreign"}}},
    ],
    bad=[
        {"job": MLFLOW, "mlflow_store": FILE | {"contents": {"schema": schema, "revision": "0584bdc529eb", **known}}}
        for schema, known in (
            ("older", {"revision_release": "2.22.5"}),
            ("newer", {}),
            ("upgraded", {"revision_release": "2.22.5"}),
        )
    ],
)
def mlflow_schema_mismatch(
    job: Job, environment: Environment, packages: Packages, mlflow_store: MlflowStore
) -> Iterator[Finding]:
    """The tables of MLflow's sqlite file are of another release of MLflow.

    MLflow insists on the newest revision that it knows, and even neighbouring releases differ. It says "Detected out-of-date
    database schema" for older and for newer databases alike, although only the former can be upgraded. verl 0.7.1 and later
    then train on without MLflow; with rollout traces the job stops. An older database that lacks tables is upgraded by the
    first process that opens it, which locks out clients of the older release.

    Fix: run `mlflow db upgrade` on an older database, or upgrade mlflow for a newer one.

    See: mlflow 3.17.2 store/db/utils.py, `_verify_schema` and `_all_tables_exist`
         https://github.com/mlflow/mlflow/issues/6703
    """
    if _known(mlflow_store).state == "database":
        path = mlflow_store.place.path
        yield from _schema_findings(mlflow_store.contents, path, _upgrade(path), _at(environment, job), packages)


@check(
    "MLFLOW071",
    "mlflow-store-half-migrated",
    tags={"logger", "mlflow", "store", "traces", "offline"},
    good=[
        {"job": MLFLOW, "mlflow_store": READY},
        {"job": MLFLOW, "mlflow_store": {"state": "missing"}},
        {"job": MLFLOW, "mlflow_store": FILE | {"contents": {"schema": "upgraded", "revision": "0584bdc529eb"}}},
    ],
    bad=[{"job": MLFLOW, "mlflow_store": FILE | {"contents": {"schema": "unfinished", "revision": "a8c4a736bde6"}}}],
)
def mlflow_store_half_migrated(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """A migration of MLflow's sqlite file broke off, and MLflow cannot take it up.

    sqlite does not undo what a migration has changed so far. When several processes open a new file at once, as the workers of
    rollout traces do, or one is killed, tables such as `_alembic_tmp_metrics` stay behind. Every later start then fails with
    "table ... already exists", and so does `mlflow db upgrade`.

    Fix: restore a copy, or move the file away and let one process make a new one before the job starts.

    See: mlflow 3.17.2 store/tracking/sqlalchemy_store.py (measured with 5 processes on a new file)
         https://github.com/mlflow/mlflow/issues/23721
    """
    if _known(mlflow_store).state == "database" and _schema(mlflow_store.contents) == "unfinished":
        path = mlflow_store.place.path
        yield finding(
            "a migration of {path} broke off at revision {revision}: every MLflow client fails on it from now on",
            at=_at(environment, job),
            fix="Restore a copy, or move the file away and make a new one before the job starts",
            commands=[f"mv {shlex.quote(path)} {shlex.quote(path + '.broken')}"],
            path=path,
            revision=mlflow_store.contents.revision or "0",
        )


@check(
    "MLFLOW072",
    "mlflow-store-is-something-else",
    tags={"logger", "mlflow", "store", "offline"},
    good=[
        {"job": MLFLOW, "mlflow_store": READY},
        {"job": MLFLOW, "mlflow_store": FILE | {"state": "empty"}},
        {"job": MLFLOW, "mlflow_store": FILE | {"contents": {"unknown": "it is locked"}}},
    ],
    bad=[
        {"job": MLFLOW, "mlflow_store": FILE | {"state": "folder"}},
        {"job": MLFLOW, "mlflow_store": FILE | {"state": "other"}},
        {"job": MLFLOW, "mlflow_store": FILE | {"contents": {"schema": "foreign"}}},
    ],
)
def mlflow_store_is_something_else(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """The path of MLflow's sqlite file leads to something that is not an MLflow database.

    A folder makes MLflow try for about 100 seconds, three times, before verl goes on without it. A file of another kind is
    refused at once. A database of another program that has tables such as `metrics` or `runs` of its own fails in the middle of
    MLflow's migrations, after MLflow has added tables to it.

    Fix: name a file that does not exist yet, or the right one.

    See: mlflow 3.17.2 (measured)
    """
    store = _known(mlflow_store)
    if store.state == "folder":
        template = "{path} is a folder: MLflow needs the path of a file, and tries for minutes before it gives up"
    elif store.state == "other":
        template = "{path} is not an sqlite file: MLflow refuses it"
    elif store.state == "database" and store.contents.schema == "foreign":
        template = (
            "{path} is the database of another program with table names of MLflow: MLflow adds tables to it and then fails"
        )
    else:
        return
    yield finding(template, at=_at(environment, job), fix="Name a file of MLflow, or a new one", path=store.place.path)


@check(
    "MLFLOW073",
    "mlflow-store-not-writable",
    tags={"logger", "mlflow", "store", "disk", "offline"},
    good=[
        {"job": MLFLOW, "mlflow_store": READY},
        {"job": MLFLOW, "mlflow_store": {"state": "missing", "parent_missing": True}},
        {"job": MLFLOW, "mlflow_store": {"state": "missing"}, "packages": {"mlflow": "3.1.4"}},
    ],
    bad=[
        {"job": MLFLOW, "mlflow_store": FILE | {"place": {"path": "/a/m.db", "writable": False, "obstacle": "/a may not be"}}},
        {"job": MLFLOW, "mlflow_store": {"state": "missing", "parent_missing": True}, "packages": {"mlflow": "3.6.0"}},
    ],
)
def mlflow_store_not_writable(
    job: Job, environment: Environment, packages: Packages, mlflow_store: MlflowStore
) -> Iterator[Finding]:
    """MLflow's sqlite file cannot be written to, or cannot be made.

    sqlite writes to the file and, for each transaction, to a second file beside it. verl's default, /tmp/mlruns.db, belongs to
    whoever used the machine first. MLflow before 3.7 does not make missing folders.

    Fix: name a file in a folder that the job may write to.

    See: mlflow 3.7.0 store/db/utils.py, `_make_parent_dirs_if_sqlite`
    """
    store = _known(mlflow_store)
    if store.state in {"", "folder"}:
        return
    if not store.place.writable:
        yield finding(
            "MLflow cannot write to {path}: {obstacle}",
            at=_at(environment, job),
            fix="Name a file in a folder that the job may write to, such as sqlite:////data/mlruns.db",
            path=store.place.path,
            obstacle=store.place.obstacle,
        )
    elif store.parent_missing and release_of(packages) < PARENTS_ARE_MADE:
        yield finding(
            "the folder of {path} does not exist, and mlflow {version} does not make it",
            at=_at(environment, job),
            fix="Make the folder before the job starts",
            path=store.place.path,
            version=_installed(packages),
        )


@check(
    "MLFLOW074",
    "mlflow-store-on-network-file-system",
    tags={"logger", "mlflow", "store", "disk", "offline"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW, "mlflow_store": READY},
        {"job": MLFLOW, "mlflow_store": {}},
        {"job": MLFLOW, "mlflow_store": FILE | {"place": {"path": "/a/m.db", "file_system": "ext4"}}},
    ],
    bad=[
        {"job": MLFLOW, "mlflow_store": FILE | {"place": {"path": "/nfs/m.db", "file_system": "nfs4", "is_network": True}}},
        {"job": MLFLOW, "mlflow_store": {"state": "missing", "place": {"file_system": "lustre", "is_network": True}}},
    ],
)
def mlflow_store_on_network_file_system(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """MLflow's sqlite file is on a network file system.

    sqlite depends on file locks, which many network file systems do badly or not at all: writers then see "database is locked"
    or damage the file, and one slow server stalls each training step. It may work with a single writer.

    Fix: use a disk of the node, or an MLflow server.

    See: https://www.sqlite.org/faq.html#q5
         https://github.com/mlflow/mlflow/issues/5917
    """
    store = _known(mlflow_store)
    if store.state and store.place.is_network:
        yield finding(
            "{path} is on a network file system ({kind}), on which sqlite's locks are not reliable",
            at=_at(environment, job),
            fix="Use a disk of the node, or an MLflow server",
            path=store.place.path,
            kind=store.place.file_system,
        )


@check(
    "MLFLOW075",
    "mlflow-store-locked",
    tags={"logger", "mlflow", "store", "offline"},
    severity=Severity.WARNING,
    good=[{"job": MLFLOW, "mlflow_store": READY}, {"job": MLFLOW, "mlflow_store": {"state": "missing"}}],
    bad=[
        {"job": MLFLOW, "mlflow_store": FILE | {"writer": 4711, "writer_name": "sqlite3"}},
        {"job": MLFLOW, "mlflow_store": FILE | {"writer": 0}},
    ],
)
def mlflow_store_locked(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """Another process keeps MLflow's sqlite file locked.

    MLflow waits 20 seconds for a lock and then raises "database is locked". Its own writes take milliseconds: a lock that lasts
    comes from a migration that is running, a copy, an open transaction in a shell, or a process that hangs.

    Fix: wait until the process is done, or end it.

    See: mlflow 3.17.2 store/db/utils.py (PRAGMA busy_timeout; measured)
    """
    store = _known(mlflow_store)
    if store.writer is None:
        return
    template = "{path} has been locked for {seconds:g} s by process {pid} ({name}); MLflow gives up after 20 s"
    if not store.writer_name:
        template = "{path} has been locked for {seconds:g} s by another process; MLflow gives up after 20 s"
    yield finding(
        template,
        at=_at(environment, job),
        fix="Wait until that process is done, or end it",
        path=store.place.path,
        seconds=LOCK_WATCH_S,
        pid=store.writer,
        name=store.writer_name,
    )


@check(
    "MLFLOW076",
    "mlflow-store-upgraded-by-many",
    tags={"logger", "mlflow", "store", "traces", "offline"},
    severity=Severity.WARNING,
    good=[
        {"job": TRACED, "mlflow_store": READY},
        {"job": TRACED, "mlflow_store": {"state": "missing"}},
        {"job": TRACED, "mlflow_store": FILE | {"contents": {"schema": "older"}}},
        {"job": MLFLOW, "mlflow_store": FILE | {"state": "empty"}},
        {
            "job": TRACED | {"actor_rollout_ref.rollout.agent.num_workers": 1},
            "mlflow_store": FILE | {"contents": {"schema": "upgraded"}},
        },
    ],
    bad=[
        {"job": TRACED, "mlflow_store": FILE | {"state": "empty"}},
        {"job": TRACED, "mlflow_store": FILE | {"contents": {"schema": "empty"}}},
        {"job": TRACED, "mlflow_store": FILE | {"contents": {"schema": "upgraded", "revision": "0584bdc529eb"}}},
    ],
)
def mlflow_store_upgraded_by_many(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """Several workers will make or upgrade the tables of one sqlite file at once.

    With rollout traces each agent loop worker, eight by default, opens the store by itself. When tables are missing, because
    the file is empty or of an older MLflow, all of them run the migrations. Of six processes five failed on each of four such
    files; an error in a worker ends the job, and the file can be left half migrated.

    Fix: let one process prepare the store before the launch, with `verl-doctor prepare` or `mlflow db upgrade`.

    See: mlflow 3.17.2 store/tracking/sqlalchemy_store.py (measured with 6 processes)
         verl 0.9.1 verl/utils/rollout_trace.py
    """
    store = _known(mlflow_store)
    migrates = store.state == "empty" or (store.state == "database" and _schema(store.contents) in {"empty", "upgraded"})
    if migrates and openers(job) > 1:
        yield finding(
            "{count} workers will open {path} at once, and each will try to make or upgrade its tables: most of them will fail",
            at=_at(environment, job),
            fix="Prepare the store before the launch",
            commands=[_upgrade(store.place.path)],
            count=openers(job),
            path=store.place.path,
        )


def _run_findings(contents: Contents, environment: Environment, name: str) -> Iterator[Finding]:
    """What is said of the run in MLFLOW_RUN_ID, for a file and for a server."""
    at = environment.given(RUN)
    if contents.run == "missing":
        yield finding(
            "the run of MLFLOW_RUN_ID does not exist in {name}",
            at=at,
            fix="Unset MLFLOW_RUN_ID, or name a run of this store",
            commands=[f"unset {RUN}"],
            name=name,
        )
    elif contents.run == "deleted":
        yield finding(
            "the run of MLFLOW_RUN_ID was deleted in {name}: MLflow logs to active runs only",
            at=at,
            fix="Unset MLFLOW_RUN_ID, or restore the run",
            commands=[f'mlflow runs restore --run-id "${RUN}"'],
            name=name,
        )


def _conflict_findings(contents: Contents, environment: Environment) -> Iterator[Finding]:
    if contents.run == "active" and contents.conflicts:
        first = contents.conflicts[0]
        yield finding(
            "the run of MLFLOW_RUN_ID has {count} parameters with other values than this job, which MLflow does not change: "
            "{key} is {stored} there and {now} here",
            at=environment.given(RUN),
            fix="Unset MLFLOW_RUN_ID to start a run of its own, or launch with the configuration of that run",
            commands=[f"unset {RUN}"],
            evidence={conflict.key: [conflict.stored, conflict.now] for conflict in contents.conflicts[:20]},
            count=len(contents.conflicts),
            key=first.key,
            stored=first.stored,
            now=first.now,
        )


@check(
    "MLFLOW077",
    "mlflow-store-run-unusable",
    tags={"logger", "mlflow", "resume", "store", "offline"},
    good=[
        {"job": MLFLOW, "mlflow_store": READY},
        {"job": MLFLOW, "environment": {RUN: "a" * 32}, "mlflow_store": FILE | {"contents": {"run": "active"}}},
        {"job": MLFLOW, "environment": {RUN: "a" * 32}, "mlflow_store": {}},
    ],
    bad=[
        {"job": MLFLOW, "environment": {RUN: "a" * 32}, "mlflow_store": FILE | {"contents": {"run": "missing"}}},
        {"job": MLFLOW, "environment": {RUN: "a" * 32}, "mlflow_store": FILE | {"contents": {"run": "deleted"}}},
    ],
)
def mlflow_run_unusable(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """The run in MLFLOW_RUN_ID does not exist in this store, or was deleted.

    verl attaches to that run since 0.7.0. MLflow raises, verl tries three times and trains on without MLflow.

    Fix: unset MLFLOW_RUN_ID, or name an active run of this store.

    See: verl 0.9.1 verl/utils/tracking.py
         mlflow 3.17.2 (measured)
    """
    if tracks(job):
        yield from _run_findings(_known(mlflow_store).contents, environment, mlflow_store.place.path)


@check(
    "MLFLOW078",
    "mlflow-store-run-conflict",
    tags={"logger", "mlflow", "resume", "store", "offline"},
    good=[
        {"job": MLFLOW, "environment": {RUN: "a" * 32}, "mlflow_store": FILE | {"contents": {"run": "active"}}},
        {"job": MLFLOW, "mlflow_store": READY},
    ],
    bad=[
        {
            "job": MLFLOW,
            "environment": {RUN: "a" * 32},
            "mlflow_store": FILE
            | {"contents": {"run": "active", "conflicts": [{"key": "trainer/total_epochs", "stored": "10", "now": "20"}]}},
        }
    ],
)
def mlflow_run_parameters_conflict(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """The run in MLFLOW_RUN_ID has parameters with other values than this job.

    verl logs its whole configuration as parameters, and MLflow never changes one: "Changing param values is not allowed". The
    first attempt fails after the run was resumed; the next two fail with "Run with UUID ... is already active", which hides the
    cause, and verl trains on without MLflow. Raising `trainer.total_epochs` for a resumed training is enough.

    Fix: unset MLFLOW_RUN_ID, so that the resumed training gets a run of its own.

    See: verl 0.9.1 verl/utils/tracking.py
         https://github.com/mlflow/mlflow/issues/7152
    """
    if tracks(job):
        yield from _conflict_findings(_known(mlflow_store).contents, environment)


def _sets_experiment(job: Job, environment: Environment) -> bool:
    """Whether an experiment is chosen by name: always for traces, and for a logger without a given run. Raises Undetermined."""
    if trace_backend(job) == "mlflow":
        return True
    return logs_to(job, "mlflow") and not (environment.text(RUN) and job.verl.release >= (0, 7))


def _experiment_findings(job: Job, environment: Environment, contents: Contents, name: str) -> Iterator[Finding]:
    if contents.experiment == "deleted" and _sets_experiment(job, environment):
        yield finding(
            'the experiment "{project}" was deleted in {name}, and MLflow refuses it while it lies in the trash',
            at=job.settings.get("trainer.project_name"),
            fix="Restore it, choose another project name, or empty the trash with `mlflow gc`",
            project=job.get("trainer.project_name"),
            name=name,
        )


@check(
    "MLFLOW079",
    "mlflow-store-experiment-deleted",
    tags={"logger", "mlflow", "names", "store", "offline"},
    good=[
        {"job": MLFLOW, "mlflow_store": READY},
        {
            "job": MLFLOW,
            "environment": {RUN: "a" * 32},
            "mlflow_store": FILE | {"contents": {"experiment": "deleted", "run": "active"}},
        },
    ],
    bad=[
        {"job": MLFLOW | {"trainer.project_name": "p"}, "mlflow_store": FILE | {"contents": {"experiment": "deleted"}}},
        {"job": TRACED | {"trainer.project_name": "p"}, "mlflow_store": FILE | {"contents": {"experiment": "deleted"}}},
    ],
)
def mlflow_experiment_deleted(job: Job, environment: Environment, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """The MLflow experiment of this project name was deleted.

    Deleting an experiment in MLflow only marks it, and its name stays taken: "Cannot set a deleted experiment as the active
    experiment". verl 0.7.1 and later train on without MLflow; with rollout traces the job stops.

    Fix: restore the experiment, remove it for good with `mlflow gc`, or choose another `trainer.project_name`.

    See: https://github.com/mlflow/mlflow/issues/6445
    """
    store = _known(mlflow_store)
    yield from _experiment_findings(job, environment, store.contents, store.place.path)


@check(
    "MLFLOW080",
    "mlflow-artifacts-not-writable",
    tags={"logger", "mlflow", "generations", "disk", "offline"},
    severity=Severity.WARNING,
    good=[
        {"job": MLFLOW | {"trainer.log_val_generations": 5}, "mlflow_store": READY},
        {
            "job": MLFLOW | {"trainer.log_val_generations": 0},
            "mlflow_store": FILE | {"contents": {"artifacts": {"path": "/old/mlruns/1", "writable": False}}},
        },
        {
            "job": MLFLOW | {"trainer.log_val_generations": 5},
            "mlflow_store": FILE | {"contents": {"artifacts": {"path": "/old/mlruns/1"}}},
        },
    ],
    bad=[
        {
            "job": MLFLOW | {"trainer.log_val_generations": 5, "trainer.project_name": "p"},
            "mlflow_store": FILE
            | {
                "contents": {
                    "artifacts": {"path": "/old/mlruns/1", "writable": False, "obstacle": "/old may not be written to"}
                }
            },
        }
    ],
)
def mlflow_artifacts_not_writable(job: Job, mlflow_store: MlflowStore) -> Iterator[Finding]:
    """The folder in which MLflow keeps the files of this experiment cannot be written to.

    It was fixed when the experiment was made: `mlruns` in the working directory of that process, which under Ray can be a
    folder of a session that is gone, or of another user. Metrics arrive; the validation generations do not, and verl only
    prints a warning.

    Fix: use another project name, or move the experiment's artifact_location to a folder that the job may write to.

    See: mlflow 3.17.2 (measured)
         verl 0.9.1 verl/utils/tracking.py, `log_generations_to_mlflow`
    """
    folder = _known(mlflow_store).contents.artifacts
    wanted = job.get("trainer.log_val_generations", 0)
    if folder is None or folder.writable or not wanted or "mlflow" not in generation_sinks(job) or validations(job) == 0:
        return
    yield finding(
        'files of the experiment "{project}" go to {path}, which cannot be written to ({obstacle}): the generations are lost',
        at=job.settings.get("trainer.project_name"),
        fix="Use another project name, whose files go to a folder of this job",
        project=job.get("trainer.project_name"),
        path=folder.path,
        obstacle=folder.obstacle,
    )


_UNREACHABLE = {
    "dns": "the name of the database server {server} cannot be resolved",
    "refused": "nothing listens at the database server {server}",
    "unreachable": "there is no way to the database server {server}",
    "no-answer": "the database server {server} does not answer",
    "tls": "the database server {server} and the client do not agree on encryption: {text}",
    "starting": "the database server {server} is not ready: {text}",
    "too-many": "the database server {server} takes no more connections: {text}",
    "connect": "no connection to the database server {server}: {text}",
    "query": "the database server {server} broke off: {text}",
}


@check(
    "MLFLOW002",
    "mlflow-database-unreachable",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED},
        {"job": MLFLOW, "mlflow_database": {}},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": "login"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": cause, "text": "so it says"}}
        for cause in _UNREACHABLE
    ],
)
def mlflow_database_unreachable(environment: Environment, job: Job, mlflow_database: MlflowDatabase) -> Iterator[Finding]:
    """The database server of MLFLOW_TRACKING_URI cannot be reached.

    MLflow tries ten times, which takes about 100 seconds whatever the cause, and 20 minutes and more when the server is silent.
    verl does that three times, with all GPUs waiting, and then trains on without MLflow; with rollout traces the job stops.

    Fix: start the database, or correct its address.

    See: mlflow 3.17.2 store/db/utils.py, `create_sqlalchemy_engine_with_retry` (measured)
    """
    template = _UNREACHABLE.get(_answered(mlflow_database).cause)
    if template:
        yield finding(
            template,
            at=_at(environment, job),
            fix="Start the database, or correct its address in MLFLOW_TRACKING_URI",
            server=mlflow_database.server,
            text=mlflow_database.text,
        )


@check(
    "MLFLOW081",
    "mlflow-database-login-refused",
    tags={"logger", "mlflow", "store", "secrets"},
    good=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": "refused"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": cause}}
        for cause in ("login", "host-refused", "database-refused")
    ],
)
def mlflow_database_login_refused(environment: Environment, job: Job, mlflow_database: MlflowDatabase) -> Iterator[Finding]:
    """The database server refuses the user of MLFLOW_TRACKING_URI.

    MLflow does not tell a wrong password from a server that is down: it tries ten times, about 100 seconds, and verl does that
    three times before it trains on without MLflow. A password with characters such as @, / or # must be percent-encoded.

    Fix: correct user and password, or let the server accept this host.

    See: mlflow 3.17.2 store/db/utils.py (measured with PostgreSQL)
    """
    cause = _answered(mlflow_database).cause
    if cause == "login":
        template = "the database server {server} refuses the user {user}: wrong name or password"
    elif cause == "host-refused":
        template = "the database server {server} accepts no connection of the user {user} from this machine"
    elif cause == "database-refused":
        template = "the user {user} may not use the database {database} of {server}"
    else:
        return
    yield finding(
        template,
        at=_at(environment, job),
        fix="Correct user and password in MLFLOW_TRACKING_URI, or the rights on the server",
        server=mlflow_database.server,
        user=mlflow_database.user or "-",
        database=mlflow_database.database,
    )


@check(
    "MLFLOW082",
    "mlflow-database-missing",
    tags={"logger", "mlflow", "store"},
    good=[{"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED}],
    bad=[{"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": "no-database"}}],
)
def mlflow_database_missing(environment: Environment, job: Job, mlflow_database: MlflowDatabase) -> Iterator[Finding]:
    """The database in MLFLOW_TRACKING_URI does not exist on its server.

    MLflow makes tables, not databases. It tries ten times, about 100 seconds, and verl does that three times before it trains
    on without MLflow.

    Fix: create the database, or correct its name.

    See: mlflow 3.17.2 store/db/utils.py (measured with PostgreSQL)
    """
    if _answered(mlflow_database).cause == "no-database":
        yield finding(
            "the server {server} has no database {database}",
            at=_at(environment, job),
            fix="Create the database, or correct its name in MLFLOW_TRACKING_URI",
            server=mlflow_database.server,
            database=mlflow_database.database,
        )


@check(
    "MLFLOW083",
    "mlflow-database-not-writable",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"may_create": False}},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": "login"}},
    ],
    bad=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"read_only": True}},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"unwritable": ["runs", "metrics"]}},
        {
            "job": MLFLOW,
            "environment": POSTGRES,
            "mlflow_database": SERVED | {"may_create": False, "contents": {"schema": "empty"}},
        },
    ],
)
def mlflow_database_not_writable(environment: Environment, job: Job, mlflow_database: MlflowDatabase) -> Iterator[Finding]:
    """The user of MLFLOW_TRACKING_URI may not write to MLflow's tables, or not make them.

    A replica, a user for reading, or PostgreSQL 15 and later, where nobody but the owner may make tables in the schema
    `public`. MLflow connects, and then raises on the first write; verl trains on without it.

    Fix: use the primary server, and a user with the rights to insert, and to create while there are no tables yet.

    See: https://www.postgresql.org/docs/15/release-15.html
    """
    database = _answered(mlflow_database)
    needs_tables = database.contents.schema in {"empty", "upgraded"}
    if database.cause != "ok":
        return
    if database.read_only:
        template = "the database server {server} takes no changes: it is a replica, or set to read only"
    elif database.unwritable:
        template = "the user {user} may not insert into {tables} of the database {database}"
    elif needs_tables and not database.may_create:
        template = "the database {database} lacks tables of MLflow, and the user {user} may not create them"
    else:
        return
    yield finding(
        template,
        at=_at(environment, job),
        fix="Use the primary server and a user with the rights to insert and to create tables",
        server=database.server,
        user=database.user or "-",
        tables=", ".join(database.unwritable),
        database=database.database,
    )


@check(
    "MLFLOW084",
    "mlflow-database-schema-mismatch",
    tags={"logger", "mlflow", "store"},
    good=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"contents": {"schema": "empty"}}},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": "login"}},
    ],
    bad=[
        {
            "job": MLFLOW,
            "environment": POSTGRES,
            "mlflow_database": SERVED | {"contents": {"schema": schema, "revision": "0584bdc529eb"}},
        }
        for schema in ("older", "newer", "upgraded", "unfinished", "foreign")
    ],
)
def mlflow_database_schema_mismatch(
    environment: Environment, job: Job, packages: Packages, mlflow_database: MlflowDatabase
) -> Iterator[Finding]:
    """The tables in the database of MLFLOW_TRACKING_URI do not fit the installed MLflow.

    MLflow insists on the newest revision that it knows. An older database must be upgraded, a newer one needs a newer mlflow.
    On MySQL a migration that broke off leaves tables behind, on which every later one fails. verl trains on without MLflow;
    with rollout traces the job stops.

    Fix: run `mlflow db upgrade` on an older database, upgrade mlflow for a newer one, restore a copy of a half migrated one.

    See: mlflow 3.17.2 store/db/utils.py, `_verify_schema`
         https://github.com/mlflow/mlflow/issues/23721
    """
    database = _answered(mlflow_database)
    if database.cause != "ok":
        return
    schema = _schema(database.contents)
    if schema in {"unfinished", "foreign"}:
        yield finding(
            "a migration of the database {name} broke off at revision {revision}: every MLflow client fails on it from now on"
            if schema == "unfinished"
            else "the database {name} has tables of another program with the names of MLflow's",
            at=_at(environment, job),
            fix="Restore a copy, or use a database of its own for MLflow",
            name=database.database,
            revision=database.contents.revision or "0",
        )
        return
    yield from _schema_findings(database.contents, database.database, UPGRADE_SERVER, _at(environment, job), packages)


@check(
    "MLFLOW085",
    "mlflow-database-made-by-many",
    tags={"logger", "mlflow", "store", "traces"},
    severity=Severity.WARNING,
    good=[
        {"job": TRACED, "environment": POSTGRES, "mlflow_database": SERVED},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"contents": {"schema": "empty"}}},
        {"job": TRACED, "environment": POSTGRES, "mlflow_database": SERVED | {"cause": "refused"}},
    ],
    bad=[
        {"job": TRACED, "environment": POSTGRES, "mlflow_database": SERVED | {"contents": {"schema": schema}}}
        for schema in ("empty", "upgraded")
    ],
)
def mlflow_database_made_by_many(environment: Environment, job: Job, mlflow_database: MlflowDatabase) -> Iterator[Finding]:
    """Several workers will make or upgrade the tables of one database at once.

    With rollout traces each agent loop worker opens the store by itself. On a database without tables the ones that come second
    raise, on PostgreSQL with a UniqueViolation, and an error in a worker ends the job.

    Fix: let one process prepare the store before the launch, with `verl-doctor prepare` or `mlflow db upgrade`.

    See: mlflow 3.17.2 store/tracking/sqlalchemy_store.py (measured with PostgreSQL)
         https://github.com/mlflow/mlflow/issues/19299
    """
    database = _answered(mlflow_database)
    if database.cause == "ok" and _schema(database.contents) in {"empty", "upgraded"} and openers(job) > 1:
        yield finding(
            "{count} workers will open the database {name} at once, and each will try to make or upgrade its tables",
            at=_at(environment, job),
            fix="Prepare the store before the launch",
            commands=[UPGRADE_SERVER],
            count=openers(job),
            name=database.database,
        )


@check(
    "MLFLOW086",
    "mlflow-database-run-unusable",
    tags={"logger", "mlflow", "resume", "store"},
    good=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED},
        {
            "job": MLFLOW,
            "environment": POSTGRES | {RUN: "a" * 32},
            "mlflow_database": SERVED | {"contents": {"schema": "current", "run": "active"}},
        },
    ],
    bad=[
        {"job": MLFLOW, "environment": POSTGRES | {RUN: "a" * 32}, "mlflow_database": SERVED | {"contents": contents}}
        for contents in (
            {"run": "missing"},
            {"run": "deleted"},
            {"run": "active", "conflicts": [{"key": "trainer/total_epochs", "stored": "10", "now": "20"}]},
        )
    ],
)
def mlflow_database_run_unusable(job: Job, environment: Environment, mlflow_database: MlflowDatabase) -> Iterator[Finding]:
    """The run in MLFLOW_RUN_ID cannot take what this job logs.

    It does not exist in the database, was deleted, or has parameters with other values, which MLflow never changes. verl tries
    three times and trains on without MLflow.

    Fix: unset MLFLOW_RUN_ID, so that the training gets a run of its own.

    See: verl 0.9.1 verl/utils/tracking.py
         https://github.com/mlflow/mlflow/issues/7152
    """
    if tracks(job):
        database = _answered(mlflow_database)
        yield from _run_findings(database.contents, environment, database.database)
        yield from _conflict_findings(database.contents, environment)


@check(
    "MLFLOW087",
    "mlflow-database-experiment-deleted",
    tags={"logger", "mlflow", "names", "store"},
    good=[
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED},
        {"job": MLFLOW, "environment": POSTGRES, "mlflow_database": SERVED | {"contents": {"experiment": "active"}}},
    ],
    bad=[
        {
            "job": MLFLOW | {"trainer.project_name": "p"},
            "environment": POSTGRES,
            "mlflow_database": SERVED | {"contents": {"experiment": "deleted"}},
        }
    ],
)
def mlflow_database_experiment_deleted(
    job: Job, environment: Environment, mlflow_database: MlflowDatabase
) -> Iterator[Finding]:
    """The experiment of this project name was deleted in MLflow's database.

    Deleting an experiment only marks it, and its name stays taken. verl 0.7.1 and later train on without MLflow; with rollout
    traces the job stops.

    Fix: restore the experiment, remove it for good with `mlflow gc`, or choose another `trainer.project_name`.

    See: https://github.com/mlflow/mlflow/issues/6445
    """
    database = _answered(mlflow_database)
    yield from _experiment_findings(job, environment, database.contents, database.database)
