"""What `verl-doctor prepare` would make for a job: folders, the tables of MLflow, its experiment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from verl_doctor.api import Environment, Job, Packages, Request, Secret, Undetermined, capture, fact
from verl_doctor.job.packages import job_python
from verl_doctor.job.working_directory import logging_directory
from verl_doctor.prepare import CannotPrepare, Preparation, Step
from verl_doctor.report import Message
from verl_doctor.secrets import original, scrub
from verl_doctor.stores.child import NoAnswer, ask_python
from verl_doctor_checks.facts import mlflow_script
from verl_doctor_checks.facts.directories import Directory
from verl_doctor_checks.facts.mlflow import MlflowFiles
from verl_doctor_checks.facts.mlflow_store import Contents, MlflowDatabase, MlflowStore
from verl_doctor_checks.mlflow import URI, connects, kind_of, tracking_address

MAKE_S = 120.0
"""Seconds for one store, the wait for others who prepare it included."""
_FILE = "VERL_FILE_LOGGER_PATH"
_NOT_FOR_THE_CHILD = (URI, "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID")
_SCHEMA_REASONS = {
    "older": "its tables must be upgraded first with `mlflow db upgrade`",
    "newer": "its tables are of a newer mlflow",
    "unfinished": "a migration broke off in it",
    "foreign": "it belongs to another program",
}


@fact(timeout=10)
def preparation(
    *,
    request: Request,
    job: Job,
    environment: Environment,
    packages: Packages,
    mlflow_files: MlflowFiles,
    mlflow_store: MlflowStore,
    mlflow_database: MlflowDatabase,
    directories: list[Directory],
) -> Preparation:
    """The steps that are left to do, in order. Changes nothing."""
    steps: list[Step] = []
    refusals: list[Message] = []
    for directory in directories:
        _plan_folder(directory, steps, refusals)
    try:
        if connects(job):
            address = tracking_address(job, environment, packages, mlflow_files).strip()
            maker = _Maker(request, job, environment, address)
            maker.plan(mlflow_store, mlflow_database, steps, refusals)
    except Undetermined as error:
        refusals.append(Message("MLflow's store cannot be prepared from here: {reason}", {"reason": str(error)}))
    return Preparation(steps, refusals)


def _plan_folder(directory: Directory, steps: list[Step], refusals: list[Message]) -> None:
    place = directory.place
    if directory.named_by == URI or not directory.is_given:
        return
    if directory.unknown:
        values = {"name": directory.named_by, "reason": directory.unknown}
        refusals.append(Message("the folder of {name} cannot be prepared from here: {reason}", values))
        return
    path = os.path.dirname(place.path) if directory.named_by == _FILE else place.path
    if os.path.exists(path):
        return
    values = {"path": path, "name": directory.named_by, "reason": place.obstacle}
    if place.obstacle:
        refusals.append(Message("the folder {path} ({name}) cannot be made: {reason}", values))
        return
    planned = Message("make the folder {path} ({name})", values)
    done = Message("made the folder {path} ({name})", values)
    steps.append(Step(planned, done, lambda: _make_folder(path)))


def _make_folder(path: str) -> bool:
    existed = os.path.isdir(path)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise CannotPrepare(f"{path}: {error.strerror}") from None
    return not existed


class _Maker:
    """Plans the steps for MLflow's store, and makes it in the job's Python, which has the MLflow that will use it."""

    def __init__(self, request: Request, job: Job, environment: Environment, address: str) -> None:
        if environment.unseen:
            raise Undetermined(environment.unseen)
        self.kind = kind_of(address)
        self.address = original(URI, address) or ""
        if not self.address:
            raise Undetermined("the password in MLFLOW_TRACKING_URI is not known")
        self.project = str(job.get("trainer.project_name"))
        self.python = job_python(request, job)
        self.directory = logging_directory(request, job)
        self.environment = environment
        self.values: dict[str, Any] = {"store": address, "project": self.project}
        self.path = ""

    def plan(self, store: MlflowStore, database: MlflowDatabase, steps: list[Step], refusals: list[Message]) -> None:
        """Add what is left to do, or why it cannot be done. Raises Undetermined."""
        if self.kind == "sqlite" and store.state:
            self.path = self.values["store"] = store.place.path
        reason = _refusal(store, database)
        if reason:
            template = "MLflow's store {store} cannot be prepared: {reason}"
            refusals.append(Message(template, self.values | {"reason": reason}))
            return
        contents = store.contents if self.path else database.contents
        fresh = store.state in {"missing", "empty"} or contents.schema == "empty"
        if self.kind == "http":
            planned = 'create the experiment "{project}" at {store}, unless it is there'
        elif not (self.path or database.cause):
            return
        elif fresh:
            planned = 'create MLflow\'s tables in {store}, and the experiment "{project}"'
        elif contents.schema == "upgraded":
            planned = 'upgrade MLflow\'s tables in {store}, as the job would, and create the experiment "{project}"'
        elif contents.experiment == "active":
            return
        else:
            planned = 'create the experiment "{project}" in {store}'
        done = Message('prepared {store} for the experiment "{project}"', self.values)
        steps.append(Step(Message(planned, self.values), done, self.make))

    def make(self) -> bool:
        """Make the store. False when the experiment was there already. Raises CannotPrepare."""
        question = {"address": self.address, "path": self.path, "kind": self.kind, "project": self.project}
        password = self.address.partition("://")[2].rpartition("@")[0].partition(":")[2]
        if password:
            capture(unquote(password))
        script = Path(mlflow_script.__file__)
        variables = _variables(self.environment) | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
        try:
            found = ask_python(self.python, script, question, environment=variables, timeout=MAKE_S, directory=self.directory)
        except NoAnswer as error:
            raise CannotPrepare(f"{self.values['store']}: {error}") from None
        if found["error"]:
            raise CannotPrepare(scrub(f"{self.values['store']}: {found['error']}"))
        return bool(found["made_experiment"])


def _refusal(store: MlflowStore, database: MlflowDatabase) -> str:
    """Why the store should not be touched, empty when it may. Raises Undetermined."""
    if store.unknown or database.unknown:
        raise Undetermined(store.unknown or database.unknown)
    if store.state in {"folder", "other", "unreadable"}:
        return "it is not a database"
    if store.state and not store.place.writable:
        return store.place.obstacle
    if store.writer is not None:
        return "another process has locked it"
    if database.cause not in {"", "ok"}:
        return database.text or database.cause
    for contents in (store.contents, database.contents):
        reason = _contents_refusal(contents)
        if reason:
            return reason
    return "its tables may not be created by this user" if not database.may_create and _lacks_tables(database.contents) else ""


def _contents_refusal(contents: Contents) -> str:
    if contents.unknown:
        raise Undetermined(contents.unknown)
    if contents.experiment == "deleted":
        return "the experiment was deleted in it"
    return _SCHEMA_REASONS.get(contents.schema, "")


def _lacks_tables(contents: Contents) -> bool:
    return contents.schema in {"empty", "upgraded"}


def _variables(environment: Environment) -> dict[str, str]:
    """The variables of the job with their values, without those that name another store or run."""
    chosen: dict[str, str] = {}
    for name, variable in environment.variables.items():
        value = variable.value.reveal() if isinstance(variable.value, Secret) else original(name, variable.value)
        if value is not None and not variable.unknown and name not in _NOT_FOR_THE_CHILD:
            chosen[name] = value
    return chosen
