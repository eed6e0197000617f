from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.job import local_ray
from verl_doctor.job.environment import effective_environment, read_assignment, read_env_file, shell_environment
from verl_doctor.job.model import Argument, Environment, Job, Request, Source, Variable
from verl_doctor.job.variables import make_variable
from verl_doctor.registry import Undetermined
from verl_doctor.secrets import Secret

KEY = "5a6b7c8d" * 5
PPO = "python -m verl.trainer.main_ppo a.b=1"
ENV_VARS = "ray_kwargs.ray_init.runtime_env.env_vars."


class Machine:
    """A machine as Ray sees it: a temporary folder, and the processes below a /proc of its own."""

    def __init__(self, folder: Path) -> None:
        self.temp = folder / "temp"
        self.proc = folder / "proc"
        (self.temp / "ray").mkdir(parents=True)
        self.proc.mkdir()
        self.add_process(1, "systemd", ["/sbin/init"], {})

    def add_process(self, pid: int, comm: str, words: list[str], environment: dict[str, str]) -> Path:
        folder = self.proc / str(pid)
        folder.mkdir()
        (folder / "comm").write_text(comm + "\n")
        (folder / "cmdline").write_bytes(b"\0".join(os.fsencode(word) for word in [*words, ""]))
        (folder / "environ").write_bytes(b"".join(os.fsencode(f"{name}={value}\0") for name, value in environment.items()))
        return folder

    def start_ray(self, *, ip: str = "10.0.0.1", head: str = "10.0.0.1", **environment: str) -> Path:
        words = ["/x/raylet/raylet", f"--node_ip_address={ip}", "--python_worker_command=/x/bin/python setup.py a"]
        self.leave_address(f"{head}:6379")
        return self.add_process(77, "raylet", [*words, f"--gcs-address={head}:6379"], environment)

    def leave_address(self, address: str) -> None:
        (self.temp / "ray" / "ray_current_cluster").write_text(address + "\n")

    def environment(self, command: str = PPO, settings: dict[str, Any] | None = None, **shell: str) -> Environment:
        source = Source("shell", "environment")
        shell = {"RAY_TMPDIR": str(self.temp)} | shell
        variables = {name: make_variable(name, value, source) for name, value in shell.items()}
        request = Request(command=[Argument(word) for word in command.split()], environment=variables)
        return effective_environment(request, Job.example({"trainer.nnodes": 1} | (settings or {})))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setattr(local_ray, "PROC", str(machine.proc))
    return machine


def values(environment: Environment) -> dict[str, str]:
    return {name: str(variable.value) for name, variable in environment.variables.items() if name != "RAY_TMPDIR"}


def test_new_local_cluster_inherits_everything(machine: Machine) -> None:
    found = machine.environment(f"A=command {PPO}", {ENV_VARS + "B": "job", ENV_VARS + "N": 3}, A="shell", B="shell", C="shell")
    assert values(found) == {"A": "command", "B": "job", "C": "shell", "N": "3"}
    assert (found.unseen, found.left_behind) == ("", {})
    assert [found.variables[name].source.kind for name in "ABC"] == ["command", "override", "shell"]


def test_no_command_at_all(machine: Machine) -> None:
    found = effective_environment(
        Request(environment={"A": Variable("A", "1", Source("shell", "environment"))}), Job.example({})
    )
    assert found.get("A") == "1"


def test_running_cluster_has_its_own(machine: Machine) -> None:
    machine.start_ray(A="node", WANDB_API_KEY=KEY)
    found = machine.environment(f"C=command {PPO}", {ENV_VARS + "D": "job"}, A="shell", B="shell", WANDB_API_KEY=KEY)
    assert values(found) == {"A": "node", "WANDB_API_KEY": "<secret of 40 characters>", "D": "job"}
    assert found.unseen == ""
    assert set(found.left_behind) == {"A", "B", "C", "RAY_TMPDIR"}
    assert "running Ray node" in found.variables["A"].source.text
    assert KEY not in repr(found)


def test_file_of_a_dead_cluster_does_not_count(machine: Machine) -> None:
    machine.leave_address("10.0.0.1:6379")
    assert values(machine.environment(A="shell")) == {"A": "shell"}


def test_raylet_of_another_cluster_does_not_count(machine: Machine) -> None:
    machine.start_ray(A="node")
    machine.leave_address("10.0.0.9:6379")
    assert values(machine.environment(A="shell")) == {"A": "shell"}


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "127.0.0.1:6379", "localhost:6379", "auto"])
def test_address_of_this_machine(machine: Machine, address: str) -> None:
    machine.start_ray(A="node")
    for found in (
        machine.environment(RAY_ADDRESS=address),
        machine.environment(f"env RAY_ADDRESS={address} {PPO}"),
        machine.environment(settings={"ray_kwargs.ray_init.address": address}),
    ):
        assert (found.get("A"), found.unseen) == ("node", "")


