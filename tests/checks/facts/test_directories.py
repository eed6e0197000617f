"""The folders of a job: which ones, where they are, and that looking at them makes none."""

import os
import sys

import pytest

from verl_doctor.api import Argument, Request, Source, Variable
from verl_doctor.diagnosis import diagnose
from verl_doctor.job.environment import effective_environment
from verl_doctor.job.packages import installed_packages
from verl_doctor.job.resolve import resolve_job
from verl_doctor_checks.facts.directories import directories
from verl_doctor_checks.facts.mlflow import mlflow_files

CODES = ["DISK", "WANDB07", "SWANLAB07", "TB07", "FILE07", "TRACKIO07"]


def launch(folder, *overrides, words=(sys.executable, "-m", "verl.trainer.main_ppo"), **variables):
    source = Source("shell", "environment")
    shell = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "RAY_ADDRESS": "local"} | variables
    return Request(
        command=[Argument(word) for word in [*words, *overrides]],
        environment={name: Variable(name, value, source) for name, value in shell.items()},
        directory=str(folder),
        verl_version="0.9.1",
    )


def find(request):
    job = resolve_job(request)
    environment = effective_environment(request, job)
    found = directories(request, job, environment, installed_packages(request, job), mlflow_files(job, environment))
    return {each.named_by: each for each in found}


def codes(request):
    report = diagnose([request], CODES)
    of_this_machine = {"DISK001", "DISK002"}
    return sorted(result.code for result in report.findings if result.code not in of_this_machine)


ALL = "trainer.logger=[console,wandb,swanlab,tensorboard,trackio,file]"


def test_defaults_lie_in_the_working_directory_and_the_home(tmp_path):
    found = find(launch(tmp_path, ALL, "trainer.project_name=p", "trainer.experiment_name=e", "trainer.save_freq=-1"))
    places = {name: os.path.relpath(each.place.path, tmp_path) for name, each in found.items()}
    assert places == {
        "WANDB_DIR": "wandb",
        "WANDB_DATA_DIR": "home/.local/share/wandb",
        "WANDB_CACHE_DIR": "home/.cache/wandb",
        "SWANLAB_LOG_DIR": "swanlog",
        "TENSORBOARD_DIR": "tensorboard_log/p/e",
        "TRACKIO_DIR": "home/.cache/huggingface/trackio",
        "VERL_FILE_LOGGER_PATH": "p/e.jsonl",
    }
    assert not any(each.is_given for each in found.values())
    assert list(tmp_path.iterdir()) == []


def test_only_what_the_job_uses(tmp_path):
    assert find(launch(tmp_path, "trainer.logger=[console]", "trainer.save_freq=-1")) == {}
    saved = find(launch(tmp_path, "trainer.logger=[console]", "trainer.save_freq=5", "trainer.default_local_dir=ckpt"))
    assert saved["trainer.default_local_dir"].place.path == str(tmp_path / "ckpt")
    remote = launch(tmp_path, "trainer.logger=[console]", "trainer.save_freq=5", "trainer.default_local_dir=hdfs://x/y")
    assert find(remote) == {}


def test_variables_decide(tmp_path):
    variables = {"WANDB_DIR": "/w", "SWANLAB_LOG_DIR": "s", "TENSORBOARD_DIR": "/t", "XDG_DATA_HOME": "/x", "HF_HOME": "/h"}
    found = find(launch(tmp_path, ALL, **variables))
    assert found["WANDB_DIR"].place.path == "/w/wandb"
    assert found["SWANLAB_LOG_DIR"].place.path == str(tmp_path / "s")
    assert found["TENSORBOARD_DIR"].place.path == "/t"
    assert found["WANDB_DATA_DIR"].place.path == "/x/wandb"
    assert found["TRACKIO_DIR"].place.path == "/h/trackio"
    assert found["WANDB_DIR"].is_given


def test_the_logger_of_a_job_that_is_submitted_is_elsewhere(tmp_path):
    words = ("ray", "job", "submit", "--", "python3", "-m", "verl.trainer.main_ppo")
    found = find(launch(tmp_path, ALL, words=words))
    assert all(each.unknown for each in found.values())
    (tmp_path / "file").touch()
    assert codes(launch(tmp_path, ALL, words=words, TENSORBOARD_DIR=str(tmp_path / "file" / "x"))) == []


def test_a_folder_that_ray_unpacks_is_not_this_one(tmp_path):
    found = find(launch(tmp_path, ALL, "+ray_kwargs.ray_init.runtime_env.working_dir=.", TENSORBOARD_DIR="/t"))
    assert found["SWANLAB_LOG_DIR"].unknown
    assert found["TENSORBOARD_DIR"].place.path == "/t"


@pytest.mark.parametrize(
    ("logger", "variable", "code"),
    [
        ("wandb", "WANDB_DIR", "WANDB070"),
        ("wandb", "WANDB_CACHE_DIR", "WANDB072"),
        ("swanlab", "SWANLAB_LOG_DIR", "SWANLAB070"),
        ("tensorboard", "TENSORBOARD_DIR", "TB070"),
        ("file", "VERL_FILE_LOGGER_PATH", "FILE070"),
    ],
)
def test_a_folder_that_cannot_be_made(tmp_path, logger, variable, code):
    (tmp_path / "file").touch()
    blocked = {variable: str(tmp_path / "file" / "x")}
    assert codes(launch(tmp_path, f"trainer.logger=[{logger}]", "trainer.save_freq=-1", **blocked)) == [code]
    assert codes(launch(tmp_path, "trainer.logger=[console]", "trainer.save_freq=-1", **blocked)) == []


def test_the_staging_folder_matters_only_for_tables(tmp_path):
    (tmp_path / "file").touch()
    blocked = {"WANDB_DATA_DIR": str(tmp_path / "file" / "x")}
    words = ("trainer.logger=[wandb]", "trainer.save_freq=-1", "trainer.test_freq=5")
    assert codes(launch(tmp_path, *words, "trainer.log_val_generations=0", **blocked)) == []
    assert codes(launch(tmp_path, *words, "trainer.log_val_generations=3", **blocked)) == ["WANDB071"]


def test_a_folder_for_checkpoints_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    blocked = ("trainer.logger=[console]", f"trainer.default_local_dir={tmp_path}/file/x")
    assert codes(launch(tmp_path, *blocked, "trainer.save_freq=10")) == ["DISK003"]
    assert codes(launch(tmp_path, *blocked, "trainer.save_freq=-1")) == []


def test_nobody_knows_who_expands_a_tilde(tmp_path):
    assert codes(launch(tmp_path, "trainer.logger=[swanlab]", "trainer.save_freq=-1", SWANLAB_LOG_DIR="~/s")) == []
