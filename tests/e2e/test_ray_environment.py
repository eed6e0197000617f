"""What an actor of a real Ray cluster sees, against what is predicted without Ray.

Needs ray in this Python or in the one that VERL_DOCTOR_TEST_RAY_PYTHON names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from verl_doctor.job.environment import effective_environment
from verl_doctor.job.local_ray import current_cluster, find_raylet
from verl_doctor.job.model import Argument, Job, Request, Source, Variable

ACTOR = """
import json, os, sys, ray
ray.init(**json.loads(sys.argv[1]))
@ray.remote
class Actor:
    def environment(self):
        return dict(os.environ)
seen = ray.get(Actor.remote().environment.remote())
print("SEEN" + json.dumps({name: value for name, value in seen.items() if name.startswith("DOCTOR_")}))
"""
PORT = "6741"


def ray_python() -> str:
    named = os.environ.get("VERL_DOCTOR_TEST_RAY_PYTHON", "")
    if named:
        return named
    return sys.executable if importlib.util.find_spec("ray") else ""


pytestmark = pytest.mark.skipif(
    not ray_python(), reason="ray is not installed, and VERL_DOCTOR_TEST_RAY_PYTHON names no Python that has it"
)


class Shell:
    """A shell in which Ray is used: its variables, and the programs run with them."""

    def __init__(self, folder: Path) -> None:
        self.variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "RAY_TMPDIR": str(folder / "t"),
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        (folder / "t").mkdir()
        self.folder = folder

    def run(self, *words: str, **variables: str) -> str:
        done = subprocess.run(
            [ray_python(), *words],
            env=self.variables | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def actor(self, init: dict[str, object], **variables: str) -> dict[str, str]:
        output = self.run("-c", ACTOR, json.dumps(init), **variables)
        line = next(line for line in output.splitlines() if "SEEN" in line)
        return dict(json.loads(line.split("SEEN", 1)[1]))

    def request(self, *command: str, **variables: str) -> Request:
        source = Source("shell", "environment")
        environment = {name: Variable(name, value, source) for name, value in (self.variables | variables).items()}
        words = [Argument(word) for word in (*command, "-m", "verl.trainer.main_ppo")]
        return Request(command=words, environment=environment, directory=str(self.folder))


@pytest.fixture
def shell() -> Iterator[Shell]:
    # Short paths: Ray's sockets live below its temporary folder and their names are limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="vd") as folder:
        yield Shell(Path(folder))


@pytest.fixture
def cluster(shell: Shell) -> Iterator[Shell]:
    """A cluster of one node, started in the foreground so that it can be ended without `ray stop`, which ends every cluster."""
    words = ["-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=1", "--include-dashboard=false"]
    node = subprocess.Popen(
        [ray_python(), *words, f"--port={PORT}", "--disable-usage-stats"],
        env=shell.variables | {"DOCTOR_NODE": "node", "DOCTOR_BOTH": "node"},
        cwd=shell.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: find_raylet(current_cluster(shell.variables)) is not None)
        yield shell
    finally:
        node.terminate()
        node.wait(60)
        wait_until(lambda: find_raylet(f"127.0.0.1:{PORT}") is None)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "the Ray node did not start or did not end"
        time.sleep(0.2)


def predicted(request: Request, **settings: object) -> dict[str, str]:
    environment = effective_environment(request, Job.example({"trainer.nnodes": 1, **settings}))
    assert environment.unseen == ""
    return {name: str(variable.value) for name, variable in environment.variables.items() if name.startswith("DOCTOR_")}


def test_new_local_cluster_inherits_the_shell(shell: Shell) -> None:
    assert current_cluster(shell.variables) == ""
    given = {"num_cpus": 1, "include_dashboard": False, "runtime_env": {"env_vars": {"DOCTOR_GIVEN": "job"}}}
    seen = shell.actor(given, DOCTOR_SHELL="shell")
    settings = {"ray_kwargs.ray_init.runtime_env.env_vars.DOCTOR_GIVEN": "job"}
    assert predicted(shell.request("python", DOCTOR_SHELL="shell"), **settings) == seen
    assert seen == {"DOCTOR_SHELL": "shell", "DOCTOR_GIVEN": "job"}


def test_running_cluster_hides_the_shell(cluster: Shell) -> None:
    variables = {"DOCTOR_SHELL": "shell", "DOCTOR_BOTH": "shell"}
    request = cluster.request("env", "DOCTOR_ASSIGNED=1", "python", **variables)
    seen = cluster.actor({}, DOCTOR_ASSIGNED="1", **variables)
    assert predicted(request) == seen == {"DOCTOR_NODE": "node", "DOCTOR_BOTH": "node"}
    left_behind = effective_environment(request, Job.example({})).left_behind
    assert {name for name in left_behind if name.startswith("DOCTOR_")} == {"DOCTOR_SHELL", "DOCTOR_BOTH", "DOCTOR_ASSIGNED"}

    given = {"runtime_env": {"env_vars": {"DOCTOR_BOTH": "job", "DOCTOR_HOME": "${DOCTOR_NODE}/x"}}}
    prefix = "ray_kwargs.ray_init.runtime_env.env_vars."
    settings = {prefix + "DOCTOR_BOTH": "job", prefix + "DOCTOR_HOME": "${DOCTOR_NODE}/x"}
    seen = cluster.actor(given, **variables)
    assert seen == {"DOCTOR_NODE": "node", "DOCTOR_BOTH": "job", "DOCTOR_HOME": "node/x"}
    environment = effective_environment(request, Job.example({"trainer.nnodes": 1, **settings}))
    assert environment.variables["DOCTOR_HOME"].unknown
    assert predicted(request, **settings) == seen | {"DOCTOR_HOME": "${DOCTOR_NODE}/x"}

    address = current_cluster(cluster.variables)
    raylet = find_raylet(address)
    assert raylet is not None
    assert raylet.is_head
    assert os.path.isabs(raylet.python)
    for named in (address, f"127.0.0.1:{PORT}", "auto"):
        seen = cluster.actor({}, RAY_ADDRESS=named, **variables)
        assert predicted(cluster.request("python", RAY_ADDRESS=named, **variables)) == seen
