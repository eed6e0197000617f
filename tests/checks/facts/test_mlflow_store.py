"""MLflow's databases, made by the real mlflow, and what the checks say of them before and after they are spoiled."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_stores import client_accepts, history, launch_request, make_at_revision

from verl_doctor.diagnosis import diagnose

CODES = ["mlflow_store", "MLFLOW002", "MLFLOW07", "MLFLOW08"]
TRACES = "actor_rollout_ref.rollout.trace.backend=mlflow"


def judge(folder, address, *overrides, **variables):
    """The codes that are found, without the notes, by code: their texts."""
    report = diagnose([launch_request(folder, address, *overrides, **variables)], CODES[1:])
    undecided = [f"{result.code}: {result.reason}" for result in report.results if result.state not in {"pass", "fail"}]
    assert not undecided, undecided
    return {result.code: result.message.text for result in report.findings}


def snapshot(folder):
    """Every file below a folder with its bytes and times."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns) for path in Path(folder).rglob("*")
    }


def change(path, *statements):
    with sqlite3.connect(path, isolation_level=None) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def test_a_good_store_yields_nothing_and_is_left_as_it_is(store, tmp_path):
    before = snapshot(tmp_path)
    assert judge(tmp_path, store.address) == {}
    assert judge(tmp_path, store.address, TRACES) == {}
    assert snapshot(tmp_path) == before


def test_the_installed_migrations_are_those_that_the_client_made(store):
    with sqlite3.connect(store.path) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [(history()[-1],)]


def test_a_missing_file_is_not_made(tmp_path, made_store):
    assert judge(tmp_path, f"sqlite:///{tmp_path}/new/m.db") == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("steps", "says"), [(-2, "refuses them until they are upgraded"), (None, "does not know and refuses")])
def test_a_revision_that_the_client_refuses(store, tmp_path, steps, says):
    revision = "0123456789ab" if steps is None else history()[steps]
    change(store.path, f"UPDATE alembic_version SET version_num = '{revision}'")
    found = judge(tmp_path, store.address)
    assert list(found) == ["MLFLOW070"]
    assert says in found["MLFLOW070"]
    assert not client_accepts(tmp_path, store.address)


def test_the_release_of_a_newer_database_is_named(store, tmp_path):
    change(store.path, "UPDATE alembic_version SET version_num = 'f4a9b2c7d1e6'")
    if "f4a9b2c7d1e6" in history():
        pytest.skip("the installed mlflow knows this revision")
    assert "mlflow 3.18.0" in judge(tmp_path, store.address)["MLFLOW070"]


def test_a_migration_that_broke_off(made_store, tmp_path):
    """As several processes leave it behind: an old revision and a table of the migration that was at work."""
    half = tmp_path / "half.db"
    make_at_revision(half, "a8c4a736bde6")
    change(half, "CREATE TABLE _alembic_tmp_latest_metrics (key TEXT)")
    before = snapshot(tmp_path)
    assert list(judge(tmp_path, f"sqlite:///{half}")) == ["MLFLOW071"]
    assert snapshot(tmp_path) == before
    assert not client_accepts(tmp_path, f"sqlite:///{half}")


def test_a_table_that_a_migration_has_still_to_make(made_store, tmp_path):
    """As MySQL leaves it behind, which cannot undo the half of a migration."""
    half = tmp_path / "half.db"
    make_at_revision(half, "bf29a5ff90ea")
    change(half, "CREATE TABLE secrets (secret_id TEXT)")
    assert list(judge(tmp_path, f"sqlite:///{half}")) == ["MLFLOW071"]
    assert not client_accepts(tmp_path, f"sqlite:///{half}")


@pytest.mark.parametrize("revision", ["acf3f17fdcc7", "0584bdc529eb", "bda7b8c39065"])
def test_an_older_database_that_the_client_upgrades_by_itself(made_store, tmp_path, revision):
    old = tmp_path / "old.db"
    make_at_revision(old, revision)
    found = judge(tmp_path, f"sqlite:///{old}")
    assert found["MLFLOW070"].startswith("the job upgrades the tables of")
    assert list(judge(tmp_path, f"sqlite:///{old}", TRACES)) == ["MLFLOW076", "MLFLOW070"]
    assert client_accepts(tmp_path, f"sqlite:///{old}")
    assert judge(tmp_path, f"sqlite:///{old}") == {}


def test_a_leftover_table_beside_current_tables_harms_nobody(store, tmp_path):
    change(store.path, "CREATE TABLE _alembic_tmp_latest_metrics (key TEXT)")
    assert judge(tmp_path, store.address) == {}
    assert client_accepts(tmp_path, store.address)


