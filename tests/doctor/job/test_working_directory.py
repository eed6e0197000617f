"""Where a relative path of the process that logs begins."""

import pytest

from verl_doctor.api import Argument, Request, Source, Undetermined, Variable
from verl_doctor.job import local_ray
from verl_doctor.job.resolve import resolve_job
from verl_doctor.job.working_directory import logging_directory

PPO = ("python3", "-m", "verl.trainer.main_ppo")
SFT = ("torchrun", "-m", "verl.trainer.sft_trainer")


def look(folder, *words, **variables):
    source = Source("shell", "environment")
    request = Request(
        command=[Argument(word) for word in words],
        environment={name: Variable(name, value, source) for name, value in variables.items()},
        directory=str(folder),
        verl_version="0.9.1",
    )
    return logging_directory(request, resolve_job(request))


@pytest.fixture(autouse=True)
def no_ray(monkeypatch, tmp_path):
    monkeypatch.setattr(local_ray, "PROC", str(tmp_path / "proc"))


def test_a_ray_of_its_own_and_no_ray(tmp_path):
    assert look(tmp_path, *PPO, RAY_ADDRESS="local") == str(tmp_path)
    assert look(tmp_path, *SFT, RAY_ADDRESS="10.0.0.1:6379") == str(tmp_path)


def test_the_folder_of_the_ray_node_that_runs_here(tmp_path):
    started_in = tmp_path / "started"
    process = tmp_path / "proc" / "77"
    process.mkdir(parents=True)
    started_in.mkdir()
    (process / "comm").write_text("raylet\n")
    words = ["/x/raylet", "--node_ip_address=10.0.0.1", "--gcs-address=10.0.0.1:6379", "--python_worker_command=/x/python a"]
    (process / "cmdline").write_text("\0".join(words))
    (process / "cwd").symlink_to(started_in)
    assert look(tmp_path, *PPO, RAY_ADDRESS="10.0.0.1:6379") == str(started_in)
    with pytest.raises(Undetermined):
        look(tmp_path, *PPO, RAY_ADDRESS="10.0.0.2:6379")


@pytest.mark.parametrize(
    "words",
    [
        ("ray", "job", "submit", "--", *PPO),
        (*PPO, "+ray_kwargs.ray_init.runtime_env.working_dir=."),
        ("ssh", "host", *PPO),
    ],
)
def test_elsewhere(tmp_path, words):
    with pytest.raises(Undetermined):
        look(tmp_path, *words, RAY_ADDRESS="local")
