"""The facts about files, with real files and a real git repository."""

import os
import subprocess

import msgspec
import pytest

from verl_doctor.job.model import Argument, Environment, Job, Request, Setting, Source, Variable
from verl_doctor.report import Location
from verl_doctor.secrets import capture
from verl_doctor_checks.facts.files import (
    MAX_FILE_BYTES,
    event_folder,
    is_tracked,
    line_with,
    log_file,
    submitted_variables,
    tracked_credentials,
    trackio_folder,
)

KEY = "0123456789abcdef0123456789abcdef01234567"
NAMES = {"trainer.project_name": "p", "trainer.experiment_name": "e"}


def job(tmp_path, **more):
    return Job.example({**NAMES, "directory": str(tmp_path), **more})


def environment(**variables):
    return Environment.example(variables)


def test_the_log_file_of_the_names(tmp_path):
    found = log_file(job(tmp_path), environment())
    assert (found.path, found.exists, found.folder_exists) == (f"{tmp_path}/./p/e.jsonl", False, False)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "e.jsonl").write_text("12345")
    found = log_file(job(tmp_path), environment())
    assert (found.exists, found.size, found.folder_exists, found.unknown) == (True, 5, True, "")


def test_the_root_and_the_path_of_the_log_file(tmp_path):
    assert log_file(job(tmp_path), environment(VERL_FILE_LOGGER_ROOT="/logs")).path == "/logs/p/e.jsonl"
    assert log_file(job(tmp_path), environment(VERL_FILE_LOGGER_ROOT="~/logs")).path == os.path.expanduser("~/logs/p/e.jsonl")
    assert log_file(job(tmp_path), environment(VERL_FILE_LOGGER_PATH="/x.jsonl")).path == "/x.jsonl"
    assert log_file(job(tmp_path), environment(VERL_FILE_LOGGER_PATH=str(tmp_path))).is_folder


def test_the_log_file_is_not_looked_at_where_the_job_does_not_run(tmp_path):
    assert log_file(job(tmp_path, launchers=["ray job submit"]), environment()).unknown
    assert log_file(job(tmp_path), environment(unseen="somebody else started Ray")).unknown
    assert log_file(job(tmp_path, unknown={"trainer.project_name": "set later"}), environment()).unknown


def test_a_job_that_joins_a_ray_node_works_in_the_folder_of_that_node(tmp_path):
    joined = environment(PWD=str(tmp_path / "ray"), left_behind={"PWD": str(tmp_path)})
    assert log_file(job(tmp_path), joined).path.startswith(str(tmp_path / "ray"))
    assert log_file(job(tmp_path, kind="sft"), joined).path.startswith(f"{tmp_path}/./p")


def test_event_files_are_counted_in_the_folder_itself(tmp_path):
    (tmp_path / "events.out.tfevents.1.host.2.0").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.out.tfevents.1.host.2.0").write_bytes(b"x")
    assert event_folder(job(tmp_path), environment(TENSORBOARD_DIR=str(tmp_path))).event_files == 1
    assert event_folder(job(tmp_path), environment(TENSORBOARD_DIR=str(tmp_path / "absent"))).event_files == 0
    assert event_folder(job(tmp_path), environment()).path == ""


def test_the_folder_of_trackio(tmp_path):
    assert trackio_folder(job(tmp_path), environment(TRACKIO_DIR=str(tmp_path / "a" / "b"))).writable
    (tmp_path / "file").write_text("x")
    assert not trackio_folder(job(tmp_path), environment(TRACKIO_DIR=str(tmp_path / "file" / "trackio"))).writable
    assert trackio_folder(job(tmp_path), environment(HF_HOME="/hf")).path == "/hf/trackio"
    assert trackio_folder(job(tmp_path), environment(HOME="/home/me")).path == "/home/me/.cache/huggingface/trackio"


def test_the_variables_of_a_submitted_job(tmp_path):
    words = ["ray", "job", "submit", "--runtime-env-json", '{"env_vars": {"B": "1", "A": "2"}}', "--"]
    command = [Argument(word) for word in (*words, "python3", "-m", "verl.trainer.main_ppo")]
    assert submitted_variables(Request(command=command), job(tmp_path)) == ["A", "B"]
    assert submitted_variables(Request(), job(tmp_path)) == []


def test_the_line_that_holds_a_text(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(f"#!/bin/bash\n\nexport WANDB_API_KEY={KEY}\n")
    assert line_with(str(path), KEY) == 3
    assert line_with(str(path), "something else") is None
    assert line_with(str(tmp_path / "absent"), KEY) is None
    assert line_with(str(tmp_path), KEY) is None
    path.write_text("x" * MAX_FILE_BYTES + KEY)
    assert line_with(str(path), KEY) is None


@pytest.fixture
def repository(tmp_path):
    try:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"git does not work here: {error}")
    return tmp_path


def track(repository, name):
    subprocess.run(["git", "-C", str(repository), "add", "-f", name], check=True, capture_output=True)


def with_key_at(path, line):
    variable = Variable("WANDB_API_KEY", capture(KEY), Source("script", "run.sh", Location(str(path), line)))
    return Environment(variables={"WANDB_API_KEY": variable})


def test_a_credential_in_a_tracked_file(repository):
    path = repository / "run.sh"
    path.write_text(f"export WANDB_API_KEY={KEY}\n")
    assert tracked_credentials(job(repository), with_key_at(path, 1)) == []
    track(repository, "run.sh")
    found = tracked_credentials(job(repository), with_key_at(path, 1))
    assert [(one.name, one.file, one.line) for one in found] == [("WANDB_API_KEY", str(path), 1)]
    assert KEY not in str(msgspec.json.encode(found))


def test_a_script_that_takes_the_credential_from_the_shell_does_not_hold_it(repository):
    path = repository / "run.sh"
    path.write_text("export WANDB_API_KEY=$WANDB_API_KEY\n")
    track(repository, "run.sh")
    assert tracked_credentials(job(repository), with_key_at(path, 1)) == []


def test_a_credential_of_the_configuration_in_a_tracked_file(repository):
    path = repository / "mine.yaml"
    path.write_text(f"judge:\n  api_key: {KEY}\n")
    track(repository, "mine.yaml")
    configured = job(repository)
    configured.settings["judge.api_key"] = Setting(
        "judge.api_key", capture(KEY), Source("config-file", "", Location(str(path), 2))
    )
    assert [one.name for one in tracked_credentials(configured, environment())] == ["judge.api_key"]


def test_git_does_not_run_a_program_that_the_repository_names(repository):
    marker = repository / "ran"
    hook = repository / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    subprocess.run(["git", "-C", str(repository), "config", "core.fsmonitor", str(hook)], check=True)
    (repository / "run.sh").write_text("x")
    assert not is_tracked(str(repository / "run.sh"))
    assert not marker.exists()
