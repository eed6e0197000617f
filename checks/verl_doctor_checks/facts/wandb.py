"""What wandb finds in files: its login, its settings files, and a module of its name in the working directory."""

from __future__ import annotations

import configparser
import os
import re
from typing import Any

import msgspec

from verl_doctor.api import Environment, Job, Secret, capture, fact, protect
from verl_doctor_checks.facts.small_files import home_of, path_variable, read_netrc, read_small, resolve, why_unseen

_SERVICE_SOCKET = re.compile(r"\d+-\d+-unix-(.+)")


class WandbLogin(msgspec.Struct, frozen=True, kw_only=True):
    """The netrc file that wandb reads: keys by machine. `unseen` says why it was not looked at."""

    unseen: str = ""
    path: str = ""
    keys: dict[str, Secret] = msgspec.field(default_factory=dict)
    problem: str = ""
    readable_by_others: bool = False


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    """One settings file of wandb: the values of its `default` section, or the problem that keeps wandb from reading it."""

    path: str
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    problem: str = ""


class WandbFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Settings files, weakest first; a local module that hides wandb; what two variables that name a file point to."""

    unseen: str = ""
    settings: list[SettingsFile] = msgspec.field(default_factory=list)
    hidden_by: str = ""
    service_socket_gone: bool = False
    identity_token_missing: bool = False


def _example_login(plain: dict[str, Any] | None) -> WandbLogin:
    plain = dict(plain or {})
    keys = {machine: capture(key) for machine, key in plain.pop("keys", {}).items()}
    return WandbLogin(path=plain.pop("path", "/home/user/.netrc" if keys else ""), keys=keys, **plain)


def _example_files(plain: dict[str, Any] | None) -> WandbFiles:
    plain = dict(plain or {})
    files = [
        SettingsFile(
            path=file["path"],
            values={key: protect(key, value) for key, value in file.get("values", {}).items()},
            problem=file.get("problem", ""),
        )
        for file in plain.pop("settings", [])
    ]
    return WandbFiles(settings=files, **plain)


@fact(example=_example_login)
def wandb_login(job: Job, environment: Environment) -> WandbLogin:
    """The login that `wandb login` stored (wandb 0.31.0, sdk/lib/wbauth/wbnetrc.py)."""
    unseen = why_unseen(environment, ("NETRC", "HOME"))
    if unseen:
        return WandbLogin(unseen=unseen)
    home = home_of(environment)
    named = path_variable(environment, "NETRC")
    candidates = [resolve(named, home, job.directory)] if named else [f"{home}/.netrc", f"{home}/_netrc"]
    for path in candidates:
        found = read_netrc(path)
        if found is not None:
            keys = {entry.machine: entry.password for entry in found.entries}
            return WandbLogin(path=path, keys=keys, problem=found.problem, readable_by_others=found.readable_by_others)
    return WandbLogin()


@fact(example=_example_files)
def wandb_files(job: Job, environment: Environment) -> WandbFiles:
    """The files beside the login (wandb 0.31.0, sdk/lib/settings_file.py and sdk/wandb_settings.py)."""
    variables = ("HOME", "WANDB_CONFIG_DIR", "WANDB_DIR", "WANDB_SERVICE", "WANDB_IDENTITY_TOKEN_FILE")
    unseen = why_unseen(environment, variables)
    if unseen:
        return WandbFiles(unseen=unseen)
    home = home_of(environment)
    config = path_variable(environment, "WANDB_CONFIG_DIR") or "~/.config/wandb"
    root = resolve(path_variable(environment, "WANDB_DIR") or ".", home, job.directory)
    folder = ".wandb" if os.path.exists(f"{root}/.wandb") else "wandb"
    paths = [os.path.join(resolve(config, home, job.directory), "settings"), os.path.join(root, folder, "settings")]
    socket = _SERVICE_SOCKET.fullmatch(path_variable(environment, "WANDB_SERVICE"))
    token = path_variable(environment, "WANDB_IDENTITY_TOKEN_FILE")
    return WandbFiles(
        settings=[file for file in map(_read_settings, paths) if file is not None],
        hidden_by=_hiding_module(resolve(".", home, job.directory)),
        service_socket_gone=socket is not None and not os.path.exists(socket[1]),
        identity_token_missing=bool(token) and not os.path.exists(resolve(token, home, job.directory)),
    )


def _read_settings(path: str) -> SettingsFile | None:
    file = read_small(path)
    if file is None:
        return None
    if file.problem:
        return SettingsFile(path=path, problem=file.problem)
    parser = configparser.ConfigParser()
    try:
        parser.read_string(file.text)
        values = dict(parser.items("default")) if parser.has_section("default") else {}
    except configparser.Error as error:
        # The text of the error is left out: it may quote a line that holds a key.
        return SettingsFile(path=path, problem=re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower())
    return SettingsFile(path=path, values={key: protect(key, value) for key, value in values.items()})


def _hiding_module(directory: str) -> str:
    """A module in the directory that `import wandb` finds before the installed one; a folder alone is not one."""
    for name in ("wandb.py", "wandb/__init__.py"):
        path = os.path.join(directory, name)
        is_a_checkout_of_wandb = os.path.isdir(os.path.join(directory, "wandb", "sdk"))
        if os.path.isfile(path) and not is_a_checkout_of_wandb:
            return path
    return ""