@pytest.mark.parametrize("table", ["metrics", "runs", "params", "tags", "experiments", "latest_metrics"])
def test_the_database_of_another_program(tmp_path, made_store, table):
    other = tmp_path / "other.db"
    change(other, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, x TEXT)")
    assert list(judge(tmp_path, f"sqlite:///{other}")) == ["MLFLOW072"]


def test_the_real_client_fails_on_the_database_of_another_program(tmp_path, made_store):
    change(tmp_path / "other.db", "CREATE TABLE metrics (id INTEGER PRIMARY KEY, x TEXT)")
    assert not client_accepts(tmp_path, f"sqlite:///{tmp_path}/other.db")


def test_a_database_without_the_names_of_mlflow_is_shared_in_peace(tmp_path, made_store):
    change(tmp_path / "other.db", "CREATE TABLE users (id INTEGER PRIMARY KEY)")
    assert judge(tmp_path, f"sqlite:///{tmp_path}/other.db") == {}
    assert client_accepts(tmp_path, f"sqlite:///{tmp_path}/other.db")


def test_not_a_database(tmp_path, made_store):
    (tmp_path / "text").write_text("text that is longer than a header")
    assert list(judge(tmp_path, f"sqlite:///{tmp_path}/text")) == ["MLFLOW072"]
    assert list(judge(tmp_path, f"sqlite:///{tmp_path}")) == ["MLFLOW072"]


def test_a_folder_that_is_a_file(tmp_path, made_store):
    (tmp_path / "file").write_text("x")
    found = judge(tmp_path, f"sqlite:///{tmp_path}/file/m.db")
    assert "is a file" in found["MLFLOW073"]


def test_an_empty_file_is_a_new_store_and_no_matter_for_one_process(tmp_path, made_store):
    (tmp_path / "m.db").touch()
    assert judge(tmp_path, f"sqlite:///{tmp_path}/m.db") == {}
    found = judge(tmp_path, f"sqlite:///{tmp_path}/m.db", TRACES)
    assert list(found) == ["MLFLOW076"]
    assert found["MLFLOW076"].startswith("8 workers")
    assert judge(tmp_path, f"sqlite:///{tmp_path}/m.db", TRACES, "actor_rollout_ref.rollout.agent.num_workers=1") == {}


def test_a_lock_that_lasts_is_told_from_one_that_passes(store, tmp_path):
    code = "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE')"
    hold = subprocess.Popen(
        [sys.executable, "-c", f"{code}; print('held', flush=True); time.sleep(float(sys.argv[2]))", str(store.path), "60"],
        stdout=subprocess.PIPE,
    )
    hold.stdout.readline()
    try:
        report = diagnose([launch_request(tmp_path, store.address)], CODES[1:])
    finally:
        hold.kill()
        hold.wait()
    locked = next(result for result in report.findings if result.code == "MLFLOW075")
    assert f"process {hold.pid} (" in locked.message.text
    assert {result.code for result in report.results if result.state == "unknown"} >= {"MLFLOW070", "MLFLOW071"}
    assert judge(tmp_path, store.address) == {}


