"""Weights & Biases: credentials, modes, addresses, run identity, proxies and versions."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Iterator
from typing import Any

from verl_doctor.api import (
    Environment,
    Finding,
    Job,
    Packages,
    Secret,
    Severity,
    Undetermined,
    Variable,
    check,
    finding,
)
from verl_doctor_checks.addresses import host, host_and_port, is_http_url, is_loopback, shown
from verl_doctor_checks.facts.directories import Directory, named_by
from verl_doctor_checks.facts.reached import WandbViewer
from verl_doctor_checks.facts.wandb import WandbFiles, WandbLogin
from verl_doctor_checks.roots import was_asked
from verl_doctor_checks.trackers import generation_sinks, logs_to, validations
from verl_doctor_checks.variables import given, is_true, left_behind, secret

MODES = ("online", "offline", "shared", "disabled", "dryrun", "run")
LOCAL_MODES = {"offline", "dryrun", "disabled"}
RESUME_MODES = ("allow", "must", "never", "auto")

PUBLIC_HOSTS = {"api.wandb.ai", "api.forge.coreweave.com"}
FORGE_HOSTS = {"forge.coreweave.com", "qa.forge.coreweave.com"}

NEWEST = (999,)
PYDANTIC_SETTINGS = (0, 19)
"""From here on settings and variables are validated by pydantic when wandb starts (wandb, sdk/wandb_settings.py)."""
KEY_FORMAT_IS_CHECKED = (0, 25)
"""From here on a key from the environment or netrc is checked before any request (wandb 0.25.1, sdk/lib/wbauth/auth.py)."""
SETTINGS_ARE_ALL_OR_NOTHING = (0, 24, 1)
LAST_KNOWN = (0, 31)

KEY = "A" * 40
NETRC = {"keys": {"api.wandb.ai": KEY}}
ONLINE = {"WANDB_API_KEY": KEY}
GENERATIONS = {"trainer.logger": ["wandb"], "trainer.log_val_generations": 10, "trainer.test_freq": 5}
RO_FOLDER = {"named_by": "WANDB_DIR", "place": {"path": "/ro/wandb", "writable": False, "obstacle": "/ro is read-only"}}
RO_STAGING = RO_FOLDER | {"named_by": "WANDB_DATA_DIR"}
RO_CACHE = RO_FOLDER | {"named_by": "WANDB_CACHE_DIR"}


def _release(packages: Packages) -> tuple[int, ...]:
    """The release of wandb; the newest when it is not installed, which another check reports. Raises Undetermined."""
    return packages.release("wandb") or NEWEST


def known_release(packages: Packages) -> tuple[int, ...]:
    """As `_release`, but the newest also when the installed packages are not known."""
    return NEWEST if packages.unseen else _release(packages)


def applied_settings(files: WandbFiles, packages: Packages) -> dict[str, Any]:
    """The values of the settings files that count, the nearest file first. Raises Undetermined when they were not seen."""
    if files.unseen:
        raise Undetermined(f"the settings files of wandb were not looked at: {files.unseen}")
    if _unknown_settings(files, packages):
        return {}
    return {key: value for file in files.settings for key, value in file.values.items()}


def _mode(environment: Environment, files: WandbFiles, packages: Packages) -> str:
    """The mode in which wandb starts. Raises Undetermined."""
    if environment.given("WANDB_MODE") is not None or environment.unseen:
        return environment.text("WANDB_MODE")
    return str(applied_settings(files, packages).get("mode", "online"))


def records_online(environment: Environment, files: WandbFiles, packages: Packages) -> bool:
    mode = _mode(environment, files, packages)
    return mode in MODES and mode not in LOCAL_MODES


def _is_disabled(environment: Environment) -> bool:
    """Whether wandb certainly records nothing, so that what is wrong with the rest does no harm."""
    return environment.given("WANDB_MODE") is not None and environment.get("WANDB_MODE") == "disabled"


def server_url(environment: Environment, files: WandbFiles, packages: Packages) -> str:
    """The server that wandb talks to. Raises Undetermined."""
    if environment.given("WANDB_BASE_URL") is not None or environment.unseen:
        address = environment.text("WANDB_BASE_URL")
    else:
        address = str(applied_settings(files, packages).get("base_url", ""))
    if address:
        return address
    return "https://api.forge.coreweave.com" if known_release(packages) >= (0, 31) else "https://api.wandb.ai"


def netrc_machines(address: str, packages: Packages) -> set[str]:
    """The netrc machines whose key wandb takes for this server.

    0.23.1 and later match the host with its port, 0.16 to 0.22 without (measured with 0.16.6, 0.19.11, 0.22.3, 0.28.2, 0.31.0).
    """
    release = (0, 23) if packages.unseen else _release(packages)
    exact, bare = host_and_port(address), host(address)
    machines = {exact} if release >= (0, 23, 1) else {bare} if release < (0, 23) else {exact, bare}
    if bare in PUBLIC_HOSTS and (release >= (0, 31) or packages.unseen):
        machines |= PUBLIC_HOSTS
    return machines | {"default"}


def stored_key(login: WandbLogin, machines: set[str]) -> Secret | None:
    if login.unseen:
        raise Undetermined(f"the stored login of wandb was not looked at: {login.unseen}")
    found = [key for machine, key in login.keys.items() if machine in machines and machine != "default"]
    found += [key for machine, key in login.keys.items() if machine == "default"]
    return next((key for key in found if key), None)


@check(
    "WANDB001",
    "wandb-key-missing",
    tags={"logger", "wandb", "offline", "secrets"},
    good=[
        {"environment": ONLINE},
        {"environment": {"WANDB_MODE": "offline"}},
        {"environment": {"WANDB_MODE": "disabled"}},
        {"environment": {"WANDB_MODE": "dryrun"}},
        {"wandb_login": NETRC},
        {"wandb_login": NETRC, "packages": {"wandb": "0.22.2"}},
        {"wandb_login": {"keys": {"default": KEY}}},
        {"wandb_login": {"keys": {"api.forge.coreweave.com": KEY}}},
        {
            "environment": {"WANDB_BASE_URL": "http://wandb.lan:8080"},
            "wandb_login": {"keys": {"wandb.lan:8080": KEY}},
        },
        {"environment": {"WANDB_IDENTITY_TOKEN_FILE": "/var/run/token"}},
        {"environment": {"WANDB_API_KEY": KEY, "unseen": "the Ray cluster runs elsewhere"}},
        {"environment": {"WANDB_MODE": "offline", "unseen": "the Ray cluster runs elsewhere"}},
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "offline"}}]}},
        {"wandb_files": {"settings": [{"path": "/home/user/.config/wandb/settings", "values": {"api_key": KEY}}]}},
        {"job": {"trainer.logger": ["console"]}},
        {"job": {"kind": "generation"}},
        {"environment": {"WANDB_MODE": "Offline"}},
    ],
    bad=[
        {},
        {"environment": {"WANDB_API_KEY": ""}},
        {"environment": {"WANDB_MODE": "online"}},
        {"job": {"trainer.logger": "tracking"}},
        {"environment": {"left_behind": ONLINE}},
        {"wandb_login": {"path": "/home/user/.netrc", "problem": "syntax error on line 3"}},
        {"wandb_login": {"keys": {"wandb.ai": KEY}}},
        {"wandb_login": {"keys": {"api.forge.coreweave.com": KEY}}, "packages": {"wandb": "0.30.0"}},
        {
            "environment": {"WANDB_BASE_URL": "http://wandb.lan:8080"},
            "wandb_login": {"keys": {"wandb.lan:8080": KEY}},
            "packages": {"wandb": "0.22.2"},
        },
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "offline", "no_such": "1"}}]}},
    ],
)
def wandb_key_missing(
    job: Job, environment: Environment, packages: Packages, wandb_login: WandbLogin, wandb_files: WandbFiles
) -> Iterator[Finding]:
    """No W&B API key reaches the process that logs.

    verl starts wandb only after the workers, the model and the rollout engine are up. Without a key wandb.init() then raises
    "No API key configured" and the whole job ends; with a terminal attached, as in a local `docker run -it`, it waits for
    a login that nobody types. A key counts when it is in WANDB_API_KEY or in the netrc file under the very host of the server
    that is used; `wandb.ai` alone never matches. Offline and disabled runs need no key.

    Fix: export WANDB_API_KEY where Ray is started, or pass it in Ray's runtime_env, or run `wandb login` as the same user on
    the node that logs; or log with WANDB_MODE=offline and run `wandb sync` later.

    See: wandb 0.31.0 sdk/lib/wbauth/authenticate.py
         https://github.com/hiyouga/EasyR1/issues/69
    """
    if not logs_to(job, "wandb") or secret(environment, "WANDB_API_KEY") or given(environment, "WANDB_IDENTITY_TOKEN_FILE"):
        return
    if not records_online(environment, wandb_files, packages) or environment.get("WANDB_API_KEY"):
        return
    if known_release(packages) < KEY_FORMAT_IS_CHECKED and given(environment, "WANDB_ANONYMOUS") in {"must", "allow"}:
        return
    address = server_url(environment, wandb_files, packages)
    machines = netrc_machines(address, packages)
    if stored_key(wandb_login, machines) or applied_settings(wandb_files, packages).get("api_key"):
        return
    server = host_and_port(address)
    near = [name for name in wandb_login.keys if name != "default" and _is_near(name, server)]
    forgotten = environment.left_behind.get("WANDB_API_KEY")
    if forgotten is not None and forgotten.value:
        template = (
            "WANDB_API_KEY is set in the launching shell and does not reach the process that logs, which has no other key"
        )
    elif wandb_login.problem:
        template = "no W&B API key: WANDB_API_KEY is not set, and {path} is ignored ({problem})"
    elif near:
        template = "no W&B API key for {server}: {path} has one for {near}, which this wandb does not match with that server"
    else:
        template = "no W&B API key for {server}: WANDB_API_KEY is not set and no login is stored, so wandb.init() ends the job"
    yield finding(
        template,
        at=environment.given("WANDB_API_KEY") or forgotten or job.settings.get("trainer.logger"),
        fix="Export WANDB_API_KEY where Ray starts or pass it in runtime_env, or log with WANDB_MODE=offline",
        commands=["export WANDB_MODE=offline"],
        server=server,
        path=wandb_login.path,
        problem=wandb_login.problem,
        near=", ".join(near),
    )


def _is_near(machine: str, server: str) -> bool:
    """Whether a netrc machine was probably meant for this server."""
    return machine.partition(":")[0] == server.partition(":")[0] or machine in {*PUBLIC_HOSTS, "wandb.ai", "app.wandb.ai"}


LEFT_BEHIND = (
    "WANDB_API_KEY",
    "WANDB_MODE",
    "WANDB_BASE_URL",
    "WANDB_ENTITY",
    "WANDB_RUN_ID",
    "WANDB_RESUME",
    "WANDB_DIR",
    "WANDB_IDENTITY_TOKEN_FILE",
)


@check(
    "WANDB002",
    "wandb-variables-left-behind",
    tags={"logger", "wandb", "offline", "secrets"},
    severity=Severity.WARNING,
    good=[
        {"environment": ONLINE},
        {"environment": {"unseen": "the Ray cluster runs elsewhere"}},
        {"environment": {"WANDB_API_KEY": KEY, "unseen": "the Ray cluster runs elsewhere"}},
        {"environment": {"WANDB_MODE": "offline", "unseen": "elsewhere", "left_behind": {"WANDB_API_KEY": KEY}}},
        {"environment": {"left_behind": ONLINE}},
        {"job": {"trainer.logger": "console"}, "environment": {"unseen": "elsewhere", "left_behind": ONLINE}},
    ],
    bad=[
        {"environment": {"unseen": "the Ray cluster runs elsewhere", "left_behind": ONLINE}},
        {"environment": {"left_behind": {"WANDB_MODE": "offline"}}},
        {"environment": {"WANDB_API_KEY": KEY, "left_behind": {"WANDB_API_KEY": "B" * 40}}},
    ],
)
def wandb_variables_left_behind(job: Job, environment: Environment) -> Iterator[Finding]:
    """W&B settings of the launching shell do not reach the process that logs.

    In verl wandb runs in a Ray actor. An actor has the environment of the Ray node that it runs on, not that of the shell that
    submits the job, and verl forwards no tracking variable. A key, mode or run id that was exported after `ray start` is lost
    without a message, and the run fails, goes to another account or to another place.

    Fix: export the variables before `ray start` on every node, or pass them as
    `+ray_kwargs.ray_init.runtime_env.env_vars.NAME=VALUE` or with `ray job submit --runtime-env`; a key is better kept in a
    netrc file on the nodes, since verl logs its whole configuration.

    See: verl 0.9.1 verl/trainer/constants_ppo.py
         https://github.com/ray-project/ray/issues/30845
    """
    if not logs_to(job, "wandb"):
        return
    forgotten = left_behind(environment, LEFT_BEHIND)
    if given(environment, "WANDB_MODE") in LOCAL_MODES or not environment.unseen:
        # Without a key at all WANDB001 speaks; in a local mode no key is needed.
        forgotten = [v for v in forgotten if v.name != "WANDB_API_KEY" or _differs(environment, v)]
    if not forgotten:
        return
    yield finding(
        "{names} of the launching shell does not reach the process that logs, unless the Ray cluster was started with it"
        if environment.unseen
        else "{names} of the launching shell does not reach the process that logs: its Ray node was started without it",
        at=forgotten[0],
        fix="Export before `ray start` on every node, or pass it in Ray's runtime_env",
        names=", ".join(variable.name for variable in forgotten),
    )


def _differs(environment: Environment, forgotten: Variable) -> bool:
    return environment.given(forgotten.name) is not None and given(environment, "WANDB_MODE") not in LOCAL_MODES


@check(
    "WANDB003",
    "wandb-key-malformed",
    tags={"logger", "wandb", "offline", "secrets"},
    good=[
        {"environment": ONLINE},
        {"environment": {"WANDB_API_KEY": "local-" + KEY}},
        {"environment": {"WANDB_API_KEY": "other-prefix-" + KEY}},
        {"environment": {"WANDB_API_KEY": "wandb_v1_" + "A" * 77}},
        {"environment": {"WANDB_API_KEY": "aaa.bbb.ccc"}},
        {"environment": {"WANDB_API_KEY": "short"}, "packages": {"wandb": "0.22.2"}},
        {"environment": {"WANDB_API_KEY": "wandb_v1_" + "A" * 77}, "packages": {"wandb": "0.16.6"}},
        {"environment": {"WANDB_API_KEY": "short", "WANDB_MODE": "offline"}},
        {"wandb_login": NETRC},
    ],
    bad=[
        {"environment": {"WANDB_API_KEY": "A" * 39}},
        {"environment": {"WANDB_API_KEY": "123"}},
        {"environment": {"WANDB_API_KEY": "local-" + "A" * 39}},
        {"environment": {"WANDB_API_KEY": "A" * 39 + "!"}},
        {"environment": {"WANDB_API_KEY": "aaa.bbb.ccc"}, "packages": {"wandb": "0.25.1"}},
        {"wandb_login": {"keys": {"api.wandb.ai": "A" * 12}}},
    ],
)
def wandb_key_malformed(
    job: Job, environment: Environment, packages: Packages, wandb_login: WandbLogin, wandb_files: WandbFiles
) -> Iterator[Finding]:
    """The W&B API key does not have the form that the installed wandb accepts.

    wandb 0.25 and later look at the key before any request: after the first dash it must have at least 40 letters, digits,
    underscores or dashes (a JSON web token passes too since 0.28). Otherwise wandb.init() raises "WANDB_API_KEY invalid" when
    the GPUs are already allocated. Keys of 86 characters are the new normal form. Older clients send any key to the server.

    Fix: copy the whole key from the settings page of your W&B server.

    See: wandb 0.31.0 sdk/lib/wbauth/validation.py
    """
    if not logs_to(job, "wandb") or _release(packages) < KEY_FORMAT_IS_CHECKED:
        return
    variable = environment.given("WANDB_API_KEY")
    key = secret(environment, "WANDB_API_KEY")
    if key is None and not environment.unseen:
        machines = netrc_machines(server_url(environment, wandb_files, packages), packages)
        key = None if wandb_login.unseen else stored_key(wandb_login, machines)
    if key is None or key.is_placeholder or key.is_quoted or key.has_blank or _has_valid_form(key, packages):
        return
    if not records_online(environment, wandb_files, packages):
        return
    source = "WANDB_API_KEY" if variable else wandb_login.path
    yield finding(
        "the W&B key in {place} has {length} characters after its prefix, and wandb wants at least 40"
        if key.word_characters and key.body_length < 40
        else "the W&B key in {place} has a character that is not a letter, a digit, an underscore or a dash",
        at=variable,
        target=source,
        fix="Copy the whole key from the settings page of the W&B server",
        place=source,
        length=key.body_length,
    )


def _has_valid_form(key: Secret, packages: Packages) -> bool:
    if key.is_jwt and _release(packages) >= (0, 28):
        return True
    return key.word_characters and key.body_length >= 40


@check(
    "WANDB004",
    "wandb-key-placeholder",
    tags={"logger", "wandb", "offline", "secrets"},
    good=[
        {"environment": ONLINE},
        {"environment": {"WANDB_API_KEY": "YOUR_WANDB_API_KEY", "WANDB_MODE": "offline"}},
        {"environment": {"WANDB_API_KEY": ""}},
        {"environment": {"WANDB_API_KEY": "wandb_v1_" + "A" * 40 + "yoUr" + "A" * 33}},
    ],
    bad=[
        {"environment": {"WANDB_API_KEY": "YOUR_WANDB_API_KEY"}},
        {"environment": {"WANDB_API_KEY": "<key>"}},
        {"environment": {"WANDB_API_KEY": "..."}},
    ],
)
def wandb_key_placeholder(job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles) -> Iterator[Finding]:
    """WANDB_API_KEY still holds the placeholder of an example.

    Example scripts set WANDB_API_KEY to a text such as `YOUR_WANDB_API_KEY`. It hides the login that may be stored on the
    machine, and wandb refuses it: at once for its form or after a request to the server.

    Fix: put the real key into the environment, not into the script; or remove the line and use `wandb login`.

    See: verl main of January 2026, examples/sapo_trainer/run_qwen30b_sapo.sh
    """
    if not logs_to(job, "wandb"):
        return
    key = secret(environment, "WANDB_API_KEY")
    # A real key of 40 or more random characters may hold a word such as `your` by chance.
    if key is None or not key.is_placeholder or key.body_length >= 40:
        return
    if not records_online(environment, wandb_files, packages):
        return
    yield finding(
        "WANDB_API_KEY is the placeholder of an example, not a key",
        at=environment.given("WANDB_API_KEY"),
        fix="Set the real key outside the script, or remove the line and use `wandb login`",
    )


@check(
    "WANDB005",
    "wandb-key-quoted",
    tags={"logger", "wandb", "offline", "secrets"},
    good=[
        {"environment": ONLINE},
        {"environment": {"WANDB_API_KEY": f'"{KEY}"', "WANDB_MODE": "offline"}},
    ],
    bad=[
        {"environment": {"WANDB_API_KEY": f'"{KEY}"'}},
        {"environment": {"WANDB_API_KEY": f" {KEY}"}},
        {"environment": {"WANDB_API_KEY": f"{KEY}\r", "WANDB_MODE": "offline"}},
    ],
)
def wandb_key_quoted(job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles) -> Iterator[Finding]:
    """WANDB_API_KEY contains its quotes, or a blank at one end.

    Quotes that an env file or a YAML list keeps become part of the key, and no server knows it. A blank, or the carriage
    return of a file with Windows line ends, makes wandb stop at once, in offline and disabled mode too.

    Fix: write the key without quotes in env files; remove blanks and carriage returns (`dos2unix`).

    See: wandb 0.31.0 sdk/wandb_settings.py (`validate_api_key`)
    """
    if not logs_to(job, "wandb"):
        return
    key = secret(environment, "WANDB_API_KEY")
    if key is None or key.is_placeholder:
        return
    if key.has_blank:
        template = "WANDB_API_KEY begins or ends with a blank or a line end, which wandb refuses in every mode"
    elif key.is_quoted and records_online(environment, wandb_files, packages):
        template = "the quotes around WANDB_API_KEY have become part of the key"
    else:
        return
    yield finding(
        template,
        at=environment.given("WANDB_API_KEY"),
        fix="Write the key without quotes and blanks",
    )


@check(
    "WANDB006",
    "wandb-two-credentials",
    tags={"logger", "wandb", "offline", "secrets"},
    good=[
        {"environment": ONLINE},
        {"environment": {"WANDB_IDENTITY_TOKEN_FILE": "/t"}},
        {"environment": {"WANDB_API_KEY": KEY, "WANDB_IDENTITY_TOKEN_FILE": "/t"}, "packages": {"wandb": "0.22.2"}},
        {"environment": {"WANDB_API_KEY": KEY, "WANDB_IDENTITY_TOKEN_FILE": "/t", "WANDB_MODE": "disabled"}},
        {"environment": {"WANDB_API_KEY": "", "WANDB_IDENTITY_TOKEN_FILE": "/t"}},
    ],
    bad=[{"environment": {"WANDB_API_KEY": KEY, "WANDB_IDENTITY_TOKEN_FILE": "/t"}}],
)
def wandb_two_credentials(job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles) -> Iterator[Finding]:
    """Both WANDB_API_KEY and WANDB_IDENTITY_TOKEN_FILE are set.

    wandb does not choose between the two: it raises AuthenticationError.

    Fix: unset one of them.

    See: wandb 0.31.0 sdk/lib/wbauth/authenticate.py
    """
    if (
        not logs_to(job, "wandb")
        or not secret(environment, "WANDB_API_KEY")
        or not given(environment, "WANDB_IDENTITY_TOKEN_FILE")
    ):
        return
    if _release(packages) < KEY_FORMAT_IS_CHECKED or not records_online(environment, wandb_files, packages):
        return
    yield finding(
        "WANDB_API_KEY and WANDB_IDENTITY_TOKEN_FILE are both set, which wandb refuses",
        at=environment.given("WANDB_IDENTITY_TOKEN_FILE"),
        fix="Unset one of them",
        commands=["unset WANDB_IDENTITY_TOKEN_FILE"],
    )


@check(
    "WANDB007",
    "wandb-mode-invalid",
    tags={"logger", "wandb", "offline"},
    good=[{}, *[{"environment": {"WANDB_MODE": mode}} for mode in MODES]],
    bad=[
        {"environment": {"WANDB_MODE": "Offline"}},
        {"environment": {"WANDB_MODE": "off"}},
        {"environment": {"WANDB_MODE": ""}},
        {"environment": {"WANDB_MODE": "offline "}},
        {"environment": {"WANDB_MODE": "local"}},
    ],
)
def wandb_mode_invalid(job: Job, environment: Environment) -> Iterator[Finding]:
    """WANDB_MODE has a value that wandb does not know.

    wandb compares the value exactly, capitals and blanks included, and an empty value is not the same as none. Anything else
    than online, offline, shared, disabled, dryrun and run ends the job in wandb.init().

    Fix: write the mode in small letters, or unset the variable.

    See: wandb 0.31.0 sdk/wandb_settings.py (`mode`)
    """
    variable = environment.given("WANDB_MODE")
    if not logs_to(job, "wandb") or variable is None:
        return
    mode = environment.text("WANDB_MODE")
    if mode in MODES:
        return
    close = difflib.get_close_matches(mode.strip().strip("\"'").lower(), MODES, n=1, cutoff=0.5)
    meant = {"off": "offline", "local": "offline", "false": "disabled", "cloud": "online"}.get(mode.lower())
    suggestion = meant or (close[0] if close else "offline")
    yield finding(
        'WANDB_MODE is "{mode}", which wandb refuses; it knows {modes}',
        at=variable,
        fix="Write `export WANDB_MODE={suggestion}`, or unset it for online",
        commands=[f"export WANDB_MODE={suggestion}"],
        mode=mode,
        modes=", ".join(MODES),
        suggestion=suggestion,
    )


@check(
    "WANDB008",
    "wandb-mode-disabled",
    tags={"logger", "wandb", "offline"},
    severity=Severity.WARNING,
    good=[{"environment": {"WANDB_MODE": "offline"}}, {"environment": ONLINE}, {"job": {"trainer.logger": "console"}}],
    bad=[{"environment": {"WANDB_MODE": "disabled"}}],
)
def wandb_mode_disabled(job: Job, environment: Environment) -> Iterator[Finding]:
    """wandb is a logger of this job, and WANDB_MODE=disabled throws everything away.

    In disabled mode wandb writes no file and sends nothing. verl trains on without a message, and nothing can be synced later.

    Fix: use WANDB_MODE=offline to keep the run on disk, or take wandb out of `trainer.logger`.

    See: wandb 0.31.0 sdk/wandb_settings.py (`mode`)
    """
    if logs_to(job, "wandb") and _is_disabled(environment):
        yield finding(
            "wandb is in trainer.logger, and WANDB_MODE=disabled makes it record nothing at all",
            at=environment.given("WANDB_MODE"),
            fix="Use WANDB_MODE=offline, or take wandb out of trainer.logger",
            commands=["export WANDB_MODE=offline"],
        )


@check(
    "WANDB009",
    "wandb-disabled-has-no-effect",
    tags={"logger", "wandb", "offline"},
    severity=Severity.WARNING,
    good=[
        {},
        {"environment": {"WANDB_DISABLED": "false"}},
        {"environment": {"WANDB_DISABLED": "true", "WANDB_MODE": "disabled"}},
        {"environment": {"WANDB_DISABLED": "true", "WANDB_MODE": "offline"}},
    ],
    bad=[{"environment": {"WANDB_DISABLED": "true"}}, {"environment": {"WANDB_DISABLED": "1", "WANDB_MODE": "online"}}],
)
def wandb_disabled_has_no_effect(job: Job, environment: Environment) -> Iterator[Finding]:
    """WANDB_DISABLED does not turn wandb off.

    WANDB_DISABLED is read by the Trainer of transformers, not by wandb itself and not by verl: the run is made and goes online.

    Fix: take wandb out of `trainer.logger`, or set WANDB_MODE=disabled or WANDB_MODE=offline.

    See: wandb 0.31.0 sdk/wandb_settings.py (no such setting)
    """
    if not logs_to(job, "wandb") or not is_true(given(environment, "WANDB_DISABLED")):
        return
    if given(environment, "WANDB_MODE") not in LOCAL_MODES:
        yield finding(
            "WANDB_DISABLED does not turn wandb off in verl: the run goes online all the same",
            at=environment.given("WANDB_DISABLED"),
            fix="Take wandb out of trainer.logger, or set WANDB_MODE=offline",
            commands=["export WANDB_MODE=offline"],
        )


@check(
    "WANDB010",
    "wandb-base-url-invalid",
    tags={"logger", "wandb", "proxy", "offline"},
    good=[
        {},
        *[
            {"environment": {"WANDB_BASE_URL": address}}
            for address in (
                "https://api.wandb.ai",
                "https://api.wandb.ai/",
                "http://10.0.0.7:8080",
                "http://localhost:8080",
                "https://wandb.example.com/prefix",
                "https://wandb.ai.example.com",
                "http://wandb.example.ai",
                "https://forge.coreweave.com/api/wandb",
                "https://api.forge.coreweave.com",
            )
        ],
        {"environment": {"WANDB_BASE_URL": "https://forge.coreweave.com"}, "packages": {"wandb": "0.30.0"}},
    ],
    bad=[
        {"environment": {"WANDB_BASE_URL": address}}
        for address in (
            "https://wandb.ai",
            "https://wandb.ai/team",
            "https://app.wandb.ai",
            "http://api.wandb.ai",
            "api.wandb.ai",
            "localhost:8080",
            "https//wandb.example.com",
            "http:/wandb.example.com",
            '"https://wandb.example.com"',
            " https://wandb.example.com",
            "https://wandb.example.com:99999",
            "",
            "https://forge.coreweave.com",
        )
    ],
)
def wandb_base_url_invalid(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """WANDB_BASE_URL is an address that wandb refuses.

    wandb checks the address when it starts, in every mode, and ends the job with a ValidationError. It must begin with http://
    or https://, without quotes and blanks. The page that people open in the browser, wandb.ai, is not the server
    that clients talk to.

    Fix: unset the variable for the public server, or give the root of your own server, `https://host[:port]`.

    See: wandb 0.31.0 sdk/wandb_settings.py (`validate_base_url`) and sdk/lib/urls.py
    """
    variable = environment.given("WANDB_BASE_URL")
    if not logs_to(job, "wandb") or variable is None:
        return
    address = environment.text("WANDB_BASE_URL")
    if not _is_url(address):
        template = 'WANDB_BASE_URL is "{address}", which is not an address with http:// or https:// and a host'
    elif re.match(r".*wandb\.ai[^\.]*$", address) and "api." not in address:
        template = 'WANDB_BASE_URL is "{address}", the web page; clients talk to another host'
    elif re.match(r".*wandb\.ai[^\.]*$", address) and not address.startswith("https"):
        template = 'WANDB_BASE_URL is "{address}"; the public server takes https only'
    elif host(address) in FORGE_HOSTS and not _is_forge_proxy(address) and known_release(packages) >= (0, 31):
        template = 'WANDB_BASE_URL is "{address}", the web page; clients talk to another host'
    else:
        return
    yield finding(
        template,
        at=variable,
        fix="Unset WANDB_BASE_URL for the public server, or give the root of your own server, such as https://wandb.example.com",
        address=shown(address),
    )


def _is_url(address: str) -> bool:
    port = host_and_port(address).rpartition(":")[2] if not host_and_port(address).endswith("]") else ""
    return is_http_url(address) and (not port.isdigit() or int(port) <= 65535)


def _is_forge_proxy(address: str) -> bool:
    return address.startswith(f"https://{host(address)}/api/wandb")


@check(
    "WANDB011",
    "wandb-base-url-graphql",
    tags={"logger", "wandb", "proxy"},
    good=[{}, {"environment": {"WANDB_BASE_URL": "https://wandb.example.com"}}],
    bad=[
        {"environment": {"WANDB_BASE_URL": "https://api.wandb.ai/graphql"}},
        {"environment": {"WANDB_BASE_URL": "http://wandb.lan:8080/graphql/"}},
    ],
)
def wandb_base_url_graphql(job: Job, environment: Environment) -> Iterator[Finding]:
    """WANDB_BASE_URL ends in /graphql, which wandb appends itself.

    wandb accepts the address and then asks `/graphql/graphql`, which no server has: wandb.init() ends with a 404.

    Fix: leave out `/graphql`.

    See: wandb 0.31.0 sdk/wandb_settings.py (`base_url`)
    """
    if not logs_to(job, "wandb"):
        return
    address = given(environment, "WANDB_BASE_URL")
    root = re.sub(r"/graphql/*$", "", address)
    if root != address and given(environment, "WANDB_MODE") not in LOCAL_MODES:
        yield finding(
            'WANDB_BASE_URL is "{address}"; wandb appends /graphql itself, so every request will answer 404',
            at=environment.given("WANDB_BASE_URL"),
            fix="Set it to {root}",
            commands=[f"export WANDB_BASE_URL={shlex.quote(shown(root))}"],
            address=shown(address),
            root=shown(root),
        )


@check(
    "WANDB012",
    "wandb-local-key-public-server",
    tags={"logger", "wandb", "secrets"},
    severity=Severity.WARNING,
    good=[
        {"environment": ONLINE},
        {"environment": {"WANDB_API_KEY": "local-" + KEY, "WANDB_BASE_URL": "http://10.0.0.7:8080"}},
        {"environment": {"WANDB_API_KEY": "local-" + KEY, "WANDB_MODE": "offline"}},
        {
            "environment": {"WANDB_API_KEY": "local-" + KEY},
            "wandb_files": {"settings": [{"path": "/s", "values": {"base_url": "https://wandb.example.com"}}]},
        },
    ],
    bad=[
        {"environment": {"WANDB_API_KEY": "local-" + KEY}},
        {"environment": {"WANDB_API_KEY": "local-" + KEY, "WANDB_BASE_URL": "https://api.wandb.ai"}},
    ],
)
def wandb_local_key_public_server(
    job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles
) -> Iterator[Finding]:
    """The key is one of a self-hosted W&B server, and the run goes to the public one.

    Keys that begin with `local-` are made by self-hosted servers. Without WANDB_BASE_URL wandb sends the key to the public
    server, which does not know it.

    Fix: set WANDB_BASE_URL to the address of your server.

    See: https://github.com/wandb/wandb/issues/558
    """
    key = secret(environment, "WANDB_API_KEY") if logs_to(job, "wandb") else None
    if key is None or key.prefix != "local" or not records_online(environment, wandb_files, packages):
        return
    server = host(server_url(environment, wandb_files, packages))
    if server in PUBLIC_HOSTS:
        yield finding(
            "WANDB_API_KEY begins with `local-`, as keys of self-hosted servers do, but the run goes to {server}",
            at=environment.given("WANDB_API_KEY"),
            fix="Set WANDB_BASE_URL to the address of your server",
            server=server,
        )


@check(
    "WANDB013",
    "wandb-project-name",
    tags={"logger", "wandb", "names"},
    good=[
        {"job": {"trainer.project_name": "verl_examples"}},
        {"job": {"trainer.project_name": "a b 项目 + (1)"}},
        {"job": {"trainer.project_name": "x" * 128}},
        {"job": {"trainer.project_name": None}},
        {"job": {"trainer.project_name": "org/p", "trainer.logger": "console"}},
    ],
    bad=[
        {"job": {"trainer.project_name": "org/p"}},
        {"job": {"trainer.project_name": "50%"}},
        {"job": {"trainer.project_name": "a:b"}},
        {"job": {"trainer.project_name": "x" * 129}},
    ],
)
def wandb_project_name(job: Job) -> Iterator[Finding]:
    """The project name is one that wandb refuses.

    verl passes `trainer.project_name` to wandb.init() as the project. wandb allows 128 characters and none of / \\ # ? % and
    the colon, in every mode, and ends the job otherwise. An entity does not belong into the name.

    Fix: rename the project; the entity goes into WANDB_ENTITY.

    See: wandb 0.31.0 sdk/wandb_settings.py (`validate_project`)
    """
    name = job.get("trainer.project_name") if logs_to(job, "wandb") else None
    if not isinstance(name, str):
        return
    wrong = sorted(set(name) & set("/\\#?%:"))
    if wrong or len(name) > 128:
        yield finding(
            'trainer.project_name "{name}" contains {characters}, which wandb refuses'
            if wrong
            else "trainer.project_name has {length} characters, and wandb allows 128",
            at=job.settings["trainer.project_name"],
            fix="Use a name such as {suggestion}; an entity goes into WANDB_ENTITY",
            name=name,
            characters=" ".join(wrong),
            length=len(name),
            suggestion=re.sub(r"[/\\#?%:]+", "_", name)[:128],
        )


@check(
    "WANDB014",
    "wandb-run-id-invalid",
    tags={"logger", "wandb", "names", "resume"},
    good=[
        {},
        {"environment": {"WANDB_RUN_ID": "job-1234_a.b"}},
        {"environment": {"WANDB_RUN_ID": "a b"}},
        {"environment": {"WANDB_RUN_ID": "a/b"}, "packages": {"wandb": "0.16.6"}},
    ],
    bad=[
        {"environment": {"WANDB_RUN_ID": ""}},
        {"environment": {"WANDB_RUN_ID": "team/run"}},
        {"environment": {"WANDB_RUN_ID": "12:30"}},
        {"environment": {"WANDB_RUN_ID": " a"}},
    ],
)
def wandb_run_id_invalid(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """WANDB_RUN_ID is one that wandb refuses.

    A run id must not be empty, must not begin or end with a blank, and must not contain : ; , # ? / or a single quote. wandb
    ends the job otherwise, in every mode. An empty variable counts: unset it instead.

    Fix: use letters, digits, dashes and underscores.

    See: wandb 0.31.0 sdk/wandb_settings.py (`validate_run_id`)
    """
    variable = environment.given("WANDB_RUN_ID")
    if not logs_to(job, "wandb") or variable is None or known_release(packages) < (0, 21):
        return
    run_id = environment.text("WANDB_RUN_ID")
    wrong = sorted(set(run_id) & set(":;,#?/'"))
    if wrong:
        template = 'WANDB_RUN_ID "{run_id}" contains {characters}, which wandb refuses'
    elif not run_id:
        template = "WANDB_RUN_ID is set and empty, which wandb refuses; unset it for a new run"
    elif run_id != run_id.strip():
        template = 'WANDB_RUN_ID "{run_id}" begins or ends with a blank, which wandb refuses'
    else:
        return
    yield finding(
        template,
        at=variable,
        fix="Use letters, digits, dashes and underscores, or unset it",
        run_id=run_id,
        characters=" ".join(wrong),
    )


@check(
    "WANDB015",
    "wandb-run-id-overwrites",
    tags={"logger", "wandb", "resume"},
    severity=Severity.WARNING,
    good=[
        {},
        {"environment": {"WANDB_RUN_ID": "run1", "WANDB_RESUME": "allow"}},
        {"environment": {"WANDB_RUN_ID": "run1", "WANDB_RESUME": "never"}},
        {"environment": {"WANDB_RUN_ID": "run1", "WANDB_MODE": "disabled"}},
        {"environment": {"WANDB_RUN_ID": ""}},
    ],
    bad=[{"environment": {"WANDB_RUN_ID": "run1"}}],
)
def wandb_run_id_overwrites(
    job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles
) -> Iterator[Finding]:
    """WANDB_RUN_ID is set without WANDB_RESUME: a run of that id is overwritten.

    wandb does not ask the server whether the run exists unless WANDB_RESUME is set. A restart with the same id begins at step 0
    and replaces the history that is already there, without a message.

    Fix: set WANDB_RESUME=allow to go on with the run, or WANDB_RESUME=never to be stopped instead.

    See: https://github.com/wandb/wandb/pull/12253
         https://github.com/verl-project/verl/issues/2783
    """
    if not logs_to(job, "wandb") or not given(environment, "WANDB_RUN_ID").strip() or _is_disabled(environment):
        return
    if environment.get("WANDB_RESUME") is None and "resume" not in applied_settings(wandb_files, packages):
        yield finding(
            'WANDB_RUN_ID is "{run_id}" and WANDB_RESUME is not set: a run of this id that exists is overwritten from step 0',
            at=environment.given("WANDB_RUN_ID"),
            fix="Set WANDB_RESUME=allow to continue the run, or never to be stopped",
            commands=["export WANDB_RESUME=allow"],
            run_id=given(environment, "WANDB_RUN_ID"),
        )


@check(
    "WANDB016",
    "wandb-resume-invalid",
    tags={"logger", "wandb", "resume"},
    good=[
        {},
        *[{"environment": {"WANDB_RESUME": value}} for value in RESUME_MODES],
        {"environment": {"WANDB_RESUME": "true"}, "packages": {"wandb": "0.16.6"}},
    ],
    bad=[
        {"environment": {"WANDB_RESUME": "true"}},
        {"environment": {"WANDB_RESUME": "Allow"}},
        {"environment": {"WANDB_RESUME": ""}},
    ],
)
def wandb_resume_invalid(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """WANDB_RESUME has a value that wandb does not know.

    Only allow, must, never and auto are accepted, in small letters; `true` works as an argument in Python but not in the
    environment, and an empty value is refused too. The job ends in wandb.init(), in every mode.

    Fix: set WANDB_RESUME=allow, or unset it.

    See: wandb 0.31.0 sdk/wandb_settings.py (`resume`)
    """
    variable = environment.given("WANDB_RESUME")
    if not logs_to(job, "wandb") or variable is None or known_release(packages) < PYDANTIC_SETTINGS:
        return
    value = environment.text("WANDB_RESUME")
    if value not in RESUME_MODES:
        yield finding(
            'WANDB_RESUME is "{value}", which wandb refuses; it knows {known}',
            at=variable,
            fix="Set WANDB_RESUME=allow, or unset it",
            commands=["export WANDB_RESUME=allow"],
            value=value,
            known=", ".join(RESUME_MODES),
        )


@check(
    "WANDB017",
    "wandb-resume-resumes-nothing",
    tags={"logger", "wandb", "resume"},
    severity=Severity.WARNING,
    good=[
        {},
        {"environment": {"WANDB_RESUME": "allow", "WANDB_RUN_ID": "run1"}},
        {"environment": {"WANDB_RESUME": "auto"}},
        {"environment": {"WANDB_RESUME": "never"}},
        {"environment": {"WANDB_RESUME": "never", "WANDB_RUN_ID": "r"}, "job": {"trainer.resume_mode": "disable"}},
    ],
    bad=[
        {"environment": {"WANDB_RESUME": "allow"}},
        {"environment": {"WANDB_RESUME": "must"}},
        {"environment": {"WANDB_RESUME": "never", "WANDB_RUN_ID": "run1"}},
    ],
)
def wandb_resume_resumes_nothing(job: Job, environment: Environment) -> Iterator[Finding]:
    """WANDB_RESUME does not do what a restarted training needs.

    Without WANDB_RUN_ID every start makes a fresh run id, so `allow` and `must` have no run to go on with. With `never` and a
    fixed id the first start works, and every restart, which verl's `resume_mode=auto` invites, is refused by wandb.

    Fix: set WANDB_RUN_ID together with WANDB_RESUME=allow.

    See: https://github.com/verl-project/verl/issues/2783
    """
    if not logs_to(job, "wandb") or _is_disabled(environment):
        return
    resume = given(environment, "WANDB_RESUME")
    fix, commands = "Set WANDB_RUN_ID together with WANDB_RESUME=allow", ["export WANDB_RESUME=allow"]
    if resume in {"allow", "must"} and not environment.get("WANDB_RUN_ID"):
        yield finding(
            "WANDB_RESUME={resume} without WANDB_RUN_ID resumes nothing: every start gets a new run id",
            at=environment.given("WANDB_RESUME"),
            fix=fix,
            resume=resume,
        )
    elif resume == "never" and given(environment, "WANDB_RUN_ID") and job.get("trainer.resume_mode", "auto") != "disable":
        yield finding(
            "with WANDB_RESUME=never and a fixed WANDB_RUN_ID a restart of this job is refused, because the run exists by then",
            at=environment.given("WANDB_RESUME"),
            fix=fix,
            commands=commands,
            severity=Severity.INFO,
        )


PROXY_VARIABLES = ("WANDB_HTTPS_PROXY", "WANDB_HTTP_PROXY")


@check(
    "WANDB018",
    "wandb-proxy-invalid",
    tags={"logger", "wandb", "proxy"},
    good=[
        {},
        {"job": {"trainer.wandb_proxy": "http://proxy:8080"}},
        {"job": {"trainer.wandb_proxy": "https://proxy:8443"}},
        {"job": {"trainer.wandb_proxy": "http://user:word@proxy:8080"}},
        {"job": {"trainer.wandb_proxy": None}},
        {"job": {"trainer.wandb_proxy": ""}},
        {"job": {"trainer.wandb_proxy": "proxy:1", "trainer.logger": "console"}},
        {"job": {"trainer.wandb_proxy": "proxy:1", "verl": "0.3.0.post1"}},
        {"environment": {"HTTPS_PROXY": "http://proxy:8080"}},
        {"environment": {"WANDB_HTTPS_PROXY": "http://proxy:8080"}},
    ],
    bad=[
        {"job": {"trainer.wandb_proxy": "proxy:8080"}},
        {"job": {"trainer.wandb_proxy": "socks5://proxy:1080"}},
        {"job": {"trainer.wandb_proxy": 8080}},
        {"environment": {"WANDB_HTTPS_PROXY": "10.0.0.1:3128"}},
        {"environment": {"WANDB_HTTP_PROXY": ""}},
    ],
)
def wandb_proxy_invalid(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """The proxy for wandb is not an http:// or https:// address.

    verl hands `trainer.wandb_proxy` to wandb as its https_proxy setting, and wandb checks it: without http:// or https://, or
    with a socks scheme, it raises a ValidationError and the job ends, offline too. The same holds for WANDB_HTTPS_PROXY and
    WANDB_HTTP_PROXY, also when they are empty. The value of HTTPS_PROXY is not checked this way.

    Fix: write `+trainer.wandb_proxy=http://host:port`. For a socks proxy set HTTPS_PROXY instead.

    See: verl 0.9.1 verl/utils/tracking.py and docs/faq/faq.rst
         wandb 0.31.0 sdk/wandb_settings.py (`validate_https_proxy`)
    """
    if not logs_to(job, "wandb") or known_release(packages) < PYDANTIC_SETTINGS:
        return
    setting = job.settings.get("trainer.wandb_proxy")
    proxy = job.get("trainer.wandb_proxy")
    if setting is not None and proxy and job.verl.release >= (0, 4, 1) and not is_http_url(str(proxy)):
        yield _bad_proxy("trainer.wandb_proxy", str(proxy), setting)
    for name in PROXY_VARIABLES:
        variable = environment.given(name)
        if variable is not None and not is_http_url(environment.text(name)):
            yield _bad_proxy(name, environment.text(name), variable)


def _bad_proxy(name: str, value: str, at: Any) -> Finding:
    return finding(
        '{name} is "{value}"; wandb accepts only http:// and https:// addresses and ends the job',
        at=at,
        fix="Write http://host:port; for a socks proxy set HTTPS_PROXY instead",
        name=name,
        value=shown(value),
    )


@check(
    "WANDB019",
    "wandb-proxy-needs-newer-wandb",
    tags={"logger", "wandb", "proxy"},
    good=[
        {"job": {"trainer.wandb_proxy": "http://proxy:8080"}},
        {"packages": {"wandb": "0.16.6"}},
        {"job": {"trainer.wandb_proxy": "http://proxy:8080"}, "packages": {"wandb": "0.17.9"}},
    ],
    bad=[{"job": {"trainer.wandb_proxy": "http://proxy:8080"}, "packages": {"wandb": "0.16.6"}}],
)
def wandb_proxy_needs_newer_wandb(job: Job, packages: Packages) -> Iterator[Finding]:
    """The installed wandb has no setting for `trainer.wandb_proxy`.

    verl passes the proxy as `wandb.Settings(https_proxy=...)`. wandb 0.16 does not know this setting and raises, which ends the
    job before the first step.

    Fix: upgrade wandb, or export HTTPS_PROXY for the process that logs instead.

    See: verl 0.9.1 verl/utils/tracking.py
         wandb 0.16.6 sdk/wandb_settings.py
    """
    if not logs_to(job, "wandb") or not job.get("trainer.wandb_proxy") or job.verl.release < (0, 4, 1):
        return
    if _release(packages) < (0, 17):
        yield finding(
            "wandb {version} has no https_proxy setting, so trainer.wandb_proxy makes verl's call fail",
            at=job.settings["trainer.wandb_proxy"],
            fix="Upgrade wandb, or export HTTPS_PROXY instead",
            commands=["pip install -U wandb"],
            version=packages.version("wandb"),
        )


@check(
    "WANDB020",
    "wandb-service-left-over",
    tags={"logger", "wandb", "offline"},
    severity=Severity.WARNING,
    good=[
        {},
        {"environment": {"WANDB_SERVICE": ""}},
        {"environment": {"WANDB_SERVICE": "3-12-unix-/tmp/s", "WANDB_MODE": "disabled"}},
    ],
    bad=[
        {"environment": {"WANDB_SERVICE": "3-12-unix-/tmp/wandb-12/socket"}, "wandb_files": {"service_socket_gone": True}},
        {"environment": {"WANDB_SERVICE": "3-12-unix-/tmp/wandb-12/socket"}},
        {"environment": {"WANDB_SERVICE": "garbage"}},
    ],
)
def wandb_service_left_over(job: Job, environment: Environment, wandb_files: WandbFiles) -> Iterator[Finding]:
    """WANDB_SERVICE is set: wandb would join the helper process of another program.

    wandb puts the address of its running helper process into WANDB_SERVICE for its own children. When the variable leaks into
    another job, through Ray, `sbatch --export=ALL` or a check that ran before, wandb.init() connects to a process that is gone
    or belongs to somebody else: it raises, or two programs collide in one run. Offline runs are hit too.

    Fix: unset WANDB_SERVICE before the launch.

    See: wandb 0.31.0 sdk/lib/service/service_token.py
         https://github.com/modal-projects/training-gym/issues/515
    """
    token = given(environment, "WANDB_SERVICE") if logs_to(job, "wandb") else ""
    if not token or _is_disabled(environment):
        return
    known = re.match(r"\d+-\d+-(unix|tcp)-", token) is not None
    certain = wandb_files.service_socket_gone or not known
    yield finding(
        "WANDB_SERVICE points to a wandb helper process that does not exist: wandb.init() fails at once"
        if certain
        else "WANDB_SERVICE is set: wandb joins the helper process of another program, or fails when that has ended",
        at=environment.given("WANDB_SERVICE"),
        fix="Unset WANDB_SERVICE before the launch",
        commands=["unset WANDB_SERVICE"],
        severity=Severity.ERROR if certain else None,
    )


@check(
    "WANDB021",
    "wandb-mode-left-in-settings",
    tags={"logger", "wandb", "offline"},
    severity=Severity.WARNING,
    good=[
        {},
        {
            "environment": {"WANDB_MODE": "offline"},
            "wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "offline"}}]},
        },
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "online"}}]}},
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "offline", "no_such": "1"}}]}},
        {"wandb_files": {"unseen": "the Ray cluster runs elsewhere"}},
    ],
    bad=[
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "offline"}}]}},
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "disabled"}}]}},
    ],
)
def wandb_mode_left_in_settings(
    job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles
) -> Iterator[Finding]:
    """A settings file in the working directory keeps wandb offline or disabled.

    `wandb offline` and `wandb disabled` write the mode into ./wandb/settings, where it stays. Every later run that starts in
    that folder is offline, or records nothing, without WANDB_MODE being set.

    Fix: run `wandb online` in that folder, or set WANDB_MODE, which goes first.

    See: wandb 0.31.0 cli/cli.py and sdk/lib/settings_file.py
    """
    if not logs_to(job, "wandb") or wandb_files.unseen or environment.given("WANDB_MODE") is not None:
        return
    if applied_settings(wandb_files, packages).get("mode") not in LOCAL_MODES:
        return
    file = next(file for file in reversed(wandb_files.settings) if "mode" in file.values)
    disabled = file.values["mode"] == "disabled"
    yield finding(
        "{path} sets wandb's mode to {mode}: nothing is recorded, and nobody set WANDB_MODE"
        if disabled
        else "{path} sets wandb's mode to {mode}: the run stays on this machine, and nobody set WANDB_MODE",
        target=file.path,
        fix="Run `wandb online` in that folder, or set WANDB_MODE to what is meant",
        commands=["wandb online"],
        path=file.path,
        mode=file.values["mode"],
    )


_KNOWN_SETTINGS = """
allow_media_symlink allow_offline_artifacts allow_val_change anonymous api_key app_url_override
azure_account_url_to_access_key base_url capture_loggers code_dir config_paths console console_chunk_max_bytes
console_chunk_max_seconds console_multipart credentials_file disable_code disable_git disable_git_fork_point
disable_job_creation docker email entity finish_timeout finish_timeout_raises force fork_from git_commit git_remote
git_remote_url git_root heartbeat_seconds host http_proxy https_proxy identity_token_file ignore_globs init_timeout
insecure_disable_ssl job_name job_source label_disable launch launch_config_path login_timeout
max_end_of_run_history_metrics max_end_of_run_summary_metrics mode notebook_name organization program program_abspath
program_relpath project quiet reinit relogin resume resume_from resumed root_dir run_group run_id run_job_type run_name
run_notes run_tags sagemaker_disable save_code settings_system show_colors show_emoji show_errors show_info
show_warnings silent start_method stop_fn stop_on_fatal_error strict summary_timeout summary_warnings sweep_id
sweep_param_path symlink sync_tensorboard table_raise_on_max_row_limit_exceeded use_dot_wandb username
"""
KNOWN_SETTINGS = frozenset(_KNOWN_SETTINGS.split())
"""The settings of wandb 0.25.1 to 0.31.0 that do not begin with `x_` (sdk/wandb_settings.py of each)."""


def _unknown_settings(files: WandbFiles, packages: Packages) -> list[tuple[str, str]]:
    """Path and key of each setting that makes wandb drop all settings files; empty where that is not certain."""
    release = known_release(packages)
    if release < SETTINGS_ARE_ALL_OR_NOTHING or LAST_KNOWN < release[:2] < NEWEST:
        return []
    wrong = []
    for file in files.settings:
        for key, value in file.values.items():
            unknown = key not in KNOWN_SETTINGS and not key.startswith(("_", "x_"))
            if unknown or (key == "mode" and value not in MODES) or (key == "base_url" and not _is_url(str(value))):
                wrong.append((file.path, key))
    return wrong


@check(
    "WANDB022",
    "wandb-settings-ignored",
    tags={"logger", "wandb", "offline"},
    severity=Severity.WARNING,
    good=[
        {},
        {"wandb_files": {"settings": [{"path": "/s", "values": {"mode": "offline", "_disable_stats": "true", "entity": "t"}}]}},
        {"wandb_files": {"settings": [{"path": "/s", "values": {"no_such": "1"}}]}, "packages": {"wandb": "0.22.2"}},
        {"wandb_files": {"settings": [{"path": "/s", "values": {"brand_new": "1"}}]}, "packages": {"wandb": "0.40.0"}},
        {"wandb_files": {"unseen": "the Ray cluster runs elsewhere"}},
    ],
    bad=[
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "offline", "disabled": "true"}}]}},
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "values": {"mode": "Offline"}}]}},
        {"wandb_files": {"settings": [{"path": "/work/wandb/settings", "problem": "parsing error"}]}},
    ],
)
def wandb_settings_ignored(job: Job, packages: Packages, wandb_files: WandbFiles) -> Iterator[Finding]:
    """wandb cannot use a settings file, and with it ignores the others too.

    Since 0.24.1 one unknown key, or one value that is not allowed, in either settings file makes wandb print an error and go on
    with neither file: a mode, server or key that is written there has no effect, so a run that should be offline goes online.

    Fix: remove the line, or the file.

    See: wandb 0.31.0 sdk/wandb_settings.py (`update_from_system_settings`)
    """
    if not logs_to(job, "wandb") or wandb_files.unseen:
        return
    for file in wandb_files.settings:
        if file.problem:
            yield finding(
                "wandb cannot read {path} ({problem}) and goes on without it",
                target=file.path,
                fix="Repair or remove {path}",
                path=file.path,
                problem=file.problem,
            )
    for path, key in _unknown_settings(wandb_files, packages):
        yield finding(
            "{path} has a setting that wandb refuses, {key}: wandb ignores all its settings files for it",
            target=path,
            fix="Remove or correct the line in {path}",
            path=path,
            key=key,
        )


TIMEOUTS = (
    "WANDB_INIT_TIMEOUT",
    "WANDB_LOGIN_TIMEOUT",
    "WANDB_HTTP_TIMEOUT",
    "WANDB_FILE_PUSHER_TIMEOUT",
    "WANDB__SERVICE_WAIT",
    "WANDB_X_SERVICE_WAIT",
)


@check(
    "WANDB023",
    "wandb-timeout-not-a-number",
    tags={"logger", "wandb"},
    good=[
        {},
        {"environment": {"WANDB_INIT_TIMEOUT": "300", "WANDB_HTTP_TIMEOUT": "1.5", "WANDB__SERVICE_WAIT": " 60 "}},
        {"environment": {"WANDB_INIT_TIMEOUT": "2m"}, "packages": {"wandb": "0.16.6"}},
    ],
    bad=[
        {"environment": {"WANDB_INIT_TIMEOUT": "2m"}},
        {"environment": {"WANDB_INIT_TIMEOUT": ""}},
        {"environment": {"WANDB__SERVICE_WAIT": "abc"}},
        {"environment": {"WANDB_X_SERVICE_WAIT": "-1"}},
    ],
)
def wandb_timeout_not_a_number(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """A timeout of wandb is not a number of seconds.

    wandb reads these variables when it starts and ends the job with a ValidationError when one is not a number. A unit such as
    `2m` is not understood, and an empty value is refused too.

    Fix: give plain seconds, or unset the variable.

    See: wandb 0.31.0 sdk/wandb_settings.py (`update_from_env_vars`)
    """
    if not logs_to(job, "wandb") or known_release(packages) < PYDANTIC_SETTINGS:
        return
    for name in TIMEOUTS:
        variable = environment.given(name)
        if variable is None:
            continue
        seconds = _number(environment.text(name))
        if seconds is None or (name.endswith("SERVICE_WAIT") and seconds < 0):
            yield finding(
                '{name} is "{value}", which is not a number of seconds: wandb.init() ends the job',
                at=variable,
                fix="Give plain seconds, such as 300, or unset it",
                commands=[f"export {name}=300"],
                name=name,
                value=environment.text(name),
            )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


USER_VARIABLES = (
    "WANDB_API_KEY",
    "WANDB_BASE_URL",
    "WANDB_CACHE_DIR",
    "WANDB_CONFIG_DIR",
    "WANDB_CONSOLE",
    "WANDB_DATA_DIR",
    "WANDB_DIR",
    "WANDB_ENTITY",
    "WANDB_IDENTITY_TOKEN_FILE",
    "WANDB_INIT_TIMEOUT",
    "WANDB_MODE",
    "WANDB_NAME",
    "WANDB_NOTES",
    "WANDB_PROJECT",
    "WANDB_RESUME",
    "WANDB_RUN_GROUP",
    "WANDB_RUN_ID",
    "WANDB_SILENT",
    "WANDB_TAGS",
)
OTHER_VARIABLES = {
    "WANDB_ARTIFACTS_DIR",
    "WANDB_DEBUG",
    "WANDB_HOST",
    "WANDB_LOG_MODEL",
    "WANDB_QUIET",
    "WANDB_RUN_DIR",
    "WANDB_RUN_NAME",
    "WANDB_SERVICE",
    "WANDB_TRACE",
    "WANDB_WATCH",
}
WELL_KNOWN_SLIPS = {"WANDB_KEY": "WANDB_API_KEY", "WANDB_GROUP": "WANDB_RUN_GROUP", "WANDB_URL": "WANDB_BASE_URL"}


@check(
    "WANDB024",
    "wandb-variable-misspelt",
    tags={"logger", "wandb", "names"},
    severity=Severity.INFO,
    good=[
        {},
        {"environment": dict.fromkeys(USER_VARIABLES, "1")},
        {"environment": {"WANDB_PROJECT_NAME": "p", "WANDB_WATCH": "false", "WANDB_X_LABEL": "a", "WANDB_RUN_TAGS": "a"}},
        {"environment": {"WANDB_APIKEY": KEY, "WANDB_API_KEY": KEY}},
    ],
    bad=[
        {"environment": {"WANDB_APIKEY": KEY}},
        {"environment": {"WANDB_MOD": "offline"}},
        {"environment": {"WANDB_TAG": "a"}},
        {"environment": {"WANDB_GROUP": "a"}},
    ],
)
def wandb_variable_misspelt(job: Job, environment: Environment) -> Iterator[Finding]:
    """A variable has almost the name of one that wandb reads.

    wandb ignores variables that it does not know, without a message, so a slip in the name has no effect at all.

    Fix: correct the name.

    See: wandb 0.31.0 sdk/wandb_settings.py (`update_from_env_vars`)
    """
    if not logs_to(job, "wandb"):
        return
    for name, variable in environment.variables.items():
        if not name.startswith("WANDB_") or name in USER_VARIABLES or name in OTHER_VARIABLES:
            continue
        key = name.removeprefix("WANDB_").lower()
        if key in KNOWN_SETTINGS or key.startswith(("_", "x_")):
            continue
        close = difflib.get_close_matches(name, USER_VARIABLES, n=1, cutoff=0.92)
        meant = WELL_KNOWN_SLIPS.get(name) or (close[0] if close else "")
        if meant and environment.given(meant) is None:
            yield finding(
                "wandb does not read {name}; {meant} may be meant",
                at=variable,
                fix="Rename it to {meant}, if that is meant",
                name=name,
                meant=meant,
            )


@check(
    "WANDB025",
    "wandb-identity-token-missing",
    tags={"logger", "wandb", "secrets"},
    good=[
        {},
        {"environment": {"WANDB_IDENTITY_TOKEN_FILE": "/t"}},
        {
            "environment": {"WANDB_IDENTITY_TOKEN_FILE": "/t", "WANDB_MODE": "disabled"},
            "wandb_files": {"identity_token_missing": True},
        },
    ],
    bad=[{"environment": {"WANDB_IDENTITY_TOKEN_FILE": "/t"}, "wandb_files": {"identity_token_missing": True}}],
)
def wandb_identity_token_missing(job: Job, environment: Environment, wandb_files: WandbFiles) -> Iterator[Finding]:
    """WANDB_IDENTITY_TOKEN_FILE names a file that does not exist.

    wandb reads the identity token from that file when it starts, in offline mode too, and the job ends when it is not there.

    Fix: mount or create the token where the variable points, or unset the variable.

    See: wandb 0.31.0 sdk/lib/wbauth/auth.py
    """
    if not logs_to(job, "wandb") or _is_disabled(environment) or not wandb_files.identity_token_missing:
        return
    yield finding(
        "WANDB_IDENTITY_TOKEN_FILE names {path}, which does not exist",
        at=environment.given("WANDB_IDENTITY_TOKEN_FILE"),
        fix="Create the token file there, or unset the variable",
        path=environment.text("WANDB_IDENTITY_TOKEN_FILE"),
    )


@check(
    "WANDB026",
    "wandb-fork-deadlock",
    tags={"logger", "wandb"},
    severity=Severity.WARNING,
    good=[
        {},
        {"packages": {"wandb": "0.28.1"}},
        {"packages": {"wandb": "0.25.0"}},
        {"packages": {"wandb": "0.27.1"}, "environment": {"WANDB_MODE": "disabled"}},
    ],
    bad=[{"packages": {"wandb": "0.25.1"}}, {"packages": {"wandb": "0.28.0"}}],
)
def wandb_fork_deadlock(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """This wandb can deadlock a process that forks after wandb.init().

    From 0.25.1 to 0.28.0 a process that was forked after wandb.init(), such as the worker of a DataLoader before Python 3.14,
    can wait for ever for a lock. verl starts wandb before it reads its data, so the training stands still with idle GPUs.

    Fix: use wandb 0.28.1 or later.

    See: https://github.com/wandb/wandb/issues/12079
         https://github.com/wandb/wandb/pull/12114
    """
    if logs_to(job, "wandb") and not _is_disabled(environment) and (0, 25, 1) <= _release(packages) < (0, 28, 1):
        yield finding(
            "wandb {version} can deadlock DataLoader workers that are forked after wandb.init()",
            target="wandb",
            fix="Use wandb 0.28.1 or later",
            commands=['pip install "wandb>=0.28.1"'],
            version=packages.version("wandb"),
        )


@check(
    "WANDB027",
    "wandb-release-loses-data",
    tags={"logger", "wandb"},
    severity=Severity.WARNING,
    good=[{}, {"packages": {"wandb": "0.24.1"}}, {"packages": {"wandb": None}}],
    bad=[{"packages": {"wandb": "0.24.0"}}],
)
def wandb_release_loses_data(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """wandb 0.24.0 can leave data of a run unsent.

    The change log of 0.24.1 says that 0.24.0 can leave data behind that was not uploaded; `wandb sync` sends it later.

    Fix: use another release.

    See: wandb 0.24.1 CHANGELOG.md
    """
    if logs_to(job, "wandb") and not _is_disabled(environment) and packages.version("wandb") == "0.24.0":
        yield finding(
            "wandb 0.24.0 can leave data of a run unsent",
            target="wandb",
            fix="Use wandb 0.24.1 or later; `wandb sync` sends what is missing of old runs",
            commands=['pip install "wandb>0.24.0"'],
        )


@check(
    "WANDB028",
    "wandb-too-old-for-numpy",
    tags={"logger", "wandb"},
    good=[
        {},
        {"packages": {"wandb": "0.16.6", "numpy": "1.26.4"}},
        {"packages": {"wandb": "0.31.0", "numpy": "2.4.6"}},
        {"packages": {"wandb": "0.16.6"}},
    ],
    bad=[{"packages": {"wandb": "0.16.6", "numpy": "2.1.0"}}],
)
def wandb_too_old_for_numpy(job: Job, packages: Packages) -> Iterator[Finding]:
    """The installed wandb cannot be imported with this NumPy.

    wandb 0.16 uses `numpy.float_`, which NumPy 2 has removed, so `import wandb` raises in the process that logs.

    Fix: upgrade wandb.

    See: wandb 0.16.6 (measured with numpy 2)
    """
    if not logs_to(job, "wandb") or _release(packages) >= (0, 17):
        return
    numpy = packages.release("numpy")
    if numpy is not None and numpy >= (2,):
        yield finding(
            "wandb {version} cannot be imported with numpy {numpy}",
            target="wandb",
            fix="Upgrade wandb",
            commands=["pip install -U wandb"],
            version=packages.version("wandb"),
            numpy=packages.version("numpy"),
        )


@check(
    "WANDB029",
    "wandb-all-proxy-ignored",
    tags={"logger", "wandb", "proxy"},
    severity=Severity.WARNING,
    good=[
        {},
        {"environment": {"ALL_PROXY": "http://p:1", "https_proxy": "http://p:1"}},
        {"environment": {"ALL_PROXY": "http://p:1", "WANDB_MODE": "offline"}},
        {"environment": {"ALL_PROXY": "http://p:1", "WANDB_BASE_URL": "http://localhost:8080"}},
        {"environment": {"all_proxy": "http://p:1"}, "job": {"trainer.wandb_proxy": "http://p:1"}},
        {"environment": {"ALL_PROXY": "http://p:1"}, "packages": {"wandb": "0.16.6"}},
        {"environment": {"ALL_PROXY": "http://p:1", "HTTP_PROXY": "http://p:1", "WANDB_BASE_URL": "http://w.lan"}},
    ],
    bad=[
        {"environment": {"ALL_PROXY": "http://p:1"}},
        {"environment": {"all_proxy": "socks5://p:1", "HTTP_PROXY": "http://p:1"}},
    ],
)
def wandb_all_proxy_ignored(
    job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles
) -> Iterator[Finding]:
    """Only ALL_PROXY is set, which wandb does not use.

    The helper process of wandb is written in Go and reads HTTPS_PROXY and HTTP_PROXY, in capitals or small letters, and not
    ALL_PROXY. On a machine that reaches the network through that proxy only, wandb.init() waits and then ends the job.

    Fix: export HTTPS_PROXY with the same value, or set `+trainer.wandb_proxy=http://host:port` for wandb alone.

    See: wandb 0.31.0 (measured with a logging proxy)
    """
    variable = environment.given("ALL_PROXY") or environment.given("all_proxy")
    if not logs_to(job, "wandb") or variable is None or not given(environment, variable.name) or job.get("trainer.wandb_proxy"):
        return
    if _release(packages) < (0, 18) or not records_online(environment, wandb_files, packages):
        return
    address = server_url(environment, wandb_files, packages)
    kind = "HTTP" if address.lower().startswith("http:") else "HTTPS"
    used = (f"{kind}_PROXY", f"{kind.lower()}_proxy", f"WANDB_{kind}_PROXY")
    if is_loopback(address) or any(environment.get(name) for name in used):
        return
    yield finding(
        "{name} is set and {wanted} is not: wandb ignores {name} and connects directly",
        at=variable,
        fix="Export {wanted} with the same value, or set +trainer.wandb_proxy",
        commands=[f'export {kind}_PROXY="${variable.name}"'],
        name=variable.name,
        wanted=f"{kind}_PROXY",
    )


@check(
    "WANDB030",
    "wandb-ca-bundle-ignored",
    tags={"logger", "wandb", "proxy"},
    severity=Severity.WARNING,
    good=[
        {},
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem", "SSL_CERT_FILE": "/ca.pem"}},
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem", "SSL_CERT_DIR": "/ca"}},
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem", "WANDB_MODE": "offline"}},
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem", "WANDB_BASE_URL": "http://10.0.0.7:8080"}},
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem"}, "packages": {"wandb": "0.16.6"}},
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem", "WANDB_INSECURE_DISABLE_SSL": "true"}},
    ],
    bad=[
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem", "WANDB_BASE_URL": "https://wandb.example.com"}},
        {"environment": {"REQUESTS_CA_BUNDLE": "/ca.pem"}},
    ],
)
def wandb_ca_bundle_ignored(
    job: Job, environment: Environment, packages: Packages, wandb_files: WandbFiles
) -> Iterator[Finding]:
    """REQUESTS_CA_BUNDLE is set without SSL_CERT_FILE, and wandb reads only the latter.

    REQUESTS_CA_BUNDLE is for Python's requests. The helper process of wandb takes certificates from SSL_CERT_FILE or
    SSL_CERT_DIR: with a private certificate authority wandb.init() fails with "x509: certificate signed by unknown authority",
    although other programs in the same shell work.

    Fix: export both variables with the same file.

    See: wandb 0.31.0 and 0.22.2 (measured with a private certificate authority)
         https://github.com/wandb/wandb/issues/3700
    """
    if not logs_to(job, "wandb") or not given(environment, "REQUESTS_CA_BUNDLE") or _release(packages) < (0, 18):
        return
    if not records_online(environment, wandb_files, packages) or is_true(given(environment, "WANDB_INSECURE_DISABLE_SSL")):
        return
    address = server_url(environment, wandb_files, packages)
    if not address.lower().startswith("https:") or environment.get("SSL_CERT_FILE") or environment.get("SSL_CERT_DIR"):
        return
    yield finding(
        "REQUESTS_CA_BUNDLE is set and SSL_CERT_FILE is not: wandb does not see the extra certificates",
        at=environment.given("REQUESTS_CA_BUNDLE"),
        fix="Export SSL_CERT_FILE with the same file",
        commands=['export SSL_CERT_FILE="$REQUESTS_CA_BUNDLE"'],
        severity=Severity.INFO if host(address) in PUBLIC_HOSTS else None,
    )


@check(
    "WANDB031",
    "wandb-login-readable",
    tags={"logger", "wandb", "secrets"},
    severity=Severity.INFO,
    good=[{}, {"wandb_login": NETRC}, {"wandb_login": {"keys": {"other.host": KEY}, "readable_by_others": True}}],
    bad=[{"wandb_login": NETRC | {"readable_by_others": True}}],
)
def wandb_login_readable(job: Job, wandb_login: WandbLogin) -> Iterator[Finding]:
    """Other users can read the file that holds the W&B key.

    wandb writes the netrc file for its owner only, but reads it with any mode. On a shared machine everybody can use the key.

    Fix: `chmod 600` the file.

    See: wandb 0.31.0 sdk/lib/wbauth/wbnetrc.py
    """
    holds_key = any("wandb" in machine or machine in PUBLIC_HOSTS for machine in wandb_login.keys)
    if logs_to(job, "wandb") and wandb_login.readable_by_others and holds_key:
        yield finding(
            "{path} holds a W&B key and other users can read it",
            target=wandb_login.path,
            fix="Make it readable for you alone",
            commands=[f"chmod 600 {shlex.quote(wandb_login.path)}"],
            path=wandb_login.path,
        )


@check(
    "WANDB032",
    "wandb-module-hidden",
    tags={"logger", "wandb"},
    good=[
        {},
        {"wandb_files": {"hidden_by": "/work/wandb.py"}, "job": {"trainer.logger": "console"}},
        {"wandb_files": {"hidden_by": "/work/wandb.py"}, "job": {"kind": "sft", "command": ["torchrun", "/opt/train.py"]}},
    ],
    bad=[{"wandb_files": {"hidden_by": "/work/wandb.py"}}, {"wandb_files": {"hidden_by": "/work/wandb/__init__.py"}}],
)
def wandb_module_hidden(job: Job, wandb_files: WandbFiles) -> Iterator[Finding]:
    """A module called wandb in the working directory hides the installed one.

    `python -m` and Ray put the working directory first on the search path. With a `wandb.py` or `wandb/__init__.py` there,
    `import wandb` finds it, and verl ends with "module 'wandb' has no attribute 'init'". A folder `wandb` without
    `__init__.py`, in which runs are kept, does no harm.

    Fix: rename the file or folder.

    See: https://github.com/wandb/wandb/issues/5950
    """
    from_a_script = bool(job.command) and "-m" not in job.command and not job.uses_ray
    if logs_to(job, "wandb") and wandb_files.hidden_by and not from_a_script:
        yield finding(
            "{path} hides the installed wandb: verl imports it instead",
            target=wandb_files.hidden_by,
            fix="Rename it",
            path=wandb_files.hidden_by,
        )


ASKED = {"server": "api.wandb.ai:443", "url": "https://api.wandb.ai"}


@check(
    "WANDB050",
    "wandb-key-refused",
    tags={"logger", "wandb", "network", "secrets"},
    good=[
        {},
        {"wandb_viewer": {"verdict": "accepted"}},
        {"wandb_viewer": {"verdict": "trouble", "status": 500}},
        {"wandb_viewer": {"verdict": "forbidden", "status": 403}},
    ],
    bad=[
        {"wandb_viewer": {"verdict": "refused", "status": 401, "key_from": "WANDB_API_KEY", "reach": ASKED}},
        {"wandb_viewer": {"verdict": "refused", "status": 401, "key_from": "/home/user/.netrc"}},
    ],
)
def wandb_key_refused(environment: Environment, wandb_viewer: WandbViewer) -> Iterator[Finding]:
    """The W&B server does not accept the key.

    It answers 401: the key is mistyped, was revoked, or belongs to another server. wandb.init() then raises, after the model
    and the rollout engine are up, and the job ends.

    Fix: copy the key anew from the settings page of that very server; with a server of one's own also set WANDB_BASE_URL.

    See: wandb 0.31.0, measured: CommError with the server's message
    """
    if was_asked(wandb_viewer.reach) and wandb_viewer.verdict == "refused":
        yield finding(
            "{server} does not accept the key from {place} (status 401): wandb.init() will end the job",
            at=environment.given(wandb_viewer.key_from),
            target=wandb_viewer.key_from,
            fix="Copy the key anew from the settings page of {server}, or set WANDB_BASE_URL to the server that it is for",
            evidence={"url": wandb_viewer.reach.url},
            server=wandb_viewer.reach.server,
            place=wandb_viewer.key_from,
        )


@check(
    "WANDB051",
    "wandb-key-without-account",
    tags={"logger", "wandb", "network", "secrets"},
    severity=Severity.WARNING,
    good=[{}, {"wandb_viewer": {"verdict": "accepted"}}, {"wandb_viewer": {"verdict": ""}}],
    bad=[{"wandb_viewer": {"verdict": "no-account", "status": 200, "key_from": "WANDB_API_KEY", "reach": ASKED}}],
)
def wandb_key_without_account(environment: Environment, wandb_viewer: WandbViewer) -> Iterator[Finding]:
    """The W&B server takes the request, and knows no account for the key.

    `wandb login` fails on this answer ("did not recognize an account"). wandb.init() goes on, and creating the run is refused
    unless the server lets anonymous users write.

    Fix: copy the key anew from the settings page of that very server.

    See: wandb 0.31.0 sdk/lib/wbauth (measured)
    """
    if was_asked(wandb_viewer.reach) and wandb_viewer.verdict == "no-account":
        yield finding(
            "{server} knows no account for the key from {place}",
            at=environment.given(wandb_viewer.key_from),
            target=wandb_viewer.key_from,
            fix="Copy the key anew from the settings page of {server}",
            server=wandb_viewer.reach.server,
            place=wandb_viewer.key_from,
        )


@check(
    "WANDB052",
    "wandb-access-forbidden",
    tags={"logger", "wandb", "network", "secrets"},
    good=[{}, {"wandb_viewer": {"verdict": "accepted"}}, {"wandb_viewer": {"verdict": "refused", "status": 401}}],
    bad=[
        {
            "wandb_viewer": {
                "verdict": "forbidden",
                "status": 403,
                "key_from": "WANDB_API_KEY",
                "reach": {"probe": {"status": 403, "excerpt": "permission denied"}},
            }
        }
    ],
)
def wandb_access_forbidden(wandb_viewer: WandbViewer) -> Iterator[Finding]:
    """The W&B server or a gateway before it forbids the request.

    It answers 403 to the plainest question, who the key is: the account is suspended, the address of this machine is not on an
    allow-list, or a gateway wants something else first. wandb.init() raises "permission denied".

    Fix: ask whoever runs the server or the gateway; the text of the answer says which of them spoke.

    See: wandb 0.31.0 (measured)
    """
    if was_asked(wandb_viewer.reach) and wandb_viewer.verdict == "forbidden":
        probe = wandb_viewer.reach.probe
        yield finding(
            '{server} forbids every request (status 403): "{excerpt}"',
            target=wandb_viewer.reach.server,
            fix="Ask whoever runs the server, or the gateway before it, to let this account and machine in",
            server=wandb_viewer.reach.server,
            excerpt=probe.excerpt if probe else "",
        )


@check(
    "WANDB053",
    "wandb-entity-not-a-team",
    tags={"logger", "wandb", "network", "names"},
    severity=Severity.WARNING,
    good=[
        {},
        {"environment": {"WANDB_ENTITY": "lab"}, "wandb_viewer": {"verdict": "accepted", "teams": ["me", "lab"]}},
        {"environment": {"WANDB_ENTITY": "Lab"}, "wandb_viewer": {"verdict": "accepted", "teams": ["me", "lab"]}},
        {"environment": {"WANDB_ENTITY": "lab"}, "wandb_viewer": {"verdict": "accepted", "teams": []}},
        {"environment": {"WANDB_ENTITY": ""}, "wandb_viewer": {"verdict": "accepted", "teams": ["me"]}},
    ],
    bad=[{"environment": {"WANDB_ENTITY": "other-lab"}, "wandb_viewer": {"verdict": "accepted", "teams": ["me", "lab"]}}],
)
def wandb_entity_not_a_team(environment: Environment, wandb_viewer: WandbViewer) -> Iterator[Finding]:
    """WANDB_ENTITY is none of the teams of the key's account.

    The run would belong to a team in which the account has no seat; the server then answers 403 "permission denied" to
    upsertBucket without naming the entity. Only an administrator of a server of one's own may write everywhere.

    Fix: correct or unset WANDB_ENTITY, or have the account added to the team.

    See: https://github.com/wandb/wandb/issues/8609
         https://github.com/wandb/wandb/issues/9156
    """
    entity = given(environment, "WANDB_ENTITY")
    if not was_asked(wandb_viewer.reach) or not entity or not wandb_viewer.teams:
        return
    if entity.lower() not in {team.lower() for team in wandb_viewer.teams}:
        yield finding(
            'the account of the W&B key has no team "{entity}": the server will refuse the run (403)',
            at=environment.given("WANDB_ENTITY"),
            fix="Use one of {teams}, unset WANDB_ENTITY, or have the account added to the team",
            entity=entity,
            teams=", ".join(wandb_viewer.teams[:10]),
        )


SERVER_FLOORS = (((0, 28, 1), (0, 70)), ((0, 28), (0, 65)), ((0, 26), (0, 63)))
"""Clients, and the oldest W&B Server that they work with (wandb CHANGELOG of each release)."""


@check(
    "WANDB054",
    "wandb-server-too-old",
    tags={"logger", "wandb", "network"},
    severity=Severity.WARNING,
    good=[
        {},
        {"wandb_viewer": {"verdict": "accepted", "server_version": "0.70.1"}},
        {"wandb_viewer": {"verdict": "accepted", "server_version": "0.60.0"}, "packages": {"wandb": "0.25.1"}},
        {"wandb_viewer": {"verdict": "accepted", "server_version": ""}},
    ],
    bad=[
        {"wandb_viewer": {"verdict": "accepted", "server_version": "0.66.0"}},
        {"wandb_viewer": {"verdict": "accepted", "server_version": "v0.62.2"}, "packages": {"wandb": "0.27.0"}},
    ],
)
def wandb_server_too_old(packages: Packages, wandb_viewer: WandbViewer) -> Iterator[Finding]:
    """The W&B server is older than the installed wandb supports.

    wandb 0.26, 0.28.0 and 0.28.1 each dropped older servers of one's own. Runs may fail to start, or lack files and tables.

    Fix: upgrade the server, or install an older wandb.

    See: wandb CHANGELOG 0.26.0, 0.28.0, 0.28.1
    """
    if not was_asked(wandb_viewer.reach) or not wandb_viewer.server_version:
        return
    release = packages.release("wandb") or ()
    numbers = tuple(int(part) for part in re.findall(r"\d+", wandb_viewer.server_version)[:2])
    wanted = next((floor for client, floor in SERVER_FLOORS if release >= client), None)
    if wanted is not None and numbers < wanted:
        yield finding(
            "wandb {version} wants W&B Server {wanted} or later, and {server} is {found}",
            target="wandb",
            fix="Upgrade the server, or install an older wandb",
            version=packages.version("wandb"),
            wanted=".".join(map(str, wanted)),
            server=wandb_viewer.reach.server,
            found=wandb_viewer.server_version,
        )


@check(
    "WANDB055",
    "wandb-server-in-trouble",
    tags={"logger", "wandb", "network"},
    severity=Severity.WARNING,
    good=[{}, {"wandb_viewer": {"verdict": "accepted"}}],
    bad=[
        {"wandb_viewer": {"verdict": "trouble", "status": 500, "reach": ASKED}},
        {"wandb_viewer": {"verdict": "trouble", "status": 429, "reach": ASKED}},
    ],
)
def wandb_server_in_trouble(wandb_viewer: WandbViewer) -> Iterator[Finding]:
    """The W&B server answers that it cannot serve requests now.

    With 5xx or 429 wandb retries until its init_timeout, 90 seconds by default, and then ends the job; the text speaks of a
    busy service. It may pass by itself.

    Fix: try again later, look at the status page of the server, or log with WANDB_MODE=offline and sync afterwards.

    See: wandb 0.31.0 (measured)
    """
    if was_asked(wandb_viewer.reach) and wandb_viewer.verdict == "trouble":
        yield finding(
            "{server} answers status {status}: if that lasts, wandb.init() ends the job",
            target=wandb_viewer.reach.server,
            fix="Try again later, or log with WANDB_MODE=offline and sync afterwards",
            server=wandb_viewer.reach.server,
            status=wandb_viewer.status,
        )


@check(
    "WANDB070",
    "wandb-folder-falls-back",
    tags={"logger", "wandb", "disk", "offline"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.logger": ["wandb"]}, "directories": [{"named_by": "WANDB_DIR", "place": {"path": "/w/wandb"}}]},
        {"job": {"trainer.logger": ["wandb"]}, "environment": {"WANDB_MODE": "disabled"}, "directories": [RO_FOLDER]},
        {"job": {"trainer.logger": ["console"]}},
    ],
    bad=[{"job": {"trainer.logger": ["wandb"]}, "directories": [RO_FOLDER]}],
)
def wandb_folder_falls_back(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """W&B cannot write to the folder for its runs, and will use a temporary one.

    It prints one warning and goes on in the system's temporary folder. What has not been uploaded is lost with the container or
    at the next boot, offline runs entirely, and nobody finds the run where it is looked for.

    Fix: set WANDB_DIR to a folder that the job may write to.

    See: wandb 0.31.0 sdk/wandb_settings.py (measured: /tmp/wandb)
    """
    folder = named_by(directories, "WANDB_DIR")
    if folder is None or folder.place.writable or not logs_to(job, "wandb") or _is_disabled(environment):
        return
    yield finding(
        "W&B cannot write to {path} ({obstacle}): the run goes to a temporary folder, with a warning only",
        at=environment.given("WANDB_DIR"),
        target="WANDB_DIR",
        fix="Set WANDB_DIR to a folder that the job may write to",
        path=folder.place.path,
        obstacle=folder.place.obstacle,
    )


@check(
    "WANDB071",
    "wandb-staging-not-writable",
    tags={"logger", "wandb", "disk", "generations", "offline"},
    good=[
        {"job": GENERATIONS, "directories": [{"named_by": "WANDB_DATA_DIR", "place": {"path": "/home/u/.local/share/wandb"}}]},
        {"job": {"trainer.logger": ["wandb"]}, "directories": [RO_STAGING]},
        {"job": GENERATIONS | {"trainer.logger": ["console"]}, "directories": [RO_STAGING]},
        {"job": GENERATIONS, "environment": {"WANDB_MODE": "disabled"}, "directories": [RO_STAGING]},
    ],
    bad=[{"job": GENERATIONS, "directories": [RO_STAGING]}],
)
def wandb_staging_not_writable(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """The folder in which W&B stages tables cannot be written to, and the job logs generations as tables.

    Tables are copied to WANDB_DATA_DIR, ~/.local/share/wandb by default, wherever WANDB_DIR is. When that is read-only, `log`
    raises a PermissionError at the first validation, and the training stops.

    Fix: set WANDB_DATA_DIR to a folder that the job may write to.

    See: wandb 0.31.0 sdk/artifacts/staging.py (measured)
    """
    folder = named_by(directories, "WANDB_DATA_DIR")
    if folder is None or folder.place.writable or not logs_to(job, "wandb") or _is_disabled(environment):
        return
    if job.get("trainer.log_val_generations", 0) and "wandb" in generation_sinks(job) and validations(job) != 0:
        yield finding(
            "W&B cannot write to {path} ({obstacle}), where it stages tables: the first validation stops the training",
            at=environment.given("WANDB_DATA_DIR"),
            target="WANDB_DATA_DIR",
            fix="Set WANDB_DATA_DIR to a folder that the job may write to",
            path=folder.place.path,
            obstacle=folder.place.obstacle,
        )


@check(
    "WANDB072",
    "wandb-cache-not-writable",
    tags={"logger", "wandb", "disk", "offline"},
    severity=Severity.INFO,
    good=[
        {"job": {"trainer.logger": ["wandb"]}, "directories": [{"named_by": "WANDB_CACHE_DIR", "place": {"path": "/c"}}]},
        {"job": {"trainer.logger": ["wandb"]}, "environment": {"WANDB_MODE": "disabled"}, "directories": [RO_CACHE]},
    ],
    bad=[{"job": {"trainer.logger": ["wandb"]}, "directories": [RO_CACHE]}],
)
def wandb_cache_not_writable(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """The cache folder of W&B cannot be written to.

    The run works. wandb's core has nowhere to write its own log, and prints it to the terminal of the job.

    Fix: set WANDB_CACHE_DIR to a folder that the job may write to.

    See: wandb 0.31.0 (measured)
    """
    folder = named_by(directories, "WANDB_CACHE_DIR")
    if folder is None or folder.place.writable or not logs_to(job, "wandb") or _is_disabled(environment):
        return
    yield finding(
        "W&B cannot write to its cache {path} ({obstacle}): its own log goes to the terminal of the job",
        at=environment.given("WANDB_CACHE_DIR"),
        target="WANDB_CACHE_DIR",
        fix="Set WANDB_CACHE_DIR to a folder that the job may write to",
        path=folder.place.path,
        obstacle=folder.place.obstacle,
    )
