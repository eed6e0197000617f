"""What SwanLab finds in files: logins, and settings that beat the environment."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec
import yaml

from verl_doctor.api import Environment, Job, Secret, capture, fact, protect
from verl_doctor_checks.facts.small_files import home_of, path_variable, read_netrc, read_small, resolve, why_unseen

_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_MAX_FILES = 50


class SwanlabSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of SwanLab that stands in a file. `name` is that of the variable that would set the same."""

    name: str
    value: str | Secret
    path: str


class SwanlabLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that `swanlab login` stored: one server, its key."""

    path: str
    host: str = ""
    key: Secret = msgspec.field(default_factory=lambda: Secret(length=0))
    problem: str = ""


class SwanlabFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Files that SwanLab reads. `strong` beat the environment, `weak` do not; of logins the first is used.

    `broken` are YAML files that cannot be read as YAML.
    """

    unseen: str = ""
    strong: list[SwanlabSetting] = msgspec.field(default_factory=list)
    weak: list[SwanlabSetting] = msgspec.field(default_factory=list)
    logins: list[SwanlabLogin] = msgspec.field(default_factory=list)
    secrets_folder: str = ""
    broken: list[str] = msgspec.field(default_factory=list)


def _example(plain: dict[str, Any] | None) -> SwanlabFiles:
    plain = dict(plain or {})
    logins = [SwanlabLogin(**(login | {"key": capture(login.get("key", ""))})) for login in plain.pop("logins", [])]
    settings = {
        part: [
            SwanlabSetting(name=name, value=protect(name, value), path="/work/.env")
            for name, value in plain.pop(part, {}).items()
        ]
        for part in ("strong", "weak")
    }
    return SwanlabFiles(logins=logins, strong=settings["strong"], weak=settings["weak"], **plain)


@fact(example=_example)
def swanlab_files(job: Job, environment: Environment) -> SwanlabFiles:
    """The files of SwanLab's settings (swanlab 0.10.3, sdk/internal/settings/__init__.py)."""
    unseen = why_unseen(environment, ("HOME", "SWANLAB_ROOT", "SWANLAB_SAVE_DIR", "SWANLAB_CONFIG_DIR", "SWANLAB_SECRETS_DIR"))
    if unseen:
        return SwanlabFiles(unseen=unseen)
    home = home_of(environment)
    here = resolve(".", home, job.directory)
    named = path_variable(environment, "SWANLAB_ROOT") or path_variable(environment, "SWANLAB_SAVE_DIR") or f"{home}/.swanlab"
    root = resolve(named, home, here)
    system = resolve(path_variable(environment, "SWANLAB_CONFIG_DIR") or "/etc/swanlab", home, here)
    beating = [f"{here}/swanlab.yaml", f"{here}/swanlab.yml", *_yaml_files(system)]
    beaten = [f"{folder}/config.{ending}" for folder in (f"{here}/.swanlab", root) for ending in ("yaml", "yml")]
    broken: list[str] = []
    return SwanlabFiles(
        strong=[*_from_yaml(beating, broken), *_from_dotenv(f"{here}/.env")],
        weak=_from_yaml(beaten, broken),
        logins=[login for login in map(_read_login, (f"{here}/.swanlab/.netrc", f"{root}/.netrc")) if login is not None],
        secrets_folder=path_variable(environment, "SWANLAB_SECRETS_DIR"),
        broken=broken,
    )


def _yaml_files(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith((".yaml", ".yml"))][:_MAX_FILES]


def _from_yaml(paths: list[str], broken: list[str]) -> list[SwanlabSetting]:
    """The settings of these files in order; the path of one that is not YAML is added to `broken`."""
    found: list[SwanlabSetting] = []
    for path in paths:
        file = read_small(path)
        if file is None or file.problem:
            continue
        try:
            data = yaml.safe_load(file.text)
        except yaml.YAMLError:
            broken.append(path)
            continue
        flat = _flat("SWANLAB", data) if isinstance(data, dict) else {}
        found += [SwanlabSetting(name=name, value=protect(name, str(value)), path=path) for name, value in flat.items()]
    return found


def _flat(prefix: str, data: Any) -> dict[str, Any]:
    """Leaves by the name of the variable that would set them: `api_host` is SWANLAB_API_HOST, `run: {id}` SWANLAB_RUN_ID."""
    if not isinstance(data, dict):
        return {} if data is None else {prefix: data}
    return {name: leaf for key, value in data.items() for name, leaf in _flat(f"{prefix}_{key}".upper(), value).items()}


def _from_dotenv(path: str) -> list[SwanlabSetting]:
    file = read_small(path)
    if file is None or file.problem:
        return []
    found = []
    for line in file.text.splitlines():
        match = _ASSIGNMENT.fullmatch(line)
        if match and match[1].upper().startswith("SWANLAB_"):
            name = match[1].upper()
            found.append(SwanlabSetting(name=name, value=protect(name, _unquoted(match[2])), path=path))
    return found


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] in "'\"" and value.find(value[0], 1) > 0:
        return value[1 : value.find(value[0], 1)]
    return re.split(r"\s#", value, maxsplit=1)[0].strip()


def _read_login(path: str) -> SwanlabLogin | None:
    found = read_netrc(path)
    if found is None or found.problem or not found.entries:
        return None if found is None else SwanlabLogin(path=path, problem=found.problem or "it has no entry")
    first = found.entries[0]
    return SwanlabLogin(path=path, host=first.machine.removesuffix("/api"), key=first.password)
