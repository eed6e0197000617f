"""MLflow on real PostgreSQL and MariaDB servers, and on servers that are not there."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from real_stores import Store, has_module, history, launch_request, mlflow_python

from verl_doctor.diagnosis import diagnose

CODES = ["MLFLOW002", "MLFLOW081", "MLFLOW082", "MLFLOW083", "MLFLOW084", "MLFLOW085", "MLFLOW086", "MLFLOW087"]
TRACES = "actor_rollout_ref.rollout.trace.backend=mlflow"
PASSWORD = "S3cret-of-the-database"

pytestmark = pytest.mark.skipif(not mlflow_python(), reason="no Python with mlflow")


def judge(folder, address, *overrides, **variables):
    report = diagnose([launch_request(folder, address, *overrides, **variables)], CODES)
    undecided = [f"{result.code}: {result.reason}" for result in report.results if result.state not in {"pass", "fail"}]
    assert not undecided, undecided
    return {result.code: result.message.text for result in report.findings}


@pytest.fixture(scope="session", params=["postgres", "mariadb"])
def made(request, tmp_path_factory):
    """A server with a database that mlflow has made, and the store."""
    server = request.getfixturevalue(request.param)
    server.sql("CREATE DATABASE made")
    store = Store(tmp_path_factory.mktemp(request.param), server.address("made"))
    store.server = server
    return store


def test_a_good_database_yields_nothing(made, tmp_path):
    begun = time.monotonic()
    assert judge(tmp_path, made.address) == {}
    assert judge(tmp_path, made.address, TRACES) == {}
    assert time.monotonic() - begun < 10


def test_the_run_and_the_experiment(made, tmp_path):
    same = ("trainer.total_epochs=10", "trainer.logger=[mlflow,console]")
    assert judge(tmp_path, made.address, *same, MLFLOW_RUN_ID=made.run) == {}
    other = ("trainer.total_epochs=20", "trainer.logger=[mlflow,console]")
    assert "is 10 there and 20 here" in judge(tmp_path, made.address, *other, MLFLOW_RUN_ID=made.run)["MLFLOW086"]
    assert "was deleted" in judge(tmp_path, made.address, *same, MLFLOW_RUN_ID=made.deleted_run)["MLFLOW086"]
    assert "does not exist" in judge(tmp_path, made.address, *same, MLFLOW_RUN_ID="f" * 32)["MLFLOW086"]
    assert list(judge(tmp_path, made.address, "trainer.project_name=gone")) == ["MLFLOW087"]


def test_a_wrong_password_is_not_shown_anywhere(made, tmp_path):
    address = made.server.address(
        "made", user="root" if "mysql" in made.address else "admin", password=PASSWORD, host="localhost"
    )
    report = diagnose([launch_request(tmp_path, address)], CODES)
    assert [result.code for result in report.findings] == ["MLFLOW081"]
    assert "wrong name or password" in report.findings[0].message.text
    assert PASSWORD not in str(report)


def test_no_such_database(made, tmp_path):
    assert list(judge(tmp_path, made.server.address("absent"))) == ["MLFLOW082"]


def test_an_empty_database(made, tmp_path):
    made.server.sql("CREATE DATABASE fresh")
    assert judge(tmp_path, made.server.address("fresh")) == {}
    assert list(judge(tmp_path, made.server.address("fresh"), TRACES)) == ["MLFLOW085"]


def test_other_revisions(postgres, tmp_path):
    postgres.sql("CREATE DATABASE revised")
    Store(tmp_path, postgres.address("revised"))
    postgres.sql(f"UPDATE alembic_version SET version_num = '{history()[-2]}'", "revised")
    assert "until they are upgraded" in judge(tmp_path, postgres.address("revised"))["MLFLOW084"]
    postgres.sql("UPDATE alembic_version SET version_num = '0123456789ab'", "revised")
    assert "does not know" in judge(tmp_path, postgres.address("revised"))["MLFLOW084"]


def test_a_user_of_postgres_who_may_only_read(postgres, tmp_path):
    postgres.sql("CREATE DATABASE readable")
    Store(tmp_path, postgres.address("readable"))
    postgres.sql(
        f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", "readable"
    )
    found = judge(tmp_path, postgres.address("readable", "reader", PASSWORD, "localhost"))
    assert "may not insert into runs" in found["MLFLOW083"]
    postgres.sql("CREATE DATABASE bare")
    found = judge(tmp_path, postgres.address("bare", "reader", PASSWORD, "localhost"))
    assert "may not create them" in found["MLFLOW083"]
    postgres.sql("ALTER DATABASE readable SET default_transaction_read_only = on")
    assert "takes no changes" in judge(tmp_path, postgres.address("readable"))["MLFLOW083"]


def test_a_user_of_mariadb_who_may_only_read(mariadb, tmp_path):
    mariadb.sql("CREATE DATABASE readable")
    Store(tmp_path, mariadb.address("readable"))
    mariadb.sql(f"CREATE USER reader IDENTIFIED BY '{PASSWORD}'; GRANT SELECT ON readable.* TO reader")
    found = judge(tmp_path, mariadb.address("readable", "reader", PASSWORD, "localhost"))
    assert "may not insert into runs" in found["MLFLOW083"]
    mariadb.sql(f"CREATE USER writer IDENTIFIED BY '{PASSWORD}'; GRANT SELECT, INSERT, UPDATE, CREATE ON readable.* TO writer")
    assert judge(tmp_path, mariadb.address("readable", "writer", PASSWORD, "LOCALHOST")) == {}
    assert list(judge(tmp_path, mariadb.address("made_by_nobody", "reader", PASSWORD, "localhost"))) == ["MLFLOW081"]
    mariadb.sql("SET GLOBAL read_only = 1")
    try:
        assert "takes no changes" in judge(tmp_path, mariadb.address("readable", "writer", PASSWORD, "LOCALHOST"))["MLFLOW083"]
        assert judge(tmp_path, mariadb.address("readable")) == {}
    finally:
        mariadb.sql("SET GLOBAL read_only = 0")


def test_a_migration_of_mariadb_that_broke_off(mariadb, tmp_path):
    mariadb.sql("CREATE DATABASE half")
    Store(tmp_path, mariadb.address("half"))
    mariadb.sql("UPDATE half.alembic_version SET version_num = 'bf29a5ff90ea'; DROP TABLE half.label_schemas")
    assert "broke off" in judge(tmp_path, mariadb.address("half"))["MLFLOW084"]


def driver(name):
    return pytest.mark.skipif(
        bool(mlflow_python()) and not has_module(name), reason=f"{name} is not installed for the Python that has mlflow"
    )


DRIVERS = [pytest.param(f"{scheme}+{name}", marks=driver(name)) for scheme, name in (
    ("postgresql", "psycopg2"), ("postgresql", "psycopg"), ("mysql", "pymysql"),
)]  # fmt: skip


@pytest.mark.parametrize("scheme", DRIVERS)
def test_nothing_listens(closed_port, tmp_path, scheme):
    begun = time.monotonic()
    found = judge(tmp_path, f"{scheme}://u:{PASSWORD}@127.0.0.1:{closed_port}/m")
    assert found == {"MLFLOW002": f"nothing listens at the database server 127.0.0.1:{closed_port}"}
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("scheme", DRIVERS)
def test_a_server_that_accepts_and_says_nothing(tmp_path, scheme):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        held = []
        threading.Thread(target=lambda: held.append(silent.accept()), daemon=True).start()
        begun = time.monotonic()
        found = judge(tmp_path, f"{scheme}://u:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/m")
        assert "does not answer" in found["MLFLOW002"]
        assert time.monotonic() - begun < 7


@driver("psycopg2")
def test_a_name_that_does_not_exist(tmp_path):
    found = judge(tmp_path, f"postgresql+psycopg2://u:{PASSWORD}@no-such-host.invalid/m")
    assert found == {"MLFLOW002": "the name of the database server no-such-host.invalid:5432 cannot be resolved"}


@driver("psycopg2")
def test_offline_asks_nothing(tmp_path, closed_port):
    report = diagnose([launch_request(tmp_path, f"postgresql+psycopg2://u:w@127.0.0.1:{closed_port}/m")], CODES, offline=True)
    assert report.findings == []
    assert {result.state for result in report.results} == {"skip"}


@driver("psycopg2")
def test_the_password_is_in_no_command_line_and_no_child_is_left(tmp_path):
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def watch():
            connection, _ = silent.accept()
            seen.append([path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if is_readable(path)])
            time.sleep(1)
            connection.close()

        watcher = threading.Thread(target=watch)
        watcher.start()
        judge(tmp_path, f"postgresql+psycopg2://u:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/m")
        watcher.join()
    lines = b"\n".join(seen[0])
    assert b"server_script.py" in lines
    assert PASSWORD.encode() not in lines
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [pid for pid in children if b"server_script" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def is_readable(path):
    try:
        path.read_bytes()
    except OSError:  # it ended meanwhile
        return False
    return True


def test_a_driver_that_is_missing_is_left_to_the_check_of_packages(tmp_path):
    if has_module("pg8000"):
        pytest.skip("pg8000 is installed")
    report = diagnose([launch_request(tmp_path, "postgresql+pg8000://u:w@127.0.0.1/m")], CODES)
    assert report.findings == []
    assert any("pg8000" in result.reason for result in report.results)
