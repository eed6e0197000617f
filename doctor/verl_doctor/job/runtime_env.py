"""The runtime_env that `ray job submit` is given, from a YAML file or from JSON.

Ray reads the file with yaml.safe_load and sends it as it is (ray 2.60.0, dashboard/modules/dashboard_sdk.py); references such
as `${HOME}` in `env_vars` are expanded by the worker from the environment of its node (ray/_private/utils.py, update_envs).
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

import msgspec
import yaml

from verl_doctor.errors import BadInput
from verl_doctor.job.model import Source, Variable
from verl_doctor.job.variables import MAX_FILE_BYTES, brief, make_variable, read_text
from verl_doctor.report import Location

_REFERENCE = re.compile(r"\$(\w+|\{[^}]*\})")
_INSTALLS = ("pip", "uv", "conda", "container", "image_uri")


class RuntimeEnv(msgspec.Struct, kw_only=True):
    """What a runtime_env sets. `installs` names the options that give the job other packages than the cluster's."""

    variables: dict[str, Variable] = msgspec.field(default_factory=dict)
    working_dir: str = ""
    installs: list[str] = msgspec.field(default_factory=list)


def read_runtime_env_file(path: str, directory: str = "") -> RuntimeEnv:
    """The runtime_env of a YAML file; a relative path is relative to `directory` (or to the current one).

    Raises BadInput when the file cannot be read or is refused by Ray, because `ray job submit` fails then.
    """
    text = read_text(os.path.join(directory, path), "the runtime_env file")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        plain = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"the runtime_env file {brief(path)}{_line_of(error)} is not YAML: {_reason(error)}") from error
    return _read(plain, f"the runtime_env file {brief(path)}", path, path, _lines(node))


def read_runtime_env_json(text: str) -> RuntimeEnv:
    """The runtime_env of `--runtime-env-json`; raises BadInput when Ray refuses it."""
    if len(text) > MAX_FILE_BYTES:
        raise BadInput(f"--runtime-env-json is larger than {MAX_FILE_BYTES // 1_000_000} MB")
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--runtime-env-json is not JSON: {_reason(error)}") from error
    return _read(plain, "--runtime-env-json", "--runtime-env-json", "", {})


def _read(plain: Any, what: str, label: str, path: str, lines: dict[str, int]) -> RuntimeEnv:
    if plain is None:
        return RuntimeEnv()
    if not isinstance(plain, dict):
        raise BadInput(f"{what} holds {type(plain).__name__}, not a mapping such as 'env_vars: ...': Ray refuses it")
    values = plain.get("env_vars") or {}
    if not isinstance(values, dict):
        raise BadInput(f"{what}: 'env_vars' is {type(values).__name__}, not a mapping of names to texts: Ray refuses it")
    variables: dict[str, Variable] = {}
    for name, value in values.items():
        line = lines.get(str(name))
        if not isinstance(name, str) or not isinstance(value, str):
            where = f", line {line}" if line else ""
            found = f"{brief(str(name))} in 'env_vars' is {type(value).__name__}, not text"
            raise BadInput(f"{what}{where}: {found}: Ray refuses it; put it in quotes")
        location = Location(path, line) if path else None
        variables[name] = node_variable(name, value, Source("runtime-env", label, location))
    working_dir = plain.get("working_dir")
    return RuntimeEnv(
        variables=variables,
        working_dir=working_dir if isinstance(working_dir, str) else "",
        installs=[option for option in _INSTALLS if plain.get(option)],
    )


def node_variable(name: str, value: str, source: Source) -> Variable:
    """A variable of a runtime_env; what it takes from the node's own environment is not known here."""
    reference = _REFERENCE.search(value)
    unknown = f"Ray replaces {reference[0]} by what the node has" if reference else ""
    return make_variable(name, value, source, unknown)


def _lines(node: yaml.Node | None) -> dict[str, int]:
    """The line of each name under `env_vars`."""
    entries = _entry(node, "env_vars")
    if not isinstance(entries, yaml.MappingNode):
        return {}
    return {str(key.value): key.start_mark.line + 1 for key, _ in entries.value if isinstance(key, yaml.ScalarNode)}


def _entry(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)


def _line_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}," if mark else ""


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = getattr(error, "problem", None) or str(error).splitlines()[0]
    return brief(str(text), 120).strip("'")