def test_a_transaction_that_a_dying_process_left_is_not_touched(tmp_path, made_store):
    """Only a writer may roll it back: the file is not readable until then, which is said and not judged."""
    path = tmp_path / "m.db"
    code = """
import os, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("CREATE TABLE t (a)")
c.executemany("INSERT INTO t VALUES (?)", [("x" * 100,)] * 2000)
c.execute("PRAGMA cache_size = 5")
c.execute("BEGIN IMMEDIATE")
c.execute("UPDATE t SET a = a || 'y'")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert (tmp_path / "m.db-journal").stat().st_size > 0
    before = snapshot(tmp_path)
    report = diagnose([launch_request(tmp_path, f"sqlite:///{path}")], CODES[1:])
    assert report.findings == []
    assert any("cannot be read at this moment" in result.reason for result in report.results)
    assert snapshot(tmp_path) == before


def test_a_database_in_wal_mode_gets_no_files_beside_it(store, tmp_path):
    change(store.path, "PRAGMA journal_mode = WAL")
    before = snapshot(tmp_path)
    assert judge(tmp_path, store.address) == {}
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("run", "overrides", "codes"),
    [
        ("active", (), []),
        ("active", ("trainer.total_epochs=10",), []),
        ("active", ("trainer.total_epochs=20",), ["MLFLOW078"]),
        ("active", ("trainer.logger=[mlflow,console,file]",), ["MLFLOW078"]),
        ("active", ("trainer.logger=[mlflow,console]",), []),
        ("deleted", (), ["MLFLOW077"]),
        ("absent", (), ["MLFLOW077"]),
    ],
)
def test_the_run_that_verl_attaches_to(store, tmp_path, run, overrides, codes):
    run_id = {"active": store.run, "deleted": store.deleted_run, "absent": "f" * 32}[run]
    overrides = overrides or ("trainer.total_epochs=10", "trainer.logger=[mlflow,console]")
    if len(overrides) == 1 and "logger" not in overrides[0]:
        overrides = (*overrides, "trainer.logger=[mlflow,console]")
    found = judge(tmp_path, store.address, *overrides, MLFLOW_RUN_ID=run_id)
    assert list(found) == codes


def test_the_conflicting_values_are_named(store, tmp_path):
    overrides = ("trainer.total_epochs=20", "trainer.logger=[mlflow,console]")
    found = judge(tmp_path, store.address, *overrides, MLFLOW_RUN_ID=store.run)
    assert "trainer/total_epochs is 10 there and 20 here" in found["MLFLOW078"]


def test_a_deleted_experiment(store, tmp_path):
    assert list(judge(tmp_path, store.address, "trainer.project_name=gone")) == ["MLFLOW079"]
    assert not client_accepts(tmp_path, store.address, "gone")
    # A run that is given needs no experiment.
    overrides = ("trainer.project_name=gone", "trainer.total_epochs=10", "trainer.logger=[mlflow,console]")
    assert judge(tmp_path, store.address, *overrides, MLFLOW_RUN_ID=store.run) == {}


def test_artifacts_that_lie_where_nobody_may_write(store, tmp_path):
    (tmp_path / "file").write_text("x")
    change(store.path, f"UPDATE experiments SET artifact_location = '{tmp_path}/file/1' WHERE name = 'project'")
    assert judge(tmp_path, store.address) == {}
    found = judge(tmp_path, store.address, "trainer.log_val_generations=5", "trainer.test_freq=1")
    assert list(found) == ["MLFLOW080"]


def test_a_relative_path_is_that_of_the_process_that_logs(store, tmp_path):
    change(store.path, "UPDATE alembic_version SET version_num = '0123456789ab'")
    assert list(judge(tmp_path, "sqlite:///store/m.db")) == ["MLFLOW070"]


def test_nothing_is_claimed_of_a_file_of_another_machine(tmp_path, made_store):
    (tmp_path / "text").write_text("text that is longer than a header")
    asked = launch_request(tmp_path, f"sqlite:///{tmp_path}/text", RAY_ADDRESS="10.255.0.1:6379")
    report = diagnose([asked], CODES[1:])
    assert report.findings == []


AS_NOBODY = """
import os, sys
sys.path[:0] = sys.argv[3].split(":")
import test_mlflow_store as tests
def look():
    report = tests.diagnose([tests.launch_request(sys.argv[2], sys.argv[1])], ["MLFLOW073"])
    return {result.code: result.message.text for result in report.findings}
look()  # imports what another user may not be able to read
os.setgid(65534); os.setuid(65534)
print(look())
"""


def as_nobody(folder, address):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    path = ":".join([str(Path(__file__).parent), *(entry for entry in sys.path if entry)])
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, address, str(folder), path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def public_copy(store):
    folder = Path("/tmp") / f"verl-doctor-test-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    shutil.copy(store.path, folder / "m.db")
    return folder


def test_a_store_of_another_user(store):
    folder = public_copy(store)
    try:
        folder.chmod(0o777)
        (folder / "m.db").chmod(0o644)
        assert "m.db may not be written to by this user" in as_nobody(folder, f"sqlite:///{folder}/m.db")
        (folder / "m.db").chmod(0o666)
        assert "MLFLOW" not in as_nobody(folder, f"sqlite:///{folder}/m.db")
        folder.chmod(0o755)
        assert f"{folder} may not be written to by this user" in as_nobody(folder, f"sqlite:///{folder}/m.db")
        assert f"{folder} may not be written to by this user" in as_nobody(folder, f"sqlite:///{folder}/new/m.db")
    finally:
        shutil.rmtree(folder)


def test_a_read_only_mount(store, tmp_path):
    folder = str(store.path.parent)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
        found = judge(tmp_path, store.address)
    finally:
        subprocess.run(["umount", folder], check=True)
    assert "is on a read-only file system" in found["MLFLOW073"]
