from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from verl_doctor.job import local_ray
from verl_doctor.job.model import Argument, Job, Packages, Request, Source, Variable
from verl_doctor.job.packages import MODULES, installed_packages
from verl_doctor.registry import Undetermined

VERL = "verl-0.9.1"


class Python:
    """A Python environment made of empty files. `kind` is venv, or system for one that is no virtual environment."""

    def __init__(self, prefix: Path, kind: str = "venv", version: str = "3.11") -> None:
        self.prefix = prefix
        self.site = prefix / "lib" / f"python{version}" / "site-packages"
        self.site.mkdir(parents=True)
        (prefix / "bin").mkdir()
        self.program = prefix / "bin" / "python"
        if kind == "venv":
            (prefix / "pyvenv.cfg").write_text(
                f"home = /usr/bin\nversion = {version}.7\ninclude-system-site-packages = false\n"
            )
            self.add_program("python")
        else:
            self.add_program(f"python{version}")
            self.program.symlink_to(f"python{version}")

    def add_program(self, name: str, content: str = "\x7fELF") -> Path:
        path = self.prefix / "bin" / name
        path.write_text(content)
        path.chmod(0o755)
        return path

    def install(self, *names: str, folder: Path | None = None) -> Python:
        for name in names:
            metadata = (folder or self.site) / f"{name}.dist-info"
            metadata.mkdir(parents=True)
            (metadata / "METADATA").touch()
        return self


@pytest.fixture(autouse=True)
def no_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc").mkdir()
    monkeypatch.setattr(local_ray, "PROC", str(tmp_path / "proc"))


def look(command: str, directory: Path, settings: dict[str, Any] | None = None, **shell: str) -> Packages:
    source = Source("shell", "environment")
    shell = {"PATH": "/nowhere", "RAY_TMPDIR": str(directory)} | shell
    environment = {name: Variable(name, value, source) for name, value in shell.items()}
    words = [Argument(word) for word in f"{command} -m verl.trainer.main_ppo a.b=1".split()]
    return installed_packages(Request(command=words, environment=environment, directory=str(directory)), Job.example(settings))


def test_virtual_environment_by_path(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL, "wandb-0.21.0", "hydra_core-1.3.2", "rl_insight-0.3.0", "torch-2.13.0+cpu")
    found = look(str(python.program), tmp_path)
    assert found.versions == {
        "verl": "0.9.1",
        "wandb": "0.21.0",
        "hydra-core": "1.3.2",
        "rl-insight": "0.3.0",
        "torch": "2.13.0+cpu",
    }
    assert found.version("mlflow") is None


@pytest.mark.parametrize("word", ["venv/bin/python", "./venv/bin/python"])
def test_relative_path(tmp_path: Path, word: str) -> None:
    Python(tmp_path / "venv").install(VERL)
    assert look(word, tmp_path).version("verl") == "0.9.1"
    (tmp_path / "sub").mkdir()
    assert look(f"env -C sub ../{word}", tmp_path).version("verl") == "0.9.1"


def test_found_through_the_path_of_the_job(tmp_path: Path) -> None:
    first, second = Python(tmp_path / "a").install(VERL, "wandb-1.0"), Python(tmp_path / "b").install(VERL, "wandb-2.0")
    assert look("python", tmp_path, PATH=f"/none:{first.prefix}/bin:{second.prefix}/bin").version("wandb") == "1.0"
    assert look(f"env PATH={second.prefix}/bin python", tmp_path, PATH=f"{first.prefix}/bin").version("wandb") == "2.0"


