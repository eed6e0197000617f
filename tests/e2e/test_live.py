"""`check --live` with the real clients, in the Python that has them, against real stores and the doubles."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from doubles import SWANLAB_KEY, WANDB_KEY
from real_stores import Store, free_port, has_module, mlflow_python, wait_for_port

LOCAL = {
    "wandb": "wandb",
    "swanlab": "swanlab",
    "tensorboard": "torch.utils.tensorboard",
    "trackio": "trackio",
    "file": "orjson",
}

pytestmark = pytest.mark.skipif(not mlflow_python(), reason="no Python with the clients (VERL_DOCTOR_TEST_MLFLOW_PYTHON)")


def live(folder, loggers, *, project="project", **variables):
    """The report of `check live --live` for a job with these loggers."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "WANDB_ERROR_REPORTING": "false",
        "LANG": "C.UTF-8",
        "RAY_ADDRESS": "local",
    }
    job = ["--", mlflow_python(), "-m", "verl.trainer.main_ppo", f"trainer.logger={json.dumps(loggers)}"]
    options = ["--live", "--format", "json", "--verl-version", "0.9.1"]
    done = subprocess.run(
        [sys.executable, "-m", "verl_doctor", "check", "live", *options, *job, f"trainer.project_name={project}"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | variables,
        cwd=folder,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def found(report):
    return {(result["code"], result["target"]): result for result in report["results"] if result["state"] == "fail"}


def states(report):
    return {result["code"]: result["state"] for result in report["results"]}


def reason(report):
    """Why no run was made."""
    return next(result["reason"] for result in report["results"] if result["code"] == "LIVE001")


def needs(name):
    if not has_module(name):
        pytest.skip(f"{name} is not installed beside mlflow")


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*"))


def processes_of(folder):
    """Processes that have this folder in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or belongs to somebody else
            if str(folder).encode() in path.read_bytes():
                found.append((path.parent / "comm").read_text())
    return found


def temporary():
    return {path.name for path in Path("/tmp").glob("verl-doctor-live-*")}


@pytest.mark.parametrize("tracker", LOCAL)
def test_a_local_tracker_gives_back_what_it_got_and_keeps_nothing(tracker, tmp_path):
    needs(LOCAL[tracker].split(".")[0])
    before = temporary()
    report = live(tmp_path, [tracker], WANDB_MODE="offline", SWANLAB_MODE="offline")
    assert states(report) == dict.fromkeys(("LIVE001", "LIVE002", "LIVE003", "LIVE004"), "pass"), report["results"]
    assert tree(tmp_path) == []
    assert temporary() <= before


def test_mlflow_without_a_store_uses_one_of_its_own(tmp_path):
    report = live(tmp_path, ["mlflow"], MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/m.db")
    assert set(states(report).values()) == {"pass"}, report["results"]
    assert tree(tmp_path) == []


def test_mlflow_with_a_store_marks_its_run_as_deleted(store, tmp_path):
    report = live(tmp_path, ["mlflow"], MLFLOW_TRACKING_URI=store.address)
    assert set(found(report)) == {("LIVE003", "mlflow")}, report["results"]
    with sqlite3.connect(store.path) as database:
        stages = database.execute("SELECT lifecycle_stage FROM runs WHERE name LIKE 'verl-doctor-live-%'").fetchall()
    assert stages == [("deleted",)]


def mlflow_server(folder, store):
    port = free_port()
    store_options = ["--backend-store-uri", store.address, "--default-artifact-root", str(folder / "artifacts")]
    process = subprocess.Popen(
        [mlflow_python(), "-m", "mlflow", "server", "--port", str(port), "--workers", "1", *store_options],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "MLFLOW_DISABLE_TELEMETRY": "true"}
        | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert wait_for_port(port, process)
    return process, f"http://127.0.0.1:{port}"


@pytest.fixture
def served(store, tmp_path):
    """A real MLflow server on the store."""
    folder = tmp_path / "server"
    folder.mkdir()
    process, url = mlflow_server(folder, store)
    yield url
    os.killpg(process.pid, 15)
    process.wait(20)


def experiments(store):
    with sqlite3.connect(store.path) as database:
        return dict(database.execute("SELECT name, lifecycle_stage FROM experiments").fetchall())


def test_a_real_mlflow_server(served, store, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    report = live(home, ["mlflow"], MLFLOW_TRACKING_URI=served, MLFLOW_RUN_ID=store.run)
    assert set(found(report)) == {("LIVE003", "mlflow")}, report["results"]
    with sqlite3.connect(store.path) as database:
        touched = database.execute("SELECT count(*) FROM metrics WHERE run_uuid = ?", [store.run]).fetchone()
    assert touched == (0,)

    report = live(home, ["mlflow"], project="not-there-yet", MLFLOW_TRACKING_URI=served)
    assert set(found(report)) == {("LIVE003", "mlflow")}, report["results"]
    names = experiments(store)
    assert "not-there-yet" not in names
    assert [stage for name, stage in names.items() if name.startswith("verl-doctor-live-")] == ["deleted"]
    assert tree(home) == []


def test_a_real_postgres(postgres, tmp_path):
    postgres.sql("CREATE DATABASE live")
    address = postgres.address("live")
    report = live(tmp_path, ["mlflow"], MLFLOW_TRACKING_URI=address)
    assert "not ready" in reason(report)  # its tables are the job's to make, or those of `prepare`

    folder = tmp_path / "maker"
    folder.mkdir()
    Store(folder, address)
    report = live(tmp_path, ["mlflow"], MLFLOW_TRACKING_URI=address)
    assert set(found(report)) == {("LIVE003", "mlflow")}, report["results"]
    assert ":word@" not in json.dumps(report)


def test_a_dead_server_is_left_to_the_other_checks(tmp_path, closed_port):
    report = live(tmp_path, ["mlflow", "file"], MLFLOW_TRACKING_URI=f"http://127.0.0.1:{closed_port}")
    assert states(report)["LIVE001"] == "unknown"
    assert "cannot be reached" in reason(report)


def test_a_client_that_refuses_says_so_itself(tmp_path):
    needs("swanlab")
    report = live(tmp_path, ["swanlab"], project="bad name", SWANLAB_MODE="offline")
    failed = found(report)["LIVE001", "swanlab"]
    assert failed["severity"] == "error"
    assert "ValidationError" in failed["message"]
    assert "could not be started" in failed["message"]
    assert tree(tmp_path) == []


def test_wandb_online_reads_back_and_deletes(double, tmp_path):
    needs("wandb")
    server = double("wandb")
    variables = {"WANDB_API_KEY": WANDB_KEY, "WANDB_BASE_URL": server.url, "WANDB_RUN_ID": "of-the-job", "WANDB_RESUME": "must"}
    report = live(tmp_path, ["wandb"], **variables)
    assert set(states(report).values()) == {"pass"}, report["results"]
    assert {"val-core/x/acc/best@4/mean", "指标"} <= server.state["history"][0].keys()
    assert server.state["display name"].startswith("verl-doctor-live-")
    assert server.state["deleted"] == "UnVu"
    assert not [request for request in server.requests if "of-the-job" in request["path"]]
    assert WANDB_KEY not in json.dumps(report)
    assert tree(tmp_path) == []
    assert processes_of(tmp_path) == []


def test_swanlab_online_reads_back_and_deletes(double, tmp_path):
    needs("swanlab")
    server = double("swanlab")
    report = live(tmp_path, ["swanlab"], SWANLAB_API_KEY=SWANLAB_KEY, SWANLAB_API_HOST=server.url)
    assert set(states(report).values()) == {"pass"}, report["results"]
    assert server.state["experiment"]["name"].startswith("verl-doctor-live-")
    assert server.state["deleted"] == ["/api/project/ada/project/runs/ecuid"]
    assert SWANLAB_KEY not in json.dumps(report)
    assert tree(tmp_path) == []
    assert processes_of(tmp_path) == []


def test_a_key_that_is_refused_is_left_to_the_other_checks(double, tmp_path):
    server = double("wandb")
    report = live(tmp_path, ["wandb"], WANDB_API_KEY="b" * 40, WANDB_BASE_URL=server.url)
    assert states(report)["LIVE001"] == "unknown"
    assert not server.seen("UpsertBucket")