@pytest.mark.parametrize("address", ["10.9.9.9:6379", "ray://head:10001", "auto"])
def test_address_elsewhere(machine: Machine, address: str) -> None:
    for found in (
        machine.environment(RAY_ADDRESS=address, A="shell"),
        machine.environment(settings={"ray_kwargs.ray_init.address": address}, A="shell"),
    ):
        assert values(found) == {}
        assert "A" in found.left_behind
        with pytest.raises(Undetermined, match="ray start"):
            found.get("A")


def test_local_means_a_new_cluster(machine: Machine) -> None:
    machine.start_ray(A="node")
    for found in (
        machine.environment(RAY_ADDRESS="local", A="shell"),
        machine.environment(settings={"ray_kwargs.ray_init.address": "local"}, A="shell", RAY_ADDRESS="10.0.0.1:6379"),
    ):
        assert found.get("A") == "shell"


def test_temp_dir_of_the_configuration(machine: Machine, tmp_path: Path) -> None:
    machine.start_ray(A="node")
    settings = {"ray_kwargs.ray_init._temp_dir": str(machine.temp / "ray")}
    assert machine.environment(settings=settings, RAY_TMPDIR=str(tmp_path)).get("A") == "node"
    assert machine.environment(RAY_TMPDIR=str(tmp_path)).get("A") is None


@pytest.mark.parametrize("settings", [{"trainer.nnodes": 2}, {"unknown": {"trainer.nnodes": "$N"}}])
def test_other_nodes_may_have_others(machine: Machine, settings: dict[str, Any]) -> None:
    machine.start_ray(A="node")
    found = machine.environment(settings=settings, B="shell")
    assert found.get("A") == "node"
    with pytest.raises(Undetermined, match="another node"):
        found.get("B")


def test_head_elsewhere(machine: Machine) -> None:
    machine.start_ray(ip="10.0.0.2", head="10.0.0.1", A="node")
    assert "head of the Ray cluster" in machine.environment().unseen


def test_raylet_of_another_user(machine: Machine) -> None:
    environ = machine.start_ray(A="node") / "environ"
    environ.unlink()
    environ.mkdir()  # reading it fails, also for root
    found = machine.environment(A="shell")
    assert "may not read" in found.unseen
    assert values(found) == {}


def test_processes_that_end_meanwhile(machine: Machine) -> None:
    (machine.proc / "88").mkdir()
    machine.add_process(89, "raylet", [], {})
    machine.start_ray(A="node")
    assert machine.environment().get("A") == "node"


def test_no_proc(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.start_ray(A="node")
    monkeypatch.setattr(local_ray, "PROC", str(machine.temp / "none"))
    assert machine.environment(A="shell").get("A") == "shell"


def test_submitted_job_sees_only_its_runtime_env(machine: Machine, tmp_path: Path) -> None:
    machine.start_ray(A="node")
    file = tmp_path / "env.yaml"
    file.write_text("env_vars:\n  WANDB_MODE: offline\n  HF_HOME: ${HOME}/hf\n")
    submit = f"B=client ray job submit --runtime-env={file} -- env C=driver {PPO}"
    found = machine.environment(submit, {ENV_VARS + "D": "job"}, A="shell", WANDB_API_KEY=KEY)
    assert values(found) == {"WANDB_MODE": "offline", "HF_HOME": "${HOME}/hf", "D": "job"}
    assert found.get("WANDB_MODE") == "offline"
    assert {"A", "B", "WANDB_API_KEY"} <= set(found.left_behind)
    for name in ("A", "WANDB_API_KEY", "HF_HOME"):
        with pytest.raises(Undetermined):
            found.get(name)


def test_submitted_sft_sees_the_entrypoints_assignments(machine: Machine) -> None:
    submit = "ray job submit -- env C=driver torchrun -m verl.trainer.sft_trainer a.b=1"
    assert machine.environment(submit, {"kind": "sft"}).get("C") == "driver"


@pytest.mark.parametrize("kind", ["sft", "sft_ray"])
def test_sft_logs_in_the_launched_process(machine: Machine, kind: str) -> None:
    machine.start_ray(A="node")
    found = machine.environment("B=command torchrun -m verl.trainer.sft_trainer a.b=1", {"kind": kind}, A="shell")
    assert values(found) == {"A": "shell", "B": "command"}
    assert found.unseen == ""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"env -u A {PPO}".split(), {"B": "shell"}),
        (f"env -i C=1 {PPO}".split(), {"C": "1"}),
        ([f"unset A; {PPO}"], {"B": "shell"}),
    ],
)
def test_what_the_command_takes_away(machine: Machine, command: list[str], expected: dict[str, str]) -> None:
    shell = {name: Variable(name, "shell", Source("shell", "environment")) for name in "AB"}
    shell["RAY_TMPDIR"] = Variable("RAY_TMPDIR", str(machine.temp), Source("shell", "environment"))
    found = effective_environment(Request(command=[Argument(word) for word in command], environment=shell), Job.example({}))
    assert values(found) == expected


