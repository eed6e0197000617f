"""Finds verl and the configuration of its entry points by looking at files: nothing of verl is imported or executed."""

from __future__ import annotations

import ast
import glob
import importlib.util
import json
import os
import sys
import zipfile
from urllib.parse import unquote, urlsplit

from verl_doctor.errors import BadInput
from verl_doctor.job.folders import DiskFolder, Folder, WheelFolder, read_file, short_path
from verl_doctor.job.knowledge import ENTRY_POINTS, LATEST_VERSION
from verl_doctor.job.model import TrainerKind, Verl
from verl_doctor.job.yaml_reader import MAX_BYTES

CONFIG_FOLDER = "verl/trainer/config"
_VERSION_FILE = "verl/version/version"


class FoundVerl:
    """verl, and the folder that holds the package `verl` (None when it is known only by its version)."""

    def __init__(self, verl: Verl, root: Folder | None) -> None:
        self.verl = verl
        self.root = root


class EntryConfig:
    """The arguments of an entry point's `hydra.main`; `folder` is where its module stands."""

    def __init__(self, folder: Folder, config_path: str | None, config_name: str | None) -> None:
        self.folder = folder
        self.config_path = config_path
        self.config_name = config_name


def find_verl(path: str = "", version: str = "", directory: str = "", python: str = "") -> FoundVerl:
    """The verl that a job started in `directory` by `python` would import.

    `path` names it explicitly (a checkout, the package folder, an unpacked or packed wheel, a site-packages folder or a
    virtual environment); `version` says which one the job will have when it is not the one found here.
    Raises BadInput when there is no verl at `path`.
    """
    if path:
        return _at(os.path.join(directory, os.path.expanduser(path)), path)
    found = _in_directory(directory) or _in_other_python(python) or _installed()
    if found is None or (version and found.verl.version != version):
        known = Verl(version=version or LATEST_VERSION, origin="built-in", assumed=not version)
        return FoundVerl(known, None)
    return found


def _at(path: str, given: str) -> FoundVerl:
    if path.endswith(".whl"):
        return _in_wheel(path, given)
    path = os.path.abspath(path)
    parent = [os.path.dirname(path)] if os.path.basename(path) == "verl" else []
    environment = sorted(glob.glob(os.path.join(glob.escape(path), "lib/python3*/site-packages")))
    for root in [path, *parent, *environment]:
        if _holds_verl(root):
            return _on_disk(root, "path")
    raise BadInput(
        f"{given}: no verl there ({CONFIG_FOLDER} is missing); give a checkout of verl, its package folder, or a wheel of it"
    )


def _in_directory(directory: str) -> FoundVerl | None:
    """`python -m` and torchrun look in the current folder first, so a checkout there is what runs."""
    if directory and _holds_verl(directory) and os.path.isfile(os.path.join(directory, "verl/__init__.py")):
        return _on_disk(directory, "path")
    return None


def _in_other_python(python: str) -> FoundVerl | None:
    """Verl in the environment of another interpreter, given by its path."""
    if not os.path.isabs(python) or os.path.realpath(python) == os.path.realpath(sys.executable):
        return None
    prefix = os.path.dirname(os.path.dirname(python))
    for packages in sorted(glob.glob(os.path.join(glob.escape(prefix), "lib/python3*/site-packages"))):
        if _holds_verl(packages):
            return _on_disk(packages, "installed")
        for record in glob.glob(os.path.join(glob.escape(packages), "verl-*.dist-info/direct_url.json")):
            checkout = _editable_checkout(record)
            if checkout and _holds_verl(checkout):
                return _on_disk(checkout, "installed")
    return None


def _editable_checkout(record: str) -> str:
    try:
        url = json.loads(read_file(record, record))["url"]
    except (BadInput, ValueError, KeyError, TypeError):
        return ""
    return unquote(urlsplit(str(url)).path)


def _installed() -> FoundVerl | None:
    try:
        spec = importlib.util.find_spec("verl")
    except (ImportError, ValueError):
        return None
    for package in (spec.submodule_search_locations or []) if spec else []:
        root = os.path.dirname(os.path.abspath(package))
        if _holds_verl(root):
            return _on_disk(root, "installed")
    return None


