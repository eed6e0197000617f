"""Makes an MLflow store ready, in the job's Python; see `ask_python`. Imports nothing of verl-doctor.

MLflow itself does not lock while it makes its tables (mlflow 3.17.2, store/tracking/sqlalchemy_store.py), so one lock is taken
around it: for sqlite on the folder of the file, on a database server one of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

LOCK_S = 100
_NAME = "verl-doctor prepare"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Makes tables and experiment. `made_experiment`: it was not there before. `error` is empty when all is well."""
    try:
        with _lock(request):
            return {"error": "", "made_experiment": _make(request["address"], request["project"])}
    except Exception as error:  # noqa: BLE001 - whatever MLflow or a driver raises is the answer
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0][:500]}


def _make(address: str, project: str) -> bool:
    mlflow: Any = importlib.import_module("mlflow")
    client = mlflow.MlflowClient(tracking_uri=address)
    if client.get_experiment_by_name(project) is not None:
        return False
    try:
        client.create_experiment(project)
    except mlflow.exceptions.MlflowException:
        # A server cannot be locked: somebody else may have been quicker.
        if client.get_experiment_by_name(project) is None:
            raise
        return False
    return True


@contextlib.contextmanager
def _lock(request: dict[str, Any]) -> Iterator[None]:
    if request["path"]:
        with _folder_lock(request["path"]):
            yield
    elif request["kind"] in {"postgresql", "mysql"}:
        with _server_lock(request["address"], request["kind"]):
            yield
    else:
        yield


@contextlib.contextmanager
def _folder_lock(path: str) -> Iterator[None]:
    """The folder itself is locked, which leaves nothing behind; where that is not possible, a file among temporary ones."""
    import fcntl

    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # network file systems lock files that are open for writing only
        os.close(descriptor)
        name = hashlib.sha256(path.encode()).hexdigest()[:16]
        descriptor = os.open(os.path.join(tempfile.gettempdir(), f"verl-doctor-{name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _server_lock(address: str, kind: str) -> Iterator[None]:
    sqlalchemy: Any = importlib.import_module("sqlalchemy")
    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.pool.NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if kind == "postgresql":
            key = int.from_bytes(hashlib.sha256(_NAME.encode()).digest()[:7], "big")
            connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": key})
        elif (
            connection.execute(sqlalchemy.text("SELECT GET_LOCK(:name, :limit)"), {"name": _NAME, "limit": LOCK_S}).scalar()
            != 1
        ):
            raise TimeoutError("somebody else is preparing the database")
        yield
