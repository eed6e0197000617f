"""Looks at a database server through SQLAlchemy, in the job's Python; see `ask_python`. Imports nothing of verl-doctor.

Everything happens in one read-only transaction. What comes back may quote the address: the caller scrubs it.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306}
_TIMEOUT_ARGUMENTS = {
    "psycopg2": ("connect_timeout",),
    "psycopg": ("connect_timeout",),
    "pymysql": ("connect_timeout", "read_timeout"),
    "mysqldb": ("connect_timeout", "read_timeout"),
    "pg8000": ("timeout",),
}
_MYSQL_CODES = {
    1040: "too-many",
    1044: "database-refused",
    1045: "login",
    1049: "no-database",
    1130: "host-refused",
    1698: "login",
}
_TEXTS = (
    ("timeout expired|timed out", "no-answer"),
    ("authentication failed|no password supplied", "login"),
    ("role .* does not exist", "login"),
    ("no pg_hba.conf entry", "host-refused"),
    ("permission denied for database", "database-refused"),
    ("database .* does not exist", "no-database"),
    ("too many|connection slots", "too-many"),
    ("starting up|shutting down", "starting"),
    ("SSL|certificate", "tls"),
)

Found = dict[str, Any]


class _Stopped(Exception):
    """How far it got is in what was found."""


def answer(request: Found) -> Found:
    """What was found: `cause` is `ok` or what went wrong, `text` says it in the words of the system or the driver."""
    begun = time.monotonic()
    found: Found = {"cause": "ok", "text": "", "host": "", "port": 0}
    with contextlib.suppress(_Stopped):
        _look(request, found)
    found["seconds"] = time.monotonic() - begun
    return found


def _stop(found: Found, cause: str, error: object) -> NoReturn:
    found["cause"] = cause
    found["text"] = str(error).strip().split("\n")[0][:300]
    raise _Stopped


def _look(request: Found, found: Found) -> None:
    try:
        sqlalchemy: Any = importlib.import_module("sqlalchemy")
    except ImportError as error:
        _stop(found, "no-sqlalchemy", error)
    try:
        url = sqlalchemy.engine.make_url(request["address"])
        driver = url.get_dialect().driver
    except Exception:  # noqa: BLE001 - whatever it raises, it may quote the password
        _stop(found, "address", "SQLAlchemy cannot read the address")
    limits = {name: request["timeout"] for name in _TIMEOUT_ARGUMENTS.get(driver, ()) if name not in url.query}
    arguments = request["arguments"] | limits
    found["kind"] = url.get_backend_name()
    try:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool, connect_args=arguments)
    except ImportError as error:
        _stop(found, "no-driver", error)
    _reach(url, found, request["timeout"])
    try:
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    except Exception as error:  # noqa: BLE001 - drivers have exceptions of their own
        _stop(found, _cause(error), getattr(error, "orig", None) or type(error).__name__)
    try:
        with connection:
            _read(sqlalchemy, connection, request, found)
    except Exception as error:  # noqa: BLE001 - drivers have exceptions of their own
        _stop(found, "query", getattr(error, "orig", None) or type(error).__name__)


def _reach(url: Any, found: Found, timeout: float) -> None:
    """Name and connection, so that the layer that fails is known; an address with several hosts or a socket is left out."""
    if not url.host or "host" in url.query or "unix_socket" in url.query:
        return
    found["host"], found["port"] = url.host, url.port or DEFAULT_PORTS[found["kind"]]
    try:
        addresses = socket.getaddrinfo(url.host, found["port"], type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        _stop(found, "dns", error)
    causes = [_connect(address, timeout / len(addresses)) for address in addresses]
    if all(causes):
        _stop(found, causes[-1], f"{url.host}:{found['port']}")


def _connect(address: Any, timeout: float) -> str:
    """Why no connection comes about, empty when one does."""
    family, kind, protocol, _, target = address
    try:
        with socket.socket(family, kind, protocol) as attempt:
            attempt.settimeout(timeout)
            attempt.connect(target)
    except TimeoutError:
        return "no-answer"
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return "unreachable"
    return ""


def _cause(error: Exception) -> str:
    original = getattr(error, "orig", None)
    code = original.args[0] if original is not None and original.args else None
    if isinstance(code, int) and code in _MYSQL_CODES:
        return _MYSQL_CODES[code]
    text = str(original or error)
    return next((cause for pattern, cause in _TEXTS if re.search(pattern, text)), "connect")


def _read(sqlalchemy: Any, connection: Any, request: Found, found: Found) -> None:
    def ask(statement: str, **values: Any) -> list[Any]:
        return list(connection.execute(sqlalchemy.text(statement), values).fetchall())

    if found["kind"] == "postgresql":
        connection.exec_driver_sql("BEGIN READ ONLY")
        connection.exec_driver_sql("SET LOCAL statement_timeout = '3s'")
    else:
        connection.exec_driver_sql("START TRANSACTION READ ONLY")
    inspector = sqlalchemy.inspect(connection)
    tables = set(inspector.get_table_names())
    found["tables"] = sorted(tables)
    found["misfits"] = [
        table
        for table, column in request["key_columns"].items()
        if table in tables and column not in {each["name"] for each in inspector.get_columns(table)}
    ]
    found["revisions"] = (
        [row[0] for row in ask("SELECT version_num FROM alembic_version")] if "alembic_version" in tables else []
    )
    rights = _postgres_rights(ask, request["written"], tables) if found["kind"] == "postgresql" else _mysql_rights(ask)
    found.update(rights)
    if set(request["key_columns"]) <= tables and not found["misfits"]:
        _read_runs(ask, request, found)


def _read_runs(ask: Callable[..., list[Any]], request: Found, found: Found) -> None:
    rows = ask("SELECT lifecycle_stage, artifact_location FROM experiments WHERE name = :n", n=request["project"])
    found["experiments"] = [list(row) for row in rows]
    if not request["run"]:
        return
    found["runs"] = [[row[0]] for row in ask("SELECT lifecycle_stage FROM runs WHERE run_uuid = :r", r=request["run"])]
    key = "`key`" if found["kind"] == "mysql" else "key"
    rows = ask(f"SELECT {key}, value FROM params WHERE run_uuid = :r", r=request["run"])  # noqa: S608
    found["parameters"] = {row[0]: row[1] for row in rows}


def _postgres_rights(ask: Callable[..., list[Any]], written: list[str], tables: set[str]) -> Found:
    """`unwritable` are tables that this user may not insert into."""
    read_only = ask("SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'")[0][0]
    unwritable = [
        table
        for table in written
        if table in tables and not ask("SELECT has_table_privilege(quote_ident(:t), 'INSERT')", t=table)[0][0]
    ]
    schema = ask("SELECT current_schema()")[0][0]
    may_create = bool(schema and ask("SELECT has_schema_privilege(:s, 'CREATE')", s=schema)[0][0])
    return {"read_only": bool(read_only), "unwritable": unwritable, "may_create": may_create}


def _mysql_rights(ask: Callable[..., list[Any]]) -> Found:
    """Grants are text: only a user who certainly may not insert anywhere is told from one who may."""
    grants = [str(row[0]).upper().partition(" TO ")[0] for row in ask("SHOW GRANTS FOR CURRENT_USER()")]
    through_role = any(" ON " not in grant for grant in grants)
    everything = any(grant.startswith("GRANT ALL PRIVILEGES") for grant in grants)
    may_insert = through_role or everything or any(re.search(r"\bINSERT\b", grant) for grant in grants)
    may_create = through_role or everything or any(re.search(r"\bCREATE(,| ON)", grant) for grant in grants)
    # An administrator may write to a server that is read-only for everybody else.
    powerful = any(" ON *.*" in grant and re.search("ALL PRIVILEGES|SUPER|READ.ONLY.ADMIN", grant) for grant in grants)
    read_only = bool(int(ask("SELECT @@global.read_only")[0][0])) and not powerful and not through_role
    return {"read_only": read_only, "unwritable": [] if may_insert else ["runs"], "may_create": may_create}
