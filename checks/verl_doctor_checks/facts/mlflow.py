"""What MLflow finds in files: stored credentials, old runs in the working directory, the database of an sqlite address."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from verl_doctor.api import Environment, Job, fact
from verl_doctor_checks.facts.small_files import home_of, path_variable, read_netrc, resolve, why_unseen

DEFAULT_OF_VERL = "sqlite:////tmp/mlruns.db"
_SQLITE = "sqlite:///"
_MAX_ENTRIES = 2000


class MlflowFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Files that decide where MLflow logs and as whom. `unseen` says why they were not looked at.

    `file_store`: ./mlruns holds runs of the file store. `database_missing`: the sqlite file of the address does not exist.
    `netrc_machines`: the hosts of the netrc file, whose passwords requests prefers to MLflow's own.
    """

    unseen: str = ""
    credentials: str = ""
    netrc: str = ""
    netrc_machines: list[str] = msgspec.field(default_factory=list)
    file_store: bool = False
    database_missing: bool = False


def _example(plain: dict[str, Any] | None) -> MlflowFiles:
    return msgspec.convert(plain or {}, MlflowFiles)


@fact(example=_example)
def mlflow_files(job: Job, environment: Environment) -> MlflowFiles:
    """The files around MLflow (mlflow 3.17.2, utils/credentials.py and tracking/_tracking_service/utils.py)."""
    unseen = why_unseen(environment, ("HOME", "NETRC", "MLFLOW_TRACKING_URI"))
    if unseen:
        return MlflowFiles(unseen=unseen)
    home = home_of(environment)
    credentials = os.path.join(home, ".mlflow", "credentials")
    named = path_variable(environment, "NETRC")
    candidates = [resolve(named, home, job.directory)] if named else [f"{home}/.netrc", f"{home}/_netrc"]
    login = next((found for found in map(read_netrc, candidates) if found is not None), None)
    return MlflowFiles(
        credentials=credentials if os.path.isfile(credentials) else "",
        netrc=login.path if login else "",
        netrc_machines=[entry.machine for entry in login.entries] if login else [],
        file_store=_holds_file_store(resolve("mlruns", home, job.directory)),
        database_missing=_database_is_missing(environment, resolve(".", home, job.directory)),
    )


def _holds_file_store(folder: str) -> bool:
    """Whether MLflow takes the folder for a file store: it has an experiment with a `meta.yaml`."""
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False):
                if entry.name.isdigit() and os.path.lexists(os.path.join(entry.path, "meta.yaml")):
                    return True
    except OSError:
        return False
    return False


def _database_is_missing(environment: Environment, directory: str) -> bool:
    address = path_variable(environment, "MLFLOW_TRACKING_URI") or DEFAULT_OF_VERL
    if not address.startswith(_SQLITE) or address.endswith(":memory:"):
        return False
    path = address[len(_SQLITE) :].partition("?")[0]
    return not os.path.exists(os.path.join(directory, path))
