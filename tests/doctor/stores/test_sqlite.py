"""Reading sqlite files beside real writers, dead writers, and none."""

import os
import sqlite3
import subprocess
import sys
import time

import pytest

from verl_doctor.stores.sqlite import CannotRead, reading, state_of, steady_writer, writer_of

HOLD = """
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute(sys.argv[2])
c.execute("INSERT INTO t VALUES (2)")
print("held", flush=True)
sys.stdin.read()
c.execute("ROLLBACK")
"""


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "a #?%.db")  # characters that mean something in a URI
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (a)")
        made.execute("INSERT INTO t VALUES (1)")
    made.close()
    return path


@pytest.fixture
def hold(database):
    """Starts a process that keeps a transaction open."""
    started = []

    def start(statement="BEGIN IMMEDIATE"):
        words = [sys.executable, "-c", HOLD, database, statement]
        started.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        started[-1].stdout.readline()
        return started[-1]

    yield start
    for process in started:
        process.communicate()


def count(path):
    with reading(path) as connection:
        return connection.execute("SELECT count(*) FROM t").fetchone()[0]


def files(path):
    folder = os.path.dirname(path)
    return {name: open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder)}


def test_states(tmp_path, database):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("x" * 100)
    assert state_of(database) == "database"
    assert state_of(str(tmp_path / "empty")) == "empty"
    assert state_of(str(tmp_path / "text")) == "other"
    assert state_of(str(tmp_path / "none")) == "missing"
    assert state_of(str(tmp_path)) == "unreadable"


def test_reading_changes_nothing_and_cannot(database):
    before = files(database)
    assert count(database) == 1
    with pytest.raises(CannotRead, match="readonly"), reading(database) as connection:
        connection.execute("INSERT INTO t VALUES (3)")
    assert files(database) == before


def test_a_missing_file_is_not_made(tmp_path):
    with pytest.raises((CannotRead, FileNotFoundError)), reading(str(tmp_path / "none")) as connection:
        connection.execute("SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_no_writer(database):
    assert writer_of(database) is None
    assert steady_writer(database, 5) is None


@pytest.mark.skipif(sys.platform != "linux", reason="locks are asked for on Linux only")
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_writer_is_named_and_not_disturbed(database, hold, statement):
    process = hold(statement)
    assert writer_of(database) == process.pid
    assert steady_writer(database, 0.2) == process.pid
    process.communicate()
    assert process.returncode == 0
    assert writer_of(database) is None


def test_beside_a_transaction_that_has_written_nothing_yet_the_file_can_be_read(database, hold):
    hold("BEGIN IMMEDIATE")
    assert count(database) == 1


def test_an_exclusive_lock_is_said_at_once(database, hold):
    hold("BEGIN EXCLUSIVE")
    begun = time.monotonic()
    with pytest.raises(CannotRead, match="locked"):
        count(database)
    assert time.monotonic() - begun < 1


@pytest.mark.skipif(sys.platform != "linux", reason="locks are asked for on Linux only")
def test_a_lock_that_ends_is_no_steady_one(database, hold):
    process = hold()
    watched = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from verl_doctor.stores.sqlite import steady_writer; print(steady_writer(sys.argv[1], 20))",
            database,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    process.communicate()
    assert watched.communicate()[0].strip() == "None"


def test_wal_mode_without_a_writer_leaves_nothing_beside_the_file(database):
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    before = files(database)
    assert count(database) == 1
    assert files(database) == before


def test_wal_mode_with_a_writer_shows_its_last_commit(database):
    writer = sqlite3.connect(database)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO t VALUES (2)")
    writer.commit()
    names = set(files(database))
    assert count(database) == 2
    assert set(files(database)) == names
    writer.close()


def test_wal_mode_after_a_crash_is_not_recovered(database):
    crash = "c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA journal_mode = WAL'); c.execute('INSERT INTO t VALUES (2)')"
    program = f"import os, sqlite3, sys; {crash}; c.commit(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", program, database], check=False)
    os.remove(database + "-shm")
    before = files(database)
    with pytest.raises(CannotRead, match="not finished"):
        count(database)
    assert files(database) == before


def test_an_endless_query_is_stopped(database):
    begun = time.monotonic()
    with pytest.raises(CannotRead, match="interrupted"), reading(database) as connection:
        connection.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n").fetchone()
    assert time.monotonic() - begun < 6