def test_script_of_an_environment_names_its_python(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    python.add_program("torchrun", f"#!{python.program}\nimport sys\n")
    assert look(str(python.prefix / "bin" / "torchrun"), tmp_path).version("verl") == "0.9.1"
    python.add_program("accelerate", f"#!{python.program}\n")
    assert look(f"{python.prefix}/bin/accelerate launch", tmp_path).version("verl") == "0.9.1"


def test_not_a_virtual_environment(tmp_path: Path) -> None:
    python = Python(tmp_path / "conda", kind="system", version="3.12").install(VERL)
    python.install("wandb-0.30.0", folder=tmp_path / "home" / ".local/lib/python3.12/site-packages")
    assert look(str(python.program), tmp_path, HOME=str(tmp_path / "home")).version("wandb") == "0.30.0"
    shell = {"HOME": str(tmp_path / "home"), "PYTHONNOUSERSITE": "1"}
    assert look(str(python.program), tmp_path, **shell).version("wandb") is None


def test_system_packages_of_a_virtual_environment(tmp_path: Path) -> None:
    base = Python(tmp_path / "base", kind="system").install("mlflow-3.1.0", "wandb-0.1.0")
    python = Python(tmp_path / "venv").install(VERL, "wandb-0.2.0")
    settings = f"home = {base.prefix}/bin\nversion_info = 3.11.7\ninclude-system-site-packages = "
    (python.prefix / "pyvenv.cfg").write_text(settings + "true\n")
    found = look(str(python.program), tmp_path)
    assert (found.version("mlflow"), found.version("wandb")) == ("3.1.0", "0.2.0")
    (python.prefix / "pyvenv.cfg").write_text(settings + "false\n")
    assert look(str(python.program), tmp_path).version("mlflow") is None


def test_pythonpath_and_path_files(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    python.install("wandb-0.2.0", folder=tmp_path / "extra").install("mlflow-3.1.0", folder=tmp_path / "more")
    (python.site / "more.pth").write_text(f"import os\n# comment\n{tmp_path}/more\n{tmp_path}/none\n")
    found = look(str(python.program), tmp_path, PYTHONPATH=f"{tmp_path}/extra::relative")
    assert (found.version("wandb"), found.version("mlflow")) == ("0.2.0", "3.1.0")


def test_old_and_broken_metadata(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    (python.site / "PyMySQL-1.1.0-py3.11.egg-info").mkdir()
    (python.site / "PyMySQL-1.1.0-py3.11.egg-info" / "PKG-INFO").touch()
    (python.site / "SQLAlchemy-2.0.1.egg-info").touch()
    (python.site / "~andb-0.1.0.dist-info").mkdir()
    (python.site / "mlflow-3.1.0.dist-info").mkdir()
    found = look(str(python.program), tmp_path)
    assert found.versions == {"verl": "0.9.1", "pymysql": "1.1.0", "sqlalchemy": "2.0.1"}
    assert found.version("mlflow") is None


def test_module_without_metadata_is_not_called_missing(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    (tmp_path / "wandb").mkdir()  # what wandb itself writes into the working directory is no module
    assert look(str(python.program), tmp_path).version("wandb") is None
    (python.site / "volcengine_ml_platform").mkdir()
    (python.site / "volcengine_ml_platform" / "__init__.py").touch()
    with pytest.raises(Undetermined, match="volcengine-ml-platform"):
        look(str(python.program), tmp_path).version("volcengine-ml-platform")


def test_one_module_of_several_distributions(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL, "psycopg2_binary-2.9", "mlflow_skinny-3.1")
    for module in ("psycopg2", "mlflow"):
        (python.site / module).mkdir()
        (python.site / module / "__init__.py").touch()
    found = look(str(python.program), tmp_path)
    assert (found.version("psycopg2"), found.version("psycopg2-binary")) == (None, "2.9")
    assert (found.version("mlflow"), found.version("mlflow-skinny")) == (None, "3.1")


def test_checkout_of_verl_beside_ray_and_torch(tmp_path: Path) -> None:
    (tmp_path / "verl").mkdir()
    (tmp_path / "verl" / "__init__.py").touch()
    python = Python(tmp_path / "venv").install("ray-2.60.0", "torch-2.13.0")
    found = look(str(python.program), tmp_path)
    assert found.unseen == ""
    assert found.version("mlflow") is None


@pytest.mark.parametrize(
    "launcher",
    [
        "docker run image",
        "apptainer exec x.sif",
        "ssh host",
        "conda run -n x",
        "uv run --with wandb",
        "poetry run",
        "ray job submit --",
        "srun",
        "unheard-of",
    ],
)
def test_launchers_that_choose_another_python(tmp_path: Path, launcher: str) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    found = look(f"{launcher} {python.program}", tmp_path)
    assert found.unseen
    with pytest.raises(Undetermined, match="wandb"):
        found.version("wandb")


@pytest.mark.parametrize("word", ["python", "/none/bin/python", "~/none/python"])
def test_python_that_is_not_here(tmp_path: Path, word: str) -> None:
    assert "not found" in look(word, tmp_path).unseen


def test_python_without_verl(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install("wandb-0.1.0", "ray-2.60.0")
    assert "neither verl nor" in look(str(python.program), tmp_path).unseen


def test_shims_choose_when_they_run(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    python.add_program("python9", "#!/usr/bin/env bash\nexec pyenv\n")
    assert "chooses a Python" in look(str(python.prefix / "bin" / "python9"), tmp_path).unseen


def test_packages_of_several_pythons(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    (python.prefix / "lib/python3.12/site-packages").mkdir(parents=True)
    assert look(str(python.program), tmp_path).version("verl") == "0.9.1"
    (python.prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert "several versions" in look(str(python.program), tmp_path).unseen


def test_path_that_is_not_known(tmp_path: Path) -> None:
    unknown = Variable("PATH", "", Source("script", "run.sh"), "set by conda activate")
    words = [Argument(word) for word in ("python", "-m", "verl.trainer.main_ppo")]
    request = Request(command=words, environment={"PATH": unknown}, directory=str(tmp_path))
    assert "PATH is not known" in installed_packages(request, Job.example({})).unseen


def test_runtime_env_that_installs(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL)
    found = look(str(python.program), tmp_path, {"ray_kwargs.ray_init.runtime_env.pip": ["wandb"]})
    assert "'pip'" in found.unseen


def test_cluster_that_the_job_joins(tmp_path: Path) -> None:
    python, workers = Python(tmp_path / "venv").install(VERL), Python(tmp_path / "w").install(VERL, "wandb-0.5.0")
    assert "packages are not seen" in look(str(python.program), tmp_path, RAY_ADDRESS="10.0.0.1:6379").unseen
    process = tmp_path / "proc" / "7"
    process.mkdir()
    (process / "comm").write_text("raylet\n")
    words = ["raylet", "--gcs-address=10.0.0.1:6379", f"--python_worker_command={workers.program} setup.py"]
    (process / "cmdline").write_text("\0".join([*words, "--node_ip_address=10.0.0.2"]))
    (process / "environ").write_text("")
    assert "packages are not seen" in look(str(python.program), tmp_path, RAY_ADDRESS="10.0.0.1:6379").unseen
    (process / "cmdline").write_text("\0".join([*words, "--node_ip_address=10.0.0.1"]))
    assert look(str(python.program), tmp_path, RAY_ADDRESS="10.0.0.1:6379").version("wandb") == "0.5.0"
    sft = look(str(python.program), tmp_path, {"kind": "sft"}, RAY_ADDRESS="10.0.0.1:6379")
    assert sft.version("wandb") is None


def test_without_a_command_this_python_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = Python(tmp_path / "venv").install(VERL, "wandb-0.7.0")
    monkeypatch.setattr(sys, "path", [str(python.site)])
    request = Request(directory=str(tmp_path))
    assert installed_packages(request, Job.example({})).version("wandb") == "0.7.0"
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert "the Python of verl-doctor" in installed_packages(request, Job.example({})).unseen


def test_thousand_distributions_are_listed_quickly(tmp_path: Path) -> None:
    python = Python(tmp_path / "venv").install(VERL, *(f"other{number}-1.0" for number in range(1000)))
    look(str(python.program), tmp_path)
    begun = time.perf_counter()
    look(str(python.program), tmp_path)
    assert time.perf_counter() - begun < 0.1  # about 3 ms on a quiet machine


def test_names_are_canonical() -> None:
    assert all(name == name.lower() and "_" not in name for name in MODULES)
    assert os.sep not in "".join(MODULES)
