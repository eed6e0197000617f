"""The distributions that are installed for the job's Python, from the names of their metadata folders; nothing is imported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

from verl_doctor.job.command import Launch, parse_command
from verl_doctor.job.environment import cluster_address, launching_environment
from verl_doctor.job.interpreter import find_program, interpreter_of, search_path
from verl_doctor.job.local_ray import find_raylet
from verl_doctor.job.model import Job, Packages, Request, Variable
from verl_doctor.job.variables import brief
from verl_doctor.registry import Undetermined

MODULES = {
    "clearml": "clearml",
    "click": "click",
    "huggingface-hub": "huggingface_hub",
    "hydra-core": "hydra",
    "mlflow": "mlflow",
    "mlflow-skinny": "mlflow",
    "mysqlclient": "MySQLdb",
    "numpy": "numpy",
    "omegaconf": "omegaconf",
    "orjson": "orjson",
    "protobuf": "google/protobuf",
    "psycopg": "psycopg",
    "psycopg2": "psycopg2",
    "psycopg2-binary": "psycopg2",
    "pymysql": "pymysql",
    "ray": "ray",
    "rl-insight": "rl_insight",
    "sqlalchemy": "sqlalchemy",
    "swanboard": "swanboard",
    "swanlab": "swanlab",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "trackio": "trackio",
    "verl": "verl",
    "volcengine-ml-platform": "volcengine_ml_platform",
    "wandb": "wandb",
    "weave": "weave",
}
"""The distributions that checks ask for, by canonical name, and the module (as a path) that each one provides."""

_INSTALLS = ("pip", "uv", "conda", "container", "image_uri")
_METADATA = re.compile(r"(?P<name>[A-Za-z0-9][\w.]*)-(?P<version>[^-]+)(?:-[^-]+)*\.(?:dist|egg)-info\Z")


def installed_packages(request: Request, job: Job) -> Packages:
    """The versions of the distributions that checks ask for; `unseen` when the job's Python cannot be looked at.

    Raises NotAVerlLaunch and BadInput as `parse_command` does.
    """
    launch = parse_command(request.command, request.directory) if request.command else Launch()
    try:
        folders = module_folders(request, job)
    except Undetermined as error:
        return Packages(unseen=str(error))
    versions = _versions(folders)
    if "verl" not in versions and not {"ray", "torch"} <= versions.keys():
        return Packages(
            unseen=f"neither verl nor ray and torch are installed for {_who(launch)}, so the job has another Python"
        )
    return Packages(versions=versions, unseen=_without_metadata([_directory(request, launch), *folders], versions))


def _who(launch: Launch) -> str:
    return brief(launch.python) if launch.python else "the Python of verl-doctor"


def module_folders(request: Request, job: Job) -> list[str]:
    """The folders in which the job's Python looks for modules. Raises Undetermined when that is not known."""
    python = job_python(request, job)
    launch = parse_command(request.command, request.directory) if request.command else Launch()
    return search_path(python, _known(launching_environment(request, launch))) if launch.python else list(sys.path)


def job_python(request: Request, job: Job) -> str:
    """The path of the Python that runs the job: this one when no command was given.

    Raises Undetermined when it is not known or not on this machine.
    """
    launch = parse_command(request.command, request.directory) if request.command else Launch()
    if launch.unknown_python:
        raise Undetermined(launch.unknown_python)
    if launch.other_machine:
        raise Undetermined(launch.other_machine)
    installs = [name for name in _INSTALLS if job.settings.get(f"ray_kwargs.ray_init.runtime_env.{name}") is not None]
    if installs:
        raise Undetermined(f"'{installs[0]}' of the job's runtime_env installs packages of its own")
    if not launch.python:
        return sys.executable
    launching = launching_environment(request, launch)
    directory = _directory(request, launch)
    program = _python_of_workers(launch, launching, job) or find_program(launch.python, _known(launching), directory)
    return interpreter_of(program)


def _known(launching: dict[str, Variable]) -> dict[str, str]:
    return {name: str(variable.value) for name, variable in launching.items() if not variable.unknown}


def _directory(request: Request, launch: Launch) -> str:
    return os.path.join(request.directory, launch.directory)


def _python_of_workers(launch: Launch, launching: dict[str, Variable], job: Job) -> str:
    """The Python of the Ray cluster that the job joins, empty when it uses its own."""
    address = cluster_address(launching, launch, job) if job.uses_ray else ""
    if not address:
        return ""
    raylet = find_raylet(address)
    if raylet is None or not raylet.is_head or not os.path.isabs(raylet.python):
        raise Undetermined(f"the job joins the Ray cluster at {brief(address)}, whose packages are not seen from here")
    return raylet.python


def _versions(folders: Iterable[str]) -> dict[str, str]:
    """Versions by canonical name; a folder that comes first wins, as it does for Python."""
    versions: dict[str, str] = {}
    for folder in folders:
        for entry in _names(folder):
            match = _METADATA.match(entry)
            name = re.sub(r"[-_.]+", "-", match["name"]).lower() if match else ""
            if match and name in MODULES and name not in versions and _is_complete(os.path.join(folder, entry)):
                versions[name] = match["version"]
    return versions


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # Python ignores folders of its path that do not exist
        return []


def _is_complete(metadata: str) -> bool:
    """Whether the metadata folder is more than what an interrupted removal left behind."""
    return os.path.isfile(metadata) or any(os.path.isfile(os.path.join(metadata, name)) for name in ("METADATA", "PKG-INFO"))


def _without_metadata(folders: list[str], versions: dict[str, str]) -> str:
    """Why a distribution without metadata may be there all the same: its module can be imported.

    A checkout of verl is the usual way to run it and says nothing about the others.
    """
    provided = {"verl", *(MODULES[name] for name in versions)}
    for name, module in MODULES.items():
        if name not in versions and module not in provided and any(_holds(folder, module) for folder in folders):
            return f"the module of {name} is there, but no metadata that says which version it is"
    return ""


def _holds(folder: str, module: str) -> bool:
    path = os.path.join(folder, module)
    return os.path.isfile(os.path.join(path, "__init__.py")) or os.path.isfile(path + ".py")
