"""How the installed MLflow would treat a database, read from its source files without importing it.

MLflow compares the tables of a database with those it knows, runs its migrations when some are missing, and then insists that
the revision is its own newest (mlflow 3.17.2, store/db/utils.py and store/tracking/sqlalchemy_store.py).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from verl_doctor_checks.facts.small_files import read_small

RELEASES = {
    "acf3f17fdcc7": "2.10.2",
    "4465047574b1": "2.16.2",
    "0584bdc529eb": "2.22.5",
    "bda7b8c39065": "3.1.4",
    "71994744cf8e": "3.4.0",
    "bf29a5ff90ea": "3.5.1",
    "1bd49d398cd23": "3.8.1",
    "1b5f0d9ad7c1": "3.10.1",
    "7d34483879f0": "3.12.0",
    "da6fb0208061": "3.13.0",
    "b7e4c1a90f23": "3.14.0",
    "6f8d9c3b2a1e": "3.15.2",
    "b7e2c1a4d9f3": "3.16.1",
    "dc11669786a5": "3.17.2",
    "f4a9b2c7d1e6": "3.18.0",
}
"""The newest revision of a release of MLflow: the first release in which it was seen (store/db_migrations of each wheel)."""

KEY_COLUMNS = {
    "experiments": "experiment_id",
    "runs": "run_uuid",
    "tags": "run_uuid",
    "metrics": "run_uuid",
    "params": "run_uuid",
}
"""The tables that MLflow makes before its migrations, and a column of each that no other program calls so
(mlflow 3.17.2, store/tracking/dbmodels/initial_models.py)."""

FIRST_TABLES = frozenset(KEY_COLUMNS)

_REVISION = re.compile(r"^revision\b[^=\n]*=\s*[\"'](\w+)[\"']", re.MULTILINE)
_PREVIOUS = re.compile(r"^down_revision\b[^=\n]*=\s*[\"'](\w+)[\"']", re.MULTILINE)
_CREATES = re.compile(r"op\.create_table\(\s*(?:[\"'](\w+)[\"']|(\w+)\.__tablename__)")
_MODEL = re.compile(r"^class (\w+)\(.*?^    __tablename__ = [\"'](\w+)[\"']", re.MULTILINE | re.DOTALL)
_KNOWN_TABLES = re.compile(r"^def _all_tables_exist\(.*?(?=^def )", re.MULTILINE | re.DOTALL)
_LOOKS_FIRST = re.compile(r"has_table|get_table_names|get_columns|drop_table")


class Migrations(msgspec.Struct, frozen=True, kw_only=True):
    """The migrations of an installed MLflow, oldest first, and the tables that it expects.

    `creates` are the tables that each one makes without looking whether they are there. `exact`: other tables besides the
    expected ones also make MLflow run its migrations.
    """

    history: tuple[str, ...]
    creates: dict[str, frozenset[str]]
    tables: frozenset[str]
    exact: bool

    @property
    def head(self) -> str:
        """The newest revision, on which MLflow insists."""
        return self.history[-1]


Schema = Literal["current", "empty", "upgraded", "older", "newer", "unfinished", "foreign"]
"""What MLflow makes of a database. `empty` and `upgraded`: it makes or migrates the tables when it opens it, `older`: it
refuses until `mlflow db upgrade` was run, `unfinished`: a migration broke off and cannot be taken up, `foreign`: it belongs to
another program."""


def judge(tables: Iterable[str], revision: str, misfits: Iterable[str], migrations: Migrations) -> Schema:
    """What MLflow makes of a database with these tables and this revision (empty when it has none).

    `misfits` are tables that have a name of `KEY_COLUMNS` and not its column. Each outcome was seen with the real client
    (mlflow 3.17.2, sqlite).
    """
    known = set(tables) - {"alembic_version"}
    if set(misfits):
        return "foreign"
    if revision and revision not in migrations.history:
        return "newer" if known >= FIRST_TABLES else "foreign"
    if revision == migrations.head:
        return "current" if known >= FIRST_TABLES else "foreign"
    if not revision and known & migrations.tables and not known >= FIRST_TABLES:
        return "foreign"
    if revision and not known >= FIRST_TABLES:
        return "unfinished"
    if not _migrates(known, migrations):
        return "older"
    left = {table for table in known if table.startswith("_alembic_tmp_")}
    pending = migrations.history[migrations.history.index(revision) + 1 :] if revision else migrations.history
    if left or any(migrations.creates.get(step, frozenset()) & known for step in pending):
        return "unfinished"
    return "upgraded" if revision or known & FIRST_TABLES else "empty"


def _migrates(tables: set[str], migrations: Migrations) -> bool:
    ours = {table for table in tables if not table.startswith("alembic_")}
    return ours != migrations.tables if migrations.exact else not migrations.tables <= ours


def release_of_revision(revision: str) -> str:
    """The first release of MLflow that was seen with this revision, empty when it is not known."""
    return RELEASES.get(revision, "")


def read_migrations(folders: Iterable[str]) -> Migrations | None:
    """The migrations of the MLflow in the first of these folders that has one; None when none has, or in an unknown form."""
    store = next((found for folder in folders if os.path.isdir(found := os.path.join(folder, "mlflow", "store"))), "")
    utils = _text(os.path.join(store, "db", "utils.py")) if store else ""
    expected = _KNOWN_TABLES.search(utils)
    if expected is None:
        return None
    names = _table_names(store)
    previous, creates = _read_versions(os.path.join(store, "db_migrations", "versions"), names)
    history = _in_order(previous)
    if not history:
        return None
    from_models = "Base.metadata.tables" in expected[0]
    used = names.values() if from_models else [names.get(name, "") for name in re.findall(r"(\w+)\.__tablename__", expected[0])]
    return Migrations(history=history, creates=creates, tables=frozenset(used) - {""}, exact="issubset" not in expected[0])


def _table_names(store: str) -> dict[str, str]:
    """The tables of MLflow's models by the name of their class."""
    paths = sorted(glob.glob(os.path.join(glob.escape(store), "*", "dbmodels", "models.py")))
    return {found[1]: found[2] for path in paths for found in _MODEL.finditer(_text(path))}


def _read_versions(folder: str, names: dict[str, str]) -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    previous: dict[str, str] = {}
    creates: dict[str, frozenset[str]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.py"))):
        text = _text(path)
        revision, before = _REVISION.search(text), _PREVIOUS.search(text)
        if revision is None:
            continue
        previous[revision[1]] = before[1] if before else ""
        upgrade = text.partition("def downgrade(")[0]
        if not _LOOKS_FIRST.search(upgrade):
            creates[revision[1]] = frozenset(found[1] or names.get(found[2], "") for found in _CREATES.finditer(upgrade)) - {""}
    return previous, creates


def _in_order(previous: dict[str, str]) -> tuple[str, ...]:
    """The revisions, oldest first; empty unless they are one chain."""
    following = {before: revision for revision, before in previous.items()}
    history: list[str] = []
    revision = following.get("", "")
    while revision and len(history) < len(previous):
        history.append(revision)
        revision = following.get(revision, "")
    return tuple(history) if len(history) == len(previous) else ()


def _text(path: str) -> str:
    file = read_small(path)
    return file.text if file else ""
