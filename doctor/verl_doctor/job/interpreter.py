"""Where a Python that is not this one looks for modules, found from its files alone: it is never started."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Mapping

from verl_doctor.job.variables import brief
from verl_doctor.registry import Undetermined

_MAX_PTH_BYTES = 100_000
_MAX_SHEBANG_BYTES = 500
_VERSION = re.compile(r"python(3\.\d+t?)\Z")


def find_program(word: str, environment: Mapping[str, str], directory: str) -> str:
    """The absolute path of a program as the job's shell would find it. Raises Undetermined when it does not."""
    if "/" in word:
        path = os.path.join(directory, os.path.expanduser(word))
    else:
        if "PATH" not in environment:
            raise Undetermined(f"PATH is not known, so which {brief(word)} starts the job is not either")
        path = shutil.which(word, path=environment["PATH"]) or ""
    if not path or not os.path.isfile(path):
        raise Undetermined(f"{brief(word)}, with which the job is started, is not found on this machine")
    return os.path.abspath(path)


def search_path(program: str, environment: Mapping[str, str]) -> list[str]:
    """The folders in which the Python at this path looks for modules, in its order.

    `program` may also be a script of that Python, such as `torchrun`. Raises Undetermined when the layout is not known.
    """
    python = interpreter_of(program)
    prefix = os.path.dirname(os.path.dirname(python))
    settings = _venv_settings(python)
    folders = [folder for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(folder)]
    if settings is None:
        folders += _system_folders(os.path.realpath(python), environment)
    else:
        folders += _site_folders(prefix, _venv_version(settings))
        if settings.get("include-system-site-packages", "").lower() == "true":
            folders += _system_folders(_base_python(settings, python), environment)
    if not folders:
        raise Undetermined(f"no packages of Python are found in {brief(prefix)}")
    return _with_path_files(folders)


def interpreter_of(program: str) -> str:
    """The Python that runs this program: itself, or the one that its first line names. Raises Undetermined for a wrapper."""
    with open(program, "rb") as file:
        start = file.read(_MAX_SHEBANG_BYTES)
    if not start.startswith(b"#!"):
        return program
    words = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    python = next((word for word in words if os.path.basename(word).startswith("python") and os.path.isabs(word)), "")
    if not python:  # a wrapper script such as pyenv's shims
        raise Undetermined(f"{brief(program)} is a script that chooses a Python when it runs")
    return python


def _venv_settings(python: str) -> dict[str, str] | None:
    """The settings of pyvenv.cfg, None when the Python is not one of a virtual environment."""
    folder = os.path.dirname(python)
    for path in (os.path.join(folder, "pyvenv.cfg"), os.path.join(os.path.dirname(folder), "pyvenv.cfg")):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = [line.partition("=") for line in file.read(_MAX_PTH_BYTES).splitlines()]
        except OSError:
            continue
        return {key.strip().lower(): value.strip() for key, equals, value in lines if equals}
    return None


def _venv_version(settings: Mapping[str, str]) -> str:
    numbers = (settings.get("version") or settings.get("version_info") or "").split(".")
    return ".".join(numbers[:2]) if len(numbers) > 1 else ""


def _base_python(settings: Mapping[str, str], python: str) -> str:
    return os.path.realpath(settings.get("executable") or os.path.join(settings.get("home", ""), os.path.basename(python)))


def _system_folders(python: str, environment: Mapping[str, str]) -> list[str]:
    """The folders of a Python that is not a virtual environment: its own, Debian's, and the user's."""
    match = _VERSION.match(os.path.basename(python))
    prefix = os.path.dirname(os.path.dirname(python))
    version = match[1] if match else ""
    folders = _site_folders(prefix, version)
    if prefix == "/usr":
        folders = [f"/usr/local/lib/python{version}/dist-packages", "/usr/lib/python3/dist-packages", *folders]
    home = environment.get("HOME", "")
    if home and version and not environment.get("PYTHONNOUSERSITE"):
        user = environment.get("PYTHONUSERBASE") or os.path.join(home, ".local")
        folders.insert(0, os.path.join(user, "lib", f"python{version}", "site-packages"))
    return folders


def _site_folders(prefix: str, version: str) -> list[str]:
    """The site-packages and dist-packages below a prefix. Raises Undetermined when there are those of several Pythons."""
    kinds = ("site-packages", "dist-packages")
    wanted = f"python{version}" if version else "python3*"
    patterns = [os.path.join(glob.escape(prefix), lib, wanted, kind) for lib in ("lib", "lib64") for kind in kinds]
    folders = [folder for pattern in patterns for folder in sorted(glob.glob(pattern))]
    if len({folder.rsplit("/", 2)[1] for folder in folders}) > 1:
        raise Undetermined(f"there are packages of several versions of Python in {brief(prefix)}")
    return list({os.path.realpath(folder): folder for folder in folders}.values())


def _with_path_files(folders: list[str]) -> list[str]:
    """The folders, and those that their .pth files add."""
    found: dict[str, None] = {}
    for folder in folders:
        found[folder] = None
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.pth"))):
            found.update(dict.fromkeys(_added_by(path, folder)))
    return list(found)


def _added_by(path: str, folder: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_PTH_BYTES).splitlines()
    except OSError:  # Python ignores it too
        return []
    added = [os.path.join(folder, line.strip()) for line in lines if line.strip() and not line.startswith(("#", "import"))]
    return [path for path in added if os.path.isdir(path)]