@pytest.mark.parametrize("launcher", ["docker run -e C=1 image", "ssh host env C=1", "sudo C=1", "unheard-of env C=1"])
def test_launchers_that_hide_the_shell(machine: Machine, launcher: str) -> None:
    machine.start_ray(A="node")
    found = machine.environment(f"{launcher} {PPO}", {"kind": "sft"}, A="shell")
    assert values(found) == {"C": "1"}
    assert found.unseen


def test_srun_may_find_a_ray_node_there(machine: Machine) -> None:
    found = machine.environment(f"srun -N1 {PPO}", A="shell")
    assert found.get("A") == "shell"
    with pytest.raises(Undetermined, match="Slurm"):
        found.get("B")
    assert machine.environment("srun -N1 torchrun -m verl.trainer.sft_trainer", {"kind": "sft"}, A="shell").unseen == ""


def test_address_that_is_not_known(machine: Machine) -> None:
    found = machine.environment(settings={"unknown": {"ray_kwargs.ray_init.address": "$HEAD"}}, A="shell")
    assert "$HEAD" in found.unseen
    shell = {"RAY_ADDRESS": Variable("RAY_ADDRESS", "", Source("script", "run.sh"), "set by $(f)")}
    request = Request(command=[Argument(word) for word in PPO.split()], environment=shell)
    assert "set by $(f)" in effective_environment(request, Job.example({})).unseen


def test_env_vars_given_as_a_whole_and_secret(machine: Machine) -> None:
    settings = {ENV_VARS[:-1]: {"A": "x", "B": "${A}"}, ENV_VARS + "WANDB_API_KEY": KEY}
    found = machine.environment(settings=settings)
    assert found.get("A") == "x"
    assert isinstance(found.get("WANDB_API_KEY"), Secret)
    with pytest.raises(Undetermined, match="what the node has"):
        found.get("B")
    assert KEY not in repr(found)


def test_shell_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("HTTPS_PROXY", "http://me:hunter2hunter2@proxy:1")
    monkeypatch.setenv("PWD", "/work/here")
    monkeypatch.setitem(os.environ, "BYTES", os.fsdecode(b"\xff\xfe"))
    found = shell_environment()
    assert isinstance(found["WANDB_API_KEY"].value, Secret)
    assert found["HTTPS_PROXY"].value == "http://***@proxy:1"
    assert found["PWD"].value == "/work/here"
    assert found["WANDB_API_KEY"].source.kind == "shell"
    assert KEY not in repr(found)
    str(found["BYTES"].value).encode()


def test_read_assignment() -> None:
    assert read_assignment("A=b=c").value == "b=c"
    assert read_assignment("A=").value == ""
    for text in ("A", "=x", "1A=x", "A B=x", "", "\udcff=x"):
        with pytest.raises(BadInput, match="NAME=VALUE"):
            read_assignment(text)
    with pytest.raises(BadInput) as caught:
        read_assignment(f"WANDB API KEY={KEY}")
    assert KEY not in str(caught.value)


def test_read_env_file(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        '# comment\n\nexport A=1\nB = two words  # comment\nC=\'single $A # not\'\nD="double\\n\\"x\\"" # comment\n'
        f'E=\nF=a#b\nWANDB_API_KEY={KEY}\nG=$A/x\nH="${{A}}"\nI=#\nexport\tJ=1\n',
        encoding="utf-8-sig",
    )
    found = {variable.name: variable for variable in read_env_file(str(path))}
    texts = {name: str(variable.value) for name, variable in found.items()}
    assert texts["A"] == texts["J"] == "1"
    assert texts["B"] == "two words"
    assert texts["C"] == "single $A # not"
    assert texts["D"] == 'double\n"x"'
    assert texts["E"] == texts["I"] == ""
    assert texts["F"] == "a#b"
    assert [name for name, variable in found.items() if variable.unknown] == ["G", "H"]
    assert (found["C"].source.kind, found["C"].source.location.line) == ("env-file", 5)  # type: ignore[union-attr]
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"A=1\nnot an assignment\n", "line 2"),
        (b"A=1\nB C=1\n", "line 2"),
        (b"A='x\n", "line 1: the quote"),
        (b'A="x\n', "line 1: the quote"),
        (b'A="x" y\n', "line 1: the quote"),
        (b"A=1\nB=\xff\n", "line 2: not UTF-8"),
        (b"A=" + b"x" * 1_000_001, "larger than 1 MB"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_env_files(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / ".env"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_env_file(str(path))
    assert says in str(caught.value)
    assert ".env" in str(caught.value)


def test_missing_env_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_env_file(str(tmp_path / "none"))
