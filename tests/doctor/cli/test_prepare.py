"""`verl-doctor prepare` with the real mlflow: what it makes, that it makes it once, and that many workers then get along."""

import os
import sqlite3
import subprocess
import sys

import pytest
from real_stores import client_accepts, has_module, make_at_revision, mlflow_python, start_client

needs_mlflow = pytest.mark.skipif(not mlflow_python(), reason="no Python with mlflow")


def start(folder, *words, **variables):
    command = ["--", mlflow_python() or sys.executable, "-m", "verl.trainer.main_ppo", "trainer.project_name=project", *words]
    options = [word for word in ("--dry-run",) if word in words]
    command = [word for word in command if word not in options]
    shell = {"PATH": os.environ["PATH"], "HOME": str(folder), "RAY_ADDRESS": "local", "LANG": "C.UTF-8"} | variables
    return subprocess.Popen(
        [sys.executable, "-m", "verl_doctor", "prepare", "--verl-version", "0.9.1", *options, *command],
        cwd=folder,
        env=shell,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def prepare(folder, *words, **variables):
    process = start(folder, *words, **variables)
    output, errors = process.communicate(timeout=150)
    assert "Traceback" not in errors, errors
    return process.returncode, output


def experiments(path):
    with sqlite3.connect(path) as database:
        return [name for (name,) in database.execute("SELECT name FROM experiments ORDER BY experiment_id")]


def names_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_folders_that_are_named_are_made_and_others_not(tmp_path):
    wanted = {"TENSORBOARD_DIR": "tb/x", "WANDB_DIR": "w", "VERL_FILE_LOGGER_PATH": f"{tmp_path}/logs/a.jsonl"}
    loggers = "trainer.logger=[console,wandb,tensorboard,file]"
    status, output = prepare(tmp_path, loggers, "--dry-run", **wanted)
    assert status == 0
    assert f"would make the folder {tmp_path}/logs (VERL_FILE_LOGGER_PATH)" in output
    assert names_in(tmp_path) == []
    status, output = prepare(tmp_path, loggers, **wanted)
    assert status == 0
    assert f"made the folder {tmp_path}/tb/x (TENSORBOARD_DIR)" in output
    assert names_in(tmp_path) == ["logs", "tb", "tb/x", "w", "w/wandb"]
    assert prepare(tmp_path, loggers, **wanted) == (0, "there is nothing to prepare\n")
    assert prepare(tmp_path, "trainer.logger=[console]", TENSORBOARD_DIR="other") == (0, "there is nothing to prepare\n")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    status, output = prepare(tmp_path, "trainer.logger=[tensorboard]", TENSORBOARD_DIR="file/tb")
    assert status == 1
    assert f"{tmp_path}/file is a file" in output


@needs_mlflow
def test_a_store_is_made_once_and_then_left_alone(tmp_path):
    address = f"sqlite:///{tmp_path}/new/m.db"
    mlflow = "trainer.logger=[mlflow]"
    status, output = prepare(tmp_path, mlflow, "--dry-run", MLFLOW_TRACKING_URI=address)
    assert status == 0
    assert output == f'would create MLflow\'s tables in {tmp_path}/new/m.db, and the experiment "project"\n'
    assert names_in(tmp_path) == []
    status, output = prepare(tmp_path, mlflow, MLFLOW_TRACKING_URI=address)
    assert (status, output) == (0, f'prepared {tmp_path}/new/m.db for the experiment "project"\n')
    assert names_in(tmp_path) == ["new", "new/m.db"]
    assert experiments(tmp_path / "new/m.db") == ["Default", "project"]
    before = (tmp_path / "new/m.db").read_bytes()
    assert prepare(tmp_path, mlflow, MLFLOW_TRACKING_URI=address) == (0, "there is nothing to prepare\n")
    assert (tmp_path / "new/m.db").read_bytes() == before
    assert client_accepts(tmp_path, address)


@needs_mlflow
def test_six_at_once_and_then_eight_clients_at_once(tmp_path):
    address = f"sqlite:///{tmp_path}/m.db"
    started = [start(tmp_path, "trainer.logger=[mlflow]", MLFLOW_TRACKING_URI=address) for _ in range(6)]
    outputs = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 6, outputs
    assert experiments(tmp_path / "m.db") == ["Default", "project"]
    clients = [start_client(tmp_path, address) for _ in range(8)]
    errors = [client.communicate(timeout=200)[1] for client in clients]
    assert [client.returncode for client in clients] == [0] * 8, errors
    assert experiments(tmp_path / "m.db") == ["Default", "project"]


@needs_mlflow
def test_an_older_store_is_upgraded_only_as_the_job_would(tmp_path):
    make_at_revision(tmp_path / "m.db", "0584bdc529eb")
    address = f"sqlite:///{tmp_path}/m.db"
    _, output = prepare(tmp_path, "trainer.logger=[mlflow]", "--dry-run", MLFLOW_TRACKING_URI=address)
    assert output.startswith("would upgrade MLflow's tables")
    status, _ = prepare(tmp_path, "trainer.logger=[mlflow]", MLFLOW_TRACKING_URI=address)
    assert status == 0
    assert experiments(tmp_path / "m.db") == ["Default", "project"]


@needs_mlflow
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE alembic_version SET version_num = '0123456789ab'", "its tables are of a newer mlflow"),
        ("UPDATE experiments SET lifecycle_stage = 'deleted' WHERE name = 'project'", "the experiment was deleted in it"),
    ],
)
def test_a_store_that_needs_a_decision_is_not_touched(store, tmp_path, statement, says):
    with sqlite3.connect(store.path) as database:
        database.execute(statement)
    before = store.path.read_bytes()
    status, output = prepare(tmp_path, "trainer.logger=[mlflow]", MLFLOW_TRACKING_URI=store.address)
    assert status == 1
    assert says in output
    assert store.path.read_bytes() == before


@needs_mlflow
@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_a_database_server_with_four_at_once(request, tmp_path, server):
    made = request.getfixturevalue(server)
    made.sql("CREATE DATABASE prepared")
    address = made.address("prepared")
    started = [start(tmp_path, "trainer.logger=[mlflow]", MLFLOW_TRACKING_URI=address) for _ in range(4)]
    outputs = [process.communicate(timeout=200)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4, outputs
    assert client_accepts(tmp_path, address)
    status, output = prepare(tmp_path, "trainer.logger=[mlflow]", MLFLOW_TRACKING_URI=address)
    assert (status, output) == (0, "there is nothing to prepare\n")


@needs_mlflow
@pytest.mark.skipif(bool(mlflow_python()) and not has_module("psycopg2"), reason="psycopg2 is not installed")
def test_a_server_that_is_down_is_said_without_its_password(tmp_path, closed_port):
    address = f"postgresql+psycopg2://u:S3cret-word@127.0.0.1:{closed_port}/m"
    status, output = prepare(tmp_path, "trainer.logger=[mlflow]", MLFLOW_TRACKING_URI=address)
    assert status == 1
    assert "cannot be prepared" in output
    assert "S3cret-word" not in output


def test_wrong_usage(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "verl_doctor", "prepare", "mlflow"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "is no override" in done.stderr