def _holds_verl(root: str) -> bool:
    return os.path.isdir(os.path.join(root, CONFIG_FOLDER))


def _on_disk(root: str, origin: str) -> FoundVerl:
    folder = DiskFolder(root, root)
    version = _version(folder)
    verl = Verl(
        version=version or LATEST_VERSION,
        origin="installed" if origin == "installed" else "path",
        path=os.path.join(root, "verl"),
        assumed=not version,
    )
    return FoundVerl(verl, folder)


def _version(root: Folder) -> str:
    if root.is_file(_VERSION_FILE):
        return root.read(_VERSION_FILE).decode("utf-8", "replace").strip()
    for name in root.names(""):
        if name.startswith("verl-") and name.endswith(".dist-info") and root.is_file(f"{name}/METADATA"):
            for line in root.read(f"{name}/METADATA").decode("utf-8", "replace").splitlines():
                if line.startswith("Version:"):
                    return line.partition(":")[2].strip()
    return ""


def _in_wheel(path: str, given: str) -> FoundVerl:
    try:
        with zipfile.ZipFile(path) as wheel:
            wanted = [item for item in wheel.infolist() if _is_wanted(item)]
            files = {item.filename: wheel.read(item) for item in wanted}
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise BadInput(f"{given}: not a readable wheel: {error}; download it again") from error
    folder = WheelFolder(files)
    if not folder.is_folder(CONFIG_FOLDER):
        raise BadInput(f"{given}: the wheel has no {CONFIG_FOLDER}; give a wheel of verl")
    version = _version(folder)
    return FoundVerl(Verl(version=version or LATEST_VERSION, origin="path", path=path, assumed=not version), folder)


def _is_wanted(item: zipfile.ZipInfo) -> bool:
    name = item.filename
    is_config = name.startswith("verl/") and "/config/" in name and name.endswith(".yaml")
    return item.file_size <= MAX_BYTES and (is_config or name == _VERSION_FILE or name.endswith(".dist-info/METADATA"))


def module_of(entry: str) -> str:
    """The module of an entry that is given as a module or as the path of its file, such as `x/verl/trainer/main_ppo.py`."""
    if not entry.endswith(".py"):
        return entry
    dotted = entry.removesuffix(".py").replace("/", ".")
    return next((module for module in ENTRY_POINTS if f".{dotted}".endswith(f".{module}")), dotted.lstrip("."))


def trainer_kind(entry: str) -> TrainerKind:
    """What an entry trains with; `recipe` for any module that is not verl's own."""
    point = ENTRY_POINTS.get(module_of(entry))
    return point.kind if point else "recipe"


def find_entry(entry: str, root: Folder | None, directories: list[str]) -> EntryConfig | None:
    """Where an entry point's configuration is, None when that cannot be seen.

    verl's own modules are known by table. Any other module is looked for in `directories` and beside verl, and its source is
    read (not run) for the arguments of `hydra.main`.
    """
    point = ENTRY_POINTS.get(entry)
    if point and root and entry.startswith("verl."):
        folder = root.join(entry.rpartition(".")[0].replace(".", "/"))
        return EntryConfig(folder, "config", point.config_name) if folder.is_file(f"config/{point.config_name}.yaml") else None
    name = entry if entry.endswith(".py") else entry.replace(".", "/") + ".py"
    bases = [*directories, *([root.path] if isinstance(root, DiskFolder) else [])]
    for base in bases:
        file = os.path.join(base, name)
        if os.path.isfile(file):
            return _hydra_main(file, directories[0] if directories else base)
    return None


def _hydra_main(file: str, base: str) -> EntryConfig | None:
    try:
        tree = ast.parse(read_file(file, short_path(file, base)))
    except (BadInput, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"hydra.main", "main"}:
            given = {word.arg: word.value for word in node.keywords}
            texts = {name: _literal(given.get(name)) for name in ("config_path", "config_name")}
            if "config_name" in given and "" not in texts.values():
                return EntryConfig(DiskFolder(os.path.dirname(file), base), texts["config_path"], texts["config_name"])
    return None


def _literal(value: ast.expr | None) -> str | None:
    """A text constant, None for none, the empty text for what only running the module would tell."""
    if value is None:
        return None
    if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, str)):
        return value.value
    return ""
