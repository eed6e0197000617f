"""SwanLab: credentials, modes, servers, names, and versions that do not fit."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator

from verl_doctor.api import Environment, Finding, Job, Packages, Secret, Severity, Undetermined, check, finding
from verl_doctor_checks.addresses import host, scheme, shown
from verl_doctor_checks.facts.directories import Directory, named_by
from verl_doctor_checks.facts.reached import Reach, SwanlabAccess
from verl_doctor_checks.facts.swanlab import SwanlabFiles, SwanlabSetting
from verl_doctor_checks.roots import roots, was_asked
from verl_doctor_checks.trackers import generates, logs_to
from verl_doctor_checks.variables import given, is_true, left_behind, secret

NEWEST = (999,)
REWRITTEN = (0, 8)
"""From here on settings are read and validated by pydantic (swanlab 0.8.5, sdk/internal/settings/__init__.py)."""
PUBLIC_HOST = "api.swanlab.cn"

SWANLAB = {"trainer.logger": ["console", "swanlab"]}
KEY = "k" * 21
ONLINE = {"SWANLAB_API_KEY": KEY}
OFFLINE = {"SWANLAB_MODE": "offline"}
OLD = {"swanlab": "0.7.20"}
LOGIN = {"path": "/home/user/.swanlab/.netrc", "host": "https://api.swanlab.cn", "key": KEY}


def _release(packages: Packages) -> tuple[int, ...]:
    """The release of swanlab; the newest when it is not installed, which another check reports. Raises Undetermined."""
    return packages.release("swanlab") or NEWEST


def known_release(packages: Packages) -> tuple[int, ...]:
    return NEWEST if packages.unseen else _release(packages)


def _mode(environment: Environment) -> str:
    """The mode that verl passes to swanlab.init(); files cannot change it. Raises Undetermined."""
    return environment.text("SWANLAB_MODE", "cloud")


def is_online(environment: Environment) -> bool:
    return _mode(environment) in {"cloud", "online"}


def _in_files(files: SwanlabFiles, name: str) -> SwanlabSetting | None:
    """The first setting of this name that a file holds, whether or not it beats the environment."""
    return next((setting for setting in [*files.strong, *files.weak] if setting.name == name and setting.value), None)


@check(
    "SWANLAB001",
    "swanlab-key-missing",
    tags={"logger", "swanlab", "secrets", "offline"},
    good=[
        {"job": SWANLAB, "environment": ONLINE},
        {"job": SWANLAB, "environment": OFFLINE},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "local"}},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "disabled"}},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "bogus"}},
        {"job": SWANLAB, "swanlab_files": {"logins": [LOGIN]}},
        {"job": SWANLAB, "swanlab_files": {"strong": {"SWANLAB_API_KEY": KEY}}},
        {"job": SWANLAB, "swanlab_files": {"weak": {"SWANLAB_API_KEY": KEY}}},
        {
            "job": SWANLAB,
            "environment": {"SWANLAB_API_HOST": "swan.lan:8000"},
            "swanlab_files": {"logins": [LOGIN | {"host": "https://swan.lan:8000"}]},
        },
        {"job": SWANLAB, "environment": ONLINE | {"unseen": "elsewhere"}},
        {"job": {"trainer.logger": "console"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": ""}, "swanlab_files": {"logins": [LOGIN]}, "packages": OLD},
    ],
    bad=[
        {"job": SWANLAB},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "cloud"}},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "online"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": ""}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": ""}, "swanlab_files": {"logins": [LOGIN]}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "https://swan.lan"}, "swanlab_files": {"logins": [LOGIN]}},
        {"job": SWANLAB, "environment": {"left_behind": ONLINE}},
        {
            "job": SWANLAB,
            "swanlab_files": {"logins": [{"path": "/home/user/.swanlab/.netrc", "problem": "syntax error on line 2"}]},
        },
    ],
)
def swanlab_key_missing(
    job: Job, environment: Environment, packages: Packages, swanlab_files: SwanlabFiles
) -> Iterator[Finding]:
    """No SwanLab API key reaches the process that logs.

    verl starts SwanLab online unless SWANLAB_MODE says otherwise, after the model and the rollout engine are up. Without a key
    swanlab.init() raises; in a local Ray the actor inherits the terminal, and SwanLab waits for ever for an answer to a menu
    that is lost in the log. SWANLAB_INTERACTIVE=0 turns that into an error. An empty SWANLAB_API_KEY even hides a stored login.

    Fix: export SWANLAB_API_KEY where Ray is started or pass it in runtime_env, or run `swanlab login` on the node that logs; or
    log with SWANLAB_MODE=offline and run `swanlab sync` later.

    See: swanlab 0.10.3 sdk/internal/settings/__init__.py
         https://github.com/SwanHubX/SwanLab/issues/1503
    """
    if not logs_to(job, "swanlab") or secret(environment, "SWANLAB_API_KEY") or not is_online(environment):
        return
    if environment.get("SWANLAB_API_KEY"):
        return
    if swanlab_files.unseen:
        raise Undetermined(f"the stored login of SwanLab was not looked at: {swanlab_files.unseen}")
    if swanlab_files.secrets_folder:
        raise Undetermined("SWANLAB_SECRETS_DIR may hold the key")
    emptied = environment.given("SWANLAB_API_KEY")
    hides_login = emptied is not None and known_release(packages) >= REWRITTEN
    usable = [] if hides_login else [login for login in swanlab_files.logins if is_for(login.host, environment, swanlab_files)]
    beating = [s for s in swanlab_files.strong if s.name == "SWANLAB_API_KEY" and s.value]
    if any(login.key for login in usable) or beating or (not emptied and _in_files(swanlab_files, "SWANLAB_API_KEY")):
        return
    forgotten = environment.left_behind.get("SWANLAB_API_KEY")
    broken = next((login for login in swanlab_files.logins if login.problem), None)
    stored = next((login for login in swanlab_files.logins if login.key), None)
    if forgotten is not None and forgotten.value:
        template = (
            "SWANLAB_API_KEY is set in the launching shell and does not reach the process that logs, which has no other key"
        )
    elif hides_login and stored:
        template = "SWANLAB_API_KEY is set and empty, which hides the login in {path}"
    elif stored:
        template = "the login in {path} is for {host}, another server than SWANLAB_API_HOST, and there is no other key"
    elif broken:
        template = "no SwanLab key: SWANLAB_API_KEY is not set, and {path} is ignored ({problem})"
    else:
        template = (
            "no SwanLab key: SWANLAB_API_KEY is not set and no login is stored, so swanlab.init() fails or waits for an answer"
        )
    login = stored or broken
    yield finding(
        template,
        at=emptied or forgotten or job.settings.get("trainer.logger"),
        fix="Export SWANLAB_API_KEY where Ray starts or pass it in runtime_env, or log with SWANLAB_MODE=offline",
        commands=["export SWANLAB_MODE=offline", "export SWANLAB_INTERACTIVE=0"],
        path=login.path if login else "",
        host=login.host if login else "",
        problem=login.problem if login else "",
    )


def is_for(stored: str, environment: Environment, files: SwanlabFiles) -> bool:
    """Whether a stored login is used: SwanLab wants the same server, or none named."""
    beating = next((setting for setting in files.strong if setting.name == "SWANLAB_API_HOST"), None)
    named = str(beating.value) if beating else environment.text("SWANLAB_API_HOST")
    return not named or _normal(named) == _normal(stored)


def _normal(address: str) -> str:
    """An address as SwanLab compares it: with a scheme, without path (swanlab 0.10.3, sdk/internal/pkg/nrc)."""
    text = address.strip() if "://" in address else f"https://{address.strip()}"
    name, _, rest = text.partition("://")
    return f"{name}://{re.split('[/?#]', rest, maxsplit=1)[0]}".lower()


@check(
    "SWANLAB002",
    "swanlab-key-in-offline-mode",
    tags={"logger", "swanlab", "offline", "secrets"},
    severity=Severity.WARNING,
    good=[
        {"job": SWANLAB, "environment": ONLINE},
        {"job": SWANLAB, "environment": OFFLINE},
        {"job": SWANLAB, "environment": OFFLINE | {"SWANLAB_API_KEY": ""}},
        {"job": {"trainer.logger": "console"}, "environment": OFFLINE | ONLINE},
    ],
    bad=[
        {"job": SWANLAB, "environment": OFFLINE | ONLINE},
        {"job": SWANLAB, "environment": ONLINE | {"SWANLAB_MODE": "local"}},
        {"job": SWANLAB, "environment": ONLINE | {"SWANLAB_MODE": "disabled"}},
    ],
)
def swanlab_key_in_offline_mode(job: Job, environment: Environment) -> Iterator[Finding]:
    """SWANLAB_API_KEY is set although SwanLab is not to go online.

    verl calls swanlab.login() whenever the key is set, whatever the mode. On a node without network the login tries for
    15 seconds or longer, raises "check if the provided API key is correct", and the job ends.

    Fix: unset SWANLAB_API_KEY for offline, local and disabled runs.

    See: verl 0.9.1 verl/utils/tracking.py
         swanlab 0.10.3 (measured without network; 0.6.13, 0.7.20 and 0.8.5 do the same)
    """
    if not logs_to(job, "swanlab") or not secret(environment, "SWANLAB_API_KEY"):
        return
    mode = given(environment, "SWANLAB_MODE")
    if mode in {"offline", "local", "disabled"}:
        yield finding(
            "SWANLAB_MODE is {mode}, but verl logs in to SwanLab because SWANLAB_API_KEY is set: without network the job ends",
            at=environment.given("SWANLAB_API_KEY"),
            fix="Unset SWANLAB_API_KEY for runs that stay offline",
            commands=["unset SWANLAB_API_KEY"],
            mode=mode,
        )


@check(
    "SWANLAB004",
    "swanlab-mode-invalid",
    tags={"logger", "swanlab", "offline"},
    good=[
        {"job": SWANLAB},
        *[
            {"job": SWANLAB, "environment": {"SWANLAB_MODE": mode}}
            for mode in ("cloud", "online", "offline", "local", "disabled")
        ],
        *[{"job": SWANLAB, "environment": {"SWANLAB_MODE": mode}, "packages": OLD} for mode in ("cloud", "offline", "local")],
        {"job": SWANLAB, "environment": OFFLINE, "packages": {"swanlab": "0.5.9"}},
    ],
    bad=[
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "Offline"}},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": ""}},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "online "}},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": '"offline"'}},
        {"job": SWANLAB, "environment": {"SWANLAB_MODE": "online"}, "packages": OLD},
        {"job": SWANLAB, "environment": OFFLINE, "packages": {"swanlab": "0.4.12"}},
    ],
)
def swanlab_mode_invalid(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """SWANLAB_MODE has a value that this SwanLab does not know.

    The value is compared exactly, capitals, blanks and quotes included, and an empty one is refused too. 0.8 and later know
    online, offline, local, disabled and the older cloud; before 0.8 it is cloud, and `online` is refused; 0.4 has no offline.
    The job ends in swanlab.init().

    Fix: write the mode in small letters, or unset the variable.

    See: swanlab 0.10.3 sdk/internal/settings/__init__.py
         swanlab 0.7.20 data/utils.py
    """
    variable = environment.given("SWANLAB_MODE")
    if not logs_to(job, "swanlab") or variable is None:
        return
    release = known_release(packages)
    modes = ["cloud", "disabled", "local"]
    modes += ["offline"] if release >= (0, 5) else []
    modes += ["online"] if release >= REWRITTEN else []
    mode = environment.text("SWANLAB_MODE")
    if mode in modes:
        return
    close = difflib.get_close_matches(mode.strip().strip("\"'").lower(), modes, n=1, cutoff=0.5)
    suggestion = close[0] if close else "cloud"
    yield finding(
        'SWANLAB_MODE is "{mode}", which this SwanLab refuses; it knows {modes}',
        at=variable,
        fix="Write `export SWANLAB_MODE={suggestion}`, or unset it for the cloud",
        commands=[f"export SWANLAB_MODE={suggestion}"],
        mode=mode,
        modes=", ".join(modes),
        suggestion=suggestion,
    )


LOCAL = {"SWANLAB_MODE": "local"}


@check(
    "SWANLAB005",
    "swanlab-board-missing",
    tags={"logger", "swanlab", "offline"},
    severity=Severity.WARNING,
    good=[
        {"job": SWANLAB, "environment": LOCAL},
        {"job": SWANLAB, "environment": OFFLINE, "packages": {"swanboard": None}},
        {"job": SWANLAB, "environment": LOCAL, "packages": {"swanboard": None, "swanlab": "0.4.12"}},
    ],
    bad=[
        {"job": SWANLAB, "environment": LOCAL, "packages": {"swanboard": None}},
        {"job": SWANLAB, "environment": LOCAL, "packages": {"swanboard": None} | OLD},
    ],
)
def swanlab_board_missing(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """SWANLAB_MODE=local needs the package swanboard, which is not installed.

    SwanLab 0.6 and 0.7 raise an ImportError, which ends the job. Since 0.8 SwanLab prints an error and goes on: the run is kept
    in its own file, but the local dashboard does not show it.

    Fix: install `swanlab[dashboard]`, or use SWANLAB_MODE=offline.

    See: swanlab 0.10.3 and 0.7.20 (measured)
         https://github.com/datawhalechina/happy-llm/issues/104
    """
    if not logs_to(job, "swanlab") or given(environment, "SWANLAB_MODE") != "local":
        return
    release = _release(packages)
    if release < (0, 6) or packages.version("swanboard") is not None:
        return
    ends = release < REWRITTEN
    yield finding(
        "SWANLAB_MODE=local needs swanboard, which is not installed: swanlab {version} ends the job"
        if ends
        else "SWANLAB_MODE=local needs swanboard, which is not installed: the local dashboard stays empty",
        at=environment.given("SWANLAB_MODE"),
        fix="Install swanlab[dashboard], or use SWANLAB_MODE=offline",
        commands=['pip install "swanlab[dashboard]"'],
        severity=Severity.ERROR if ends else None,
        version=packages.version("swanlab"),
    )


@check(
    "SWANLAB006",
    "swanlab-project-name",
    tags={"logger", "swanlab", "names"},
    good=[
        {"job": SWANLAB | {"trainer.project_name": "verl_examples-1.0+a"}},
        {"job": SWANLAB | {"trainer.project_name": "p" * 100}},
        {"job": SWANLAB | {"trainer.project_name": None}},
        {"job": SWANLAB | {"trainer.project_name": ""}},
        {"job": {"trainer.logger": "wandb", "trainer.project_name": "a b"}},
        {"job": SWANLAB | {"trainer.project_name": "p" * 101}, "packages": OLD},
    ],
    bad=[
        {"job": SWANLAB | {"trainer.project_name": "a b"}},
        {"job": SWANLAB | {"trainer.project_name": "team/project"}},
        {"job": SWANLAB | {"trainer.project_name": "项目"}},
        {"job": SWANLAB | {"trainer.project_name": "a b"}, "packages": OLD},
        {"job": SWANLAB | {"trainer.project_name": "p" * 101}},
    ],
)
def swanlab_project_name(job: Job, packages: Packages) -> Iterator[Finding]:
    """The project name is one that SwanLab refuses.

    A project is 1 to 100 letters (a to z), digits and the characters _ - + . ; blanks, slashes and Chinese are refused in every
    mode, and the job ends in swanlab.init(). Before 0.8 a longer name was cut instead.

    Fix: rename `trainer.project_name`.

    See: swanlab 0.10.3 sdk/internal/pkg/constraints/__init__.py
         https://github.com/SwanHubX/SwanLab/issues/719
    """
    name = job.get("trainer.project_name") if logs_to(job, "swanlab") else None
    if not isinstance(name, str) or not name.strip():
        return
    wrong = sorted(set(re.findall(r"[^0-9a-zA-Z_\-+.]", name)))
    if wrong:
        template = 'trainer.project_name "{name}" contains "{characters}", which SwanLab refuses'
    elif len(name) > 100 and known_release(packages) >= REWRITTEN:
        template = "trainer.project_name has {length} characters, and SwanLab allows 100"
    else:
        return
    suggestion = re.sub(r"[^0-9a-zA-Z_\-+.]+", "_", name).strip("_")[:100]
    yield finding(
        template,
        at=job.settings["trainer.project_name"],
        fix="Use letters, digits and _ - + . only, such as {suggestion}",
        name=name,
        characters="".join(wrong),
        length=len(name),
        suggestion=suggestion or "verl",
    )


@check(
    "SWANLAB007",
    "swanlab-experiment-name-too-long",
    tags={"logger", "swanlab", "names"},
    good=[
        {"job": SWANLAB | {"trainer.experiment_name": "实验 1/2"}},
        {"job": SWANLAB | {"trainer.experiment_name": "e" * 512}},
        {"job": SWANLAB | {"trainer.experiment_name": None}},
        {"job": SWANLAB | {"trainer.experiment_name": "e" * 200}, "packages": OLD},
    ],
    bad=[
        {"job": SWANLAB | {"trainer.experiment_name": "e" * 513}},
        {"job": SWANLAB | {"trainer.experiment_name": "e" * 251}, "packages": OLD},
    ],
)
def swanlab_experiment_name_too_long(job: Job, packages: Packages) -> Iterator[Finding]:
    """The experiment name is too long for SwanLab.

    Since 0.8 a name of more than 512 characters ends the job. 0.6 and 0.7 cut it at 250 with a warning, so that runs whose
    names differ at the end only look the same.

    Fix: shorten `trainer.experiment_name`.

    See: swanlab 0.10.3 sdk/internal/pkg/constraints/__init__.py
         swanlab 0.7.20 formatter.py
    """
    name = job.get("trainer.experiment_name") if logs_to(job, "swanlab") else None
    if not isinstance(name, str) or len(name) <= 250:
        return
    refused = known_release(packages) >= REWRITTEN
    if len(name) > (512 if refused else 250):
        yield finding(
            "trainer.experiment_name has {length} characters, and SwanLab allows 512"
            if refused
            else "trainer.experiment_name has {length} characters, and this SwanLab cuts it at 250",
            at=job.settings["trainer.experiment_name"],
            fix="Shorten the name",
            severity=None if refused else Severity.WARNING,
            length=len(name),
        )


@check(
    "SWANLAB008",
    "swanlab-api-host",
    tags={"logger", "swanlab", "proxy"},
    severity=Severity.WARNING,
    good=[
        {"job": SWANLAB},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "https://swan.example.com"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "http://10.0.0.7:8000"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "swan.example.com"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "swan.example.com:443"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "https://swan.example.com/api"}, "packages": OLD},
    ],
    bad=[
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "127.0.0.1:8000"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "swan.lan:8000"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": ""}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "swan.lan/api"}, "packages": OLD},
        {"job": SWANLAB, "environment": {"SWANLAB_API_HOST": "https://swan.example.com"}, "packages": OLD},
    ],
)
def swanlab_api_host(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """SWANLAB_API_HOST is not written as this SwanLab needs it.

    Since 0.8 a missing scheme becomes https, so `host:8000` of a plain http server ends in a TLS error after 17 seconds; an
    empty value is refused. Before 0.8 the value is used as it stands and must be `https://host/api`, path included.

    Fix: write `http://host:port` or `https://host` (before 0.8 with `/api`), or unset the variable for the public server.

    See: swanlab 0.10.3 sdk/internal/pkg/nrc/__init__.py (measured)
         swanlab 0.7.20 package.py
    """
    variable = environment.given("SWANLAB_API_HOST")
    if not logs_to(job, "swanlab") or variable is None:
        return
    address = environment.text("SWANLAB_API_HOST")
    old = known_release(packages) < REWRITTEN
    has_scheme = scheme(address).lower() in {"http", "https"} and "://" in address
    if not address.strip():
        template = "SWANLAB_API_HOST is set and empty, which SwanLab refuses"
    elif old and not has_scheme:
        template = 'SWANLAB_API_HOST is "{address}" without http:// or https://, which this SwanLab needs'
    elif old and not address.rstrip("/").endswith("/api"):
        template = 'SWANLAB_API_HOST is "{address}"; this SwanLab needs the path /api at its end'
    elif not old and not has_scheme and re.search(r":(?!443$)\d+$", address):
        template = 'SWANLAB_API_HOST is "{address}" without http://; SwanLab takes it for https'
    else:
        return
    certain = old or not address.strip()
    suggestion = f"{address if has_scheme else 'http://' + address}".rstrip("/") + ("/api" if old else "")
    yield finding(
        template,
        at=variable,
        fix="Write it as {suggestion}, or unset it for the public server",
        severity=Severity.ERROR if certain else None,
        address=shown(address),
        suggestion=shown(suggestion) if address.strip() else "https://swanlab.example.com",
    )


@check(
    "SWANLAB009",
    "swanlab-server-only-in-login",
    tags={"logger", "swanlab", "secrets", "proxy"},
    severity=Severity.WARNING,
    good=[
        {"job": SWANLAB, "environment": ONLINE},
        {"job": SWANLAB, "environment": ONLINE, "swanlab_files": {"logins": [LOGIN]}},
        {"job": SWANLAB, "swanlab_files": {"logins": [LOGIN | {"host": "http://swan.lan:8000"}]}},
        {
            "job": SWANLAB,
            "environment": ONLINE | {"SWANLAB_API_HOST": "http://swan.lan:8000"},
            "swanlab_files": {"logins": [LOGIN | {"host": "http://swan.lan:8000"}]},
        },
        {
            "job": SWANLAB,
            "environment": ONLINE,
            "packages": OLD,
            "swanlab_files": {"logins": [LOGIN | {"host": "http://swan.lan:8000"}]},
        },
        {
            "job": SWANLAB,
            "environment": ONLINE,
            "swanlab_files": {
                "logins": [LOGIN | {"host": "http://swan.lan:8000"}],
                "weak": {"SWANLAB_API_HOST": "http://swan.lan:8000"},
            },
        },
    ],
    bad=[
        {
            "job": SWANLAB,
            "environment": ONLINE,
            "swanlab_files": {"logins": [LOGIN | {"host": "http://swan.lan:8000"}]},
        }
    ],
)
def swanlab_server_only_in_login(
    job: Job, environment: Environment, packages: Packages, swanlab_files: SwanlabFiles
) -> Iterator[Finding]:
    """SWANLAB_API_KEY goes to the public server although the stored login is of another one.

    Since 0.8 SwanLab does not read the stored login at all when SWANLAB_API_KEY is set, and takes the server from there only.
    The key of a self-hosted server is then sent to the public one, which refuses it.

    Fix: export SWANLAB_API_HOST together with SWANLAB_API_KEY.

    See: swanlab 0.10.3 sdk/internal/settings/__init__.py (`load_api_key`)
    """
    if (
        not logs_to(job, "swanlab")
        or not secret(environment, "SWANLAB_API_KEY")
        or not is_online(environment)
        or swanlab_files.unseen
    ):
        return
    stored = next((login for login in swanlab_files.logins if login.host), None)
    if stored is None or host(_normal(stored.host)) == PUBLIC_HOST or known_release(packages) < REWRITTEN:
        return
    if not environment.get("SWANLAB_API_HOST") and not _in_files(swanlab_files, "SWANLAB_API_HOST"):
        yield finding(
            "the login in {path} is for {host}, but with SWANLAB_API_KEY set SwanLab goes to the public server",
            at=environment.given("SWANLAB_API_KEY"),
            fix="Export SWANLAB_API_HOST={host} too",
            commands=[f"export SWANLAB_API_HOST={shlex.quote(stored.host)}"],
            path=stored.path,
            host=stored.host,
        )


def _same(setting: SwanlabSetting, value: str | Secret) -> bool:
    if setting.name.endswith("_HOST"):
        return _normal(str(setting.value)) == _normal(_unquoted(str(value)))
    return setting.value == value


BEATEN = ("SWANLAB_API_HOST", "SWANLAB_WEB_HOST", "SWANLAB_RUN_ID", "SWANLAB_RUN_RESUME", "SWANLAB_PROJECT_WORKSPACE")
"""Variables that a file can beat although verl runs; it passes key, mode, folder and names itself."""


@check(
    "SWANLAB010",
    "swanlab-file-beats-variable",
    tags={"logger", "swanlab"},
    severity=Severity.WARNING,
    good=[
        {"job": SWANLAB},
        {"job": SWANLAB, "swanlab_files": {"strong": {"SWANLAB_API_HOST": "http://a"}}},
        {
            "job": SWANLAB,
            "environment": {"SWANLAB_API_HOST": "http://a"},
            "swanlab_files": {"strong": {"SWANLAB_API_HOST": "http://a"}},
        },
        {"job": SWANLAB, "environment": OFFLINE, "swanlab_files": {"strong": {"SWANLAB_MODE": "disabled"}}},
        {
            "job": SWANLAB,
            "environment": {"SWANLAB_API_HOST": "http://a"},
            "swanlab_files": {"weak": {"SWANLAB_API_HOST": "http://b"}},
        },
        {
            "job": SWANLAB,
            "environment": {"SWANLAB_API_HOST": "http://a/api"},
            "packages": OLD,
            "swanlab_files": {"strong": {"SWANLAB_API_HOST": "http://b"}},
        },
    ],
    bad=[
        {
            "job": SWANLAB,
            "environment": {"SWANLAB_API_HOST": "http://a"},
            "swanlab_files": {"strong": {"SWANLAB_API_HOST": "http://b"}},
        },
        {"job": SWANLAB, "swanlab_files": {"strong": {"SWANLAB_MODE": "Bogus"}}},
    ],
)
def swanlab_file_beats_variable(
    job: Job, environment: Environment, packages: Packages, swanlab_files: SwanlabFiles
) -> Iterator[Finding]:
    """A .env or YAML file in the working directory beats the exported environment.

    Since 0.8 SwanLab reads ./swanlab.yaml, /etc/swanlab and ./.env, and what stands there goes before exported variables, the
    other way round than in most programs. A server or run id of another project is taken without a message, and a mode that
    SwanLab does not know ends the job although verl passes one of its own.

    Fix: remove the line from the file, or start the job in another folder.

    See: swanlab 0.10.3 sdk/internal/settings/__init__.py (`settings_customise_sources`, measured)
    """
    if not logs_to(job, "swanlab") or known_release(packages) < REWRITTEN:
        return
    for setting in swanlab_files.strong:
        variable = environment.given(setting.name)
        known = variable if variable is not None and not variable.unknown else None
        if setting.name in BEATEN and known is not None and not _same(setting, known.value):
            yield finding(
                "{path} sets {name} to another value than the environment, and SwanLab takes that of the file",
                target=setting.name,
                source=known.source,
                fix="Remove {name} from {path}",
                path=setting.path,
                name=setting.name,
            )
        elif setting.name == "SWANLAB_MODE" and setting.value not in ("cloud", "online", "offline", "local", "disabled"):
            yield finding(
                '{path} sets SWANLAB_MODE to "{value}", which SwanLab refuses: the job ends in swanlab.init()',
                target=setting.name,
                fix="Remove SWANLAB_MODE from {path}",
                severity=Severity.ERROR,
                path=setting.path,
                value=setting.value,
            )


RESUMING = {"allow", "must", "true", "yes", "1"}


@check(
    "SWANLAB011",
    "swanlab-run-id-without-resume",
    tags={"logger", "swanlab", "resume"},
    good=[
        {"job": SWANLAB},
        {"job": SWANLAB, "environment": {"SWANLAB_RUN_ID": "r", "SWANLAB_RESUME": "allow"}},
        {"job": SWANLAB, "environment": {"SWANLAB_RUN_ID": "r", "SWANLAB_RUN_RESUME": "must"}},
        {"job": SWANLAB, "environment": OFFLINE | {"SWANLAB_RUN_ID": "r"}},
        {"job": SWANLAB, "environment": {"SWANLAB_RUN_ID": "r"}, "packages": {"swanlab": "0.4.12"}},
        {"job": SWANLAB, "environment": OFFLINE | {"SWANLAB_RUN_ID": "r", "SWANLAB_RESUME": "allow"}, "packages": OLD},
    ],
    bad=[
        {"job": SWANLAB, "environment": {"SWANLAB_RUN_ID": "r"}},
        {"job": SWANLAB, "environment": {"SWANLAB_RUN_ID": "r", "SWANLAB_RESUME": "never"}},
        {"job": SWANLAB, "environment": OFFLINE | {"SWANLAB_RUN_ID": "r"}, "packages": OLD},
    ],
)
def swanlab_run_id_without_resume(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """SWANLAB_RUN_ID is set without SWANLAB_RESUME.

    Without a resume mode SwanLab takes `never`, and then does not allow a run id: it raises "Run id should not be provided when
    resume=never", and the job ends. Before 0.8 this holds offline too.

    Fix: set SWANLAB_RESUME=allow, or unset SWANLAB_RUN_ID.

    See: swanlab 0.10.3 sdk/cmd/init.py
         swanlab 0.7.20 data/sdk.py
    """
    if not logs_to(job, "swanlab") or not given(environment, "SWANLAB_RUN_ID"):
        return
    release = known_release(packages)
    if release < (0, 6) or (release >= REWRITTEN and not is_online(environment)):
        return
    if any(environment.text(name).lower() in RESUMING for name in ("SWANLAB_RESUME", "SWANLAB_RUN_RESUME")):
        return
    yield finding(
        "SWANLAB_RUN_ID is set without SWANLAB_RESUME=allow or must, which SwanLab refuses",
        at=environment.given("SWANLAB_RUN_ID"),
        fix="Set SWANLAB_RESUME=allow, or unset SWANLAB_RUN_ID",
        commands=["export SWANLAB_RESUME=allow"],
    )


@check(
    "SWANLAB012",
    "swanlab-workspace-name",
    tags={"logger", "swanlab", "names"},
    good=[
        {"job": SWANLAB},
        {"job": SWANLAB, "environment": {"SWANLAB_WORKSPACE": "my-team_1"}},
        {"job": SWANLAB, "environment": {"SWANLAB_WORKSPACE": "w" * 26}, "packages": OLD},
    ],
    bad=[
        {"job": SWANLAB, "environment": {"SWANLAB_WORKSPACE": "w" * 26}},
        {"job": SWANLAB, "environment": {"SWANLAB_WORKSPACE": "my team"}},
        {"job": SWANLAB, "environment": {"SWANLAB_WORKSPACE": "团队"}},
    ],
)
def swanlab_workspace_name(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """SWANLAB_WORKSPACE is a name that SwanLab refuses.

    A workspace is 1 to 25 letters (a to z), digits, dashes and underscores. Since 0.8 another value ends every call of SwanLab,
    in every mode.

    Fix: give the name of the workspace as its address shows it, or unset the variable.

    See: swanlab 0.10.3 sdk/internal/pkg/constraints/__init__.py
    """
    if not logs_to(job, "swanlab") or known_release(packages) < REWRITTEN:
        return
    for name in ("SWANLAB_WORKSPACE", "SWANLAB_PROJECT_WORKSPACE"):
        value = given(environment, name)
        if value and not re.fullmatch(r"[0-9a-zA-Z\-_]{1,25}", _unquoted(value)):
            yield finding(
                '{name} is "{value}"; a workspace is at most 25 letters, digits, dashes and underscores',
                at=environment.given(name),
                fix="Give the workspace as its address shows it, or unset the variable",
                name=name,
                value=value,
            )


def _unquoted(value: str) -> str:
    """As SwanLab reads a variable: quotes in pairs are dropped (swanlab 0.10.3, sdk/internal/settings/compat/env.py)."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


@check(
    "SWANLAB013",
    "swanlab-key-length",
    tags={"logger", "swanlab", "secrets", "offline"},
    good=[
        {"job": SWANLAB, "environment": ONLINE, "packages": OLD},
        {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": "short"}},
        {"job": SWANLAB, "packages": OLD},
    ],
    bad=[
        {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": "k" * 20}, "packages": OLD},
        {"job": SWANLAB, "environment": OFFLINE | {"SWANLAB_API_KEY": "k" * 40}, "packages": OLD},
    ],
)
def swanlab_key_length(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """The SwanLab API key does not have the 21 characters that this SwanLab wants.

    Before 0.8 swanlab.login(), which verl calls whenever the key is set, raises APIKeyFormatError for any other length. Newer
    versions leave the judgement to the server.

    Fix: copy the whole key from the settings page of SwanLab, or upgrade swanlab.

    See: swanlab 0.7.20 error.py
    """
    key = secret(environment, "SWANLAB_API_KEY") if logs_to(job, "swanlab") else None
    if key is not None and not key.is_placeholder and key.length != 21 and _release(packages) < REWRITTEN:
        yield finding(
            "SWANLAB_API_KEY has {length} characters, and swanlab {version} wants 21",
            at=environment.given("SWANLAB_API_KEY"),
            fix="Copy the whole key, or upgrade swanlab",
            commands=["pip install -U swanlab"],
            length=key.length,
            version=packages.version("swanlab"),
        )


@check(
    "SWANLAB014",
    "swanlab-has-no-tables",
    tags={"logger", "swanlab", "generations"},
    good=[
        {"job": SWANLAB | {"trainer.log_val_generations": 10}},
        {"job": SWANLAB | {"trainer.log_val_generations": 0}, "packages": {"swanlab": "0.5.9"}},
        {"job": SWANLAB | {"trainer.log_val_generations": 10, "verl": "0.4.1"}, "packages": {"swanlab": "0.5.9"}},
        {"job": SWANLAB | {"trainer.log_val_generations": 10, "kind": "sft"}, "packages": {"swanlab": "0.5.9"}},
    ],
    bad=[{"job": SWANLAB | {"trainer.log_val_generations": 10}, "packages": {"swanlab": "0.5.9"}}],
)
def swanlab_has_no_tables(job: Job, packages: Packages) -> Iterator[Finding]:
    """The installed SwanLab has no tables for validation generations.

    Since 0.5.0 verl writes validation generations with `swanlab.echarts.Table`, which SwanLab has from 0.6 on. With an older
    one the first validation raises an AttributeError, and the training ends.

    Fix: upgrade swanlab, or set `trainer.log_val_generations=0`.

    See: verl 0.9.1 verl/utils/tracking.py (`log_generations_to_swanlab`)
         https://github.com/verl-project/verl/issues/3365
    """
    if (
        not logs_to(job, "swanlab")
        or not generates(job)
        or job.verl.release < (0, 5)
        or not job.get("trainer.log_val_generations")
    ):
        return
    if _release(packages) < (0, 6):
        yield finding(
            "swanlab {version} has no echarts.Table, which trainer.log_val_generations needs: the first validation fails",
            at=job.settings["trainer.log_val_generations"],
            fix="Upgrade swanlab, or set trainer.log_val_generations=0",
            commands=["pip install -U swanlab"],
            version=packages.version("swanlab"),
        )


@check(
    "SWANLAB015",
    "swanlab-protobuf-too-old",
    tags={"logger", "swanlab"},
    good=[
        {"job": SWANLAB},
        {"job": SWANLAB, "packages": {"protobuf": "6.31.1"}},
        {"job": SWANLAB, "packages": {"protobuf": "6.33.6"}},
        {"job": SWANLAB, "packages": OLD | {"protobuf": "4.25.8"}},
        {"job": {"trainer.logger": "console"}, "packages": {"protobuf": "4.25.8"}},
    ],
    bad=[
        {"job": SWANLAB, "packages": {"protobuf": "6.30.2"}},
        {"job": SWANLAB, "packages": {"protobuf": "5.29.5"}},
        {"job": SWANLAB, "packages": {"protobuf": "4.25.8", "swanlab": "0.8.5"}},
    ],
)
def swanlab_protobuf_too_old(job: Job, packages: Packages) -> Iterator[Finding]:
    """The installed protobuf is too old for this SwanLab.

    SwanLab 0.8 and later need protobuf 6.31.1. With an older one, which other packages of a training environment often ask for,
    `import swanlab` raises, and the job ends when verl starts its loggers.

    Fix: upgrade protobuf, or use swanlab 0.7 when another package holds it back.

    See: swanlab 0.10.3 METADATA (import measured with protobuf 6.30.2, 5.29.5 and 4.25.8)
    """
    if not logs_to(job, "swanlab") or _release(packages) < REWRITTEN:
        return
    protobuf = packages.release("protobuf")
    if protobuf is not None and protobuf < (6, 31, 1):
        yield finding(
            "swanlab {version} needs protobuf 6.31.1 or later, and {protobuf} is installed: the import fails",
            target="protobuf",
            fix="Upgrade protobuf, or use swanlab 0.7",
            commands=['pip install "protobuf>=6.31.1,<7"'],
            version=packages.version("swanlab") or "",
            protobuf=packages.version("protobuf"),
        )


@check(
    "SWANLAB016",
    "swanlab-debug-prints-key",
    tags={"logger", "swanlab", "secrets"},
    severity=Severity.WARNING,
    good=[
        {"job": SWANLAB},
        {"job": SWANLAB, "environment": {"SWANLAB_DEBUG": "0"}},
        {"job": SWANLAB, "environment": {"SWANLAB_DEBUG": "1"}, "packages": OLD},
    ],
    bad=[{"job": SWANLAB, "environment": {"SWANLAB_DEBUG": "1"}}, {"job": SWANLAB, "environment": {"SWANLAB_DEBUG": "true"}}],
)
def swanlab_debug_prints_key(job: Job, environment: Environment, packages: Packages) -> Iterator[Finding]:
    """SWANLAB_DEBUG makes SwanLab print the API key.

    In debug mode SwanLab prints the login that it has loaded, key included, so the key ends up in the console log of the job.

    Fix: unset SWANLAB_DEBUG.

    See: swanlab 0.10.3 sdk/internal/settings/__init__.py (`load_api_key`, measured)
    """
    if logs_to(job, "swanlab") and is_true(given(environment, "SWANLAB_DEBUG")) and known_release(packages) >= REWRITTEN:
        yield finding(
            "SWANLAB_DEBUG makes SwanLab print the stored API key into the log",
            at=environment.given("SWANLAB_DEBUG"),
            fix="Unset SWANLAB_DEBUG",
            commands=["unset SWANLAB_DEBUG"],
        )


@check(
    "SWANLAB017",
    "swanlab-stored-login-used",
    tags={"logger", "swanlab", "secrets"},
    severity=Severity.INFO,
    good=[
        {"job": SWANLAB, "environment": ONLINE, "swanlab_files": {"logins": [LOGIN]}},
        {"job": SWANLAB, "environment": OFFLINE, "swanlab_files": {"logins": [LOGIN]}},
        {"job": SWANLAB, "swanlab_files": {"unseen": "elsewhere"}},
        {"job": SWANLAB, "swanlab_files": {"logins": [LOGIN], "strong": {"SWANLAB_API_KEY": KEY}}},
    ],
    bad=[{"job": SWANLAB, "swanlab_files": {"logins": [LOGIN]}}],
)
def swanlab_stored_login_used(job: Job, environment: Environment, swanlab_files: SwanlabFiles) -> Iterator[Finding]:
    """The run goes to whoever logged in to SwanLab on this machine.

    A stored login belongs to the user of the operating system. Where several people share one account, the last one who called
    `swanlab login`, or whose job logged in, owns all later runs.

    Fix: on a shared account, set SWANLAB_API_KEY for each job.

    See: https://github.com/SwanHubX/SwanLab/issues/1357
    """
    if (
        not logs_to(job, "swanlab")
        or swanlab_files.unseen
        or secret(environment, "SWANLAB_API_KEY")
        or not is_online(environment)
    ):
        return
    if environment.get("SWANLAB_API_KEY") is not None or _in_files(swanlab_files, "SWANLAB_API_KEY"):
        return
    login = next((login for login in swanlab_files.logins if login.key), None)
    if login is not None:
        yield finding(
            "the run goes to the account that is stored in {path}",
            target=login.path,
            fix="On an account that several people share, set SWANLAB_API_KEY for each job",
            path=login.path,
        )


@check(
    "SWANLAB018",
    "swanlab-key-placeholder",
    tags={"logger", "swanlab", "secrets", "offline"},
    good=[{"job": SWANLAB, "environment": ONLINE}, {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": ""}}],
    bad=[
        {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": "your_swanlab_api_key"}},
        {"job": SWANLAB, "environment": {"SWANLAB_API_KEY": "<key>"}},
        {"job": SWANLAB, "environment": OFFLINE | {"SWANLAB_API_KEY": "your_swanlab_api_key"}},
    ],
)
def swanlab_key_placeholder(job: Job, environment: Environment) -> Iterator[Finding]:
    """SWANLAB_API_KEY still holds the placeholder of an example.

    verl calls swanlab.login() with it in every mode, the server refuses it, and the job ends.

    Fix: set the real key outside the script; for offline runs unset the variable.

    See: verl 0.9.1 verl/utils/tracking.py
    """
    key = secret(environment, "SWANLAB_API_KEY") if logs_to(job, "swanlab") else None
    if isinstance(key, Secret) and key.is_placeholder:
        yield finding(
            "SWANLAB_API_KEY is the placeholder of an example, not a key",
            at=environment.given("SWANLAB_API_KEY"),
            fix="Set the real key outside the script; for offline runs unset the variable",
        )


LEFT_BEHIND = (
    "SWANLAB_API_KEY",
    "SWANLAB_MODE",
    "SWANLAB_API_HOST",
    "SWANLAB_WORKSPACE",
    "SWANLAB_LOG_DIR",
    "SWANLAB_RUN_ID",
    "SWANLAB_RESUME",
)


@check(
    "SWANLAB019",
    "swanlab-variables-left-behind",
    tags={"logger", "swanlab", "secrets", "offline"},
    severity=Severity.WARNING,
    good=[
        {"job": SWANLAB, "environment": ONLINE},
        {"job": SWANLAB, "environment": {"unseen": "elsewhere"}},
        {"job": SWANLAB, "environment": {"left_behind": ONLINE}},
        {"job": SWANLAB, "environment": OFFLINE | {"unseen": "elsewhere", "left_behind": ONLINE}},
        {"job": {"trainer.logger": "console"}, "environment": {"unseen": "elsewhere", "left_behind": ONLINE}},
    ],
    bad=[
        {"job": SWANLAB, "environment": {"unseen": "the job is submitted to a Ray cluster", "left_behind": ONLINE}},
        {"job": SWANLAB, "environment": {"left_behind": OFFLINE}},
    ],
)
def swanlab_variables_left_behind(job: Job, environment: Environment) -> Iterator[Finding]:
    """SwanLab settings of the launching shell do not reach the process that logs.

    verl logs in a Ray actor, which has the environment of its Ray node and not that of the shell that submits the job. A key,
    mode or server that was exported after `ray start` is lost without a message.

    Fix: export the variables before `ray start` on every node, or pass them in Ray's runtime_env.

    See: verl 0.9.1 verl/trainer/constants_ppo.py
    """
    if not logs_to(job, "swanlab"):
        return
    forgotten = left_behind(environment, LEFT_BEHIND)
    if given(environment, "SWANLAB_MODE") in {"offline", "local", "disabled"} or not environment.unseen:
        # Without a key at all SWANLAB001 speaks; in a local mode the key is better left out.
        forgotten = [variable for variable in forgotten if variable.name != "SWANLAB_API_KEY"]
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


@check(
    "SWANLAB020",
    "swanlab-settings-file-broken",
    tags={"logger", "swanlab"},
    good=[
        {"job": SWANLAB},
        {"job": SWANLAB, "swanlab_files": {"broken": ["/work/swanlab.yaml"]}, "packages": OLD},
        {"job": {"trainer.logger": "console"}, "swanlab_files": {"broken": ["/work/swanlab.yaml"]}},
    ],
    bad=[{"job": SWANLAB, "swanlab_files": {"broken": ["/work/swanlab.yaml"]}}],
)
def swanlab_settings_file_broken(job: Job, packages: Packages, swanlab_files: SwanlabFiles) -> Iterator[Finding]:
    """A settings file of SwanLab is not valid YAML.

    Since 0.8 SwanLab reads ./swanlab.yaml, ./.swanlab/config.yaml and ~/.swanlab/config.yaml at every start and does not catch
    a syntax error in them: the job ends, offline too.

    Fix: repair or remove the file.

    See: swanlab 0.10.3 sdk/internal/settings/__init__.py (measured)
    """
    if not logs_to(job, "swanlab") or known_release(packages) < REWRITTEN:
        return
    for path in swanlab_files.broken:
        yield finding(
            "{path} is not valid YAML, and SwanLab ends the job over it", target=path, fix="Repair or remove it", path=path
        )


def _unreached(layer: str, cause: str, **more: object) -> dict[str, object]:
    probe = {"layer": layer, "cause": cause, "status": None, "address": "api.swanlab.cn:443"}
    return {"tracker": "swanlab", "server": "api.swanlab.cn:443", "client": "requests", "probe": probe} | more


@check(
    "SWANLAB003",
    "swanlab-network-timeout",
    tags={"logger", "swanlab", "network"},
    good=[
        {},
        {"reachability": [_unreached("http", "ok")]},
        {"reachability": [_unreached("tcp", "no-answer", tracker="wandb")]},
        {"reachability": [_unreached("tls", "unknown-ca")]},
        {"reachability": [_unreached("tcp", "no-answer"), _unreached("tcp", "no-answer", tracker="wandb")]},
    ],
    bad=[
        {"reachability": [_unreached("tcp", "no-answer")]},
        {"reachability": [_unreached("http", "silent")]},
        {"reachability": [_unreached("dns", "dns-failed")]},
        {"reachability": [_unreached("tcp", "refused")]},
        {"reachability": [_unreached("http", "closed")], "swanlab_access": {"online": False}},
    ],
)
def swanlab_network_timeout(reachability: list[Reach], swanlab_access: SwanlabAccess) -> Iterator[Finding]:
    """The SwanLab server cannot be reached.

    swanlab.login() retries for 15 seconds, or 75 when the server stays silent, and then raises "check if the provided API key
    is correct", whatever the cause. verl logs in whenever SWANLAB_API_KEY is set, in offline mode too, and ends with that
    error. When other trackers suffer from the same cause, one finding about the network names them all.

    Fix: correct SWANLAB_API_HOST or the way to it; or set SWANLAB_MODE=offline, unset SWANLAB_API_KEY, and run `swanlab sync`
    later.

    See: swanlab 0.10.3, measured for each layer
         https://github.com/SwanHubX/SwanLab/issues/1252
    """
    for root in roots(reachability, "SWANLAB003"):
        if root.probe.layer == "dns":
            template = "the name of {server} cannot be resolved: SwanLab's login will fail and end the job"
        elif root.probe.cause == "refused":
            template = "{server} refuses connections: SwanLab's login will fail and end the job"
        elif root.probe.layer == "tcp":
            template = "no answer from {server}: SwanLab's login will fail after its retries and end the job"
        else:
            template = "{server} takes the connection and gives no usable answer: SwanLab's login will fail and end the job"
        yield finding(
            template,
            target=root.servers,
            fix="Correct SWANLAB_API_HOST or set https_proxy; or set SWANLAB_MODE=offline and unset SWANLAB_API_KEY"
            if swanlab_access.online
            else "Unset SWANLAB_API_KEY: with it verl logs in although SWANLAB_MODE is not online",
            evidence={
                "layer": root.probe.layer,
                "cause": root.probe.cause,
                "seen": root.probe.reason,
                "milliseconds": root.probe.milliseconds,
            },
            server=root.servers,
        )


@check(
    "SWANLAB050",
    "swanlab-key-refused",
    tags={"logger", "swanlab", "network", "secrets"},
    good=[{}, {"swanlab_access": {"verdict": "accepted"}}, {"swanlab_access": {"verdict": "trouble", "status": 500}}],
    bad=[{"swanlab_access": {"verdict": "refused", "status": 401, "key_from": "SWANLAB_API_KEY"}}],
)
def swanlab_key_refused(environment: Environment, swanlab_access: SwanlabAccess) -> Iterator[Finding]:
    """The SwanLab server does not accept the key.

    It answers 401, and swanlab.login() raises an AuthenticationError that ends the job. A key of a server of one's own is
    often sent to the public one: SWANLAB_API_KEY in the environment hides the server of a stored login.

    Fix: copy the key anew from the settings page; with a server of one's own also set SWANLAB_API_HOST.

    See: swanlab 0.10.3 (measured)
    """
    if was_asked(swanlab_access.reach) and swanlab_access.verdict == "refused":
        yield finding(
            "{server} does not accept the key from {place} (status 401): the login will end the job",
            at=environment.given(swanlab_access.key_from),
            target=swanlab_access.key_from,
            fix="Copy the key anew from the settings page of {server}, or set SWANLAB_API_HOST to the server that it is for",
            server=swanlab_access.reach.server,
            place=swanlab_access.key_from,
        )


@check(
    "SWANLAB051",
    "swanlab-account-not-activated",
    tags={"logger", "swanlab", "network"},
    good=[{}, {"swanlab_access": {"verdict": "accepted"}}, {"swanlab_access": {"verdict": "refused", "status": 401}}],
    bad=[{"swanlab_access": {"verdict": "forbidden", "status": 403, "key_from": "SWANLAB_API_KEY"}}],
)
def swanlab_account_not_activated(swanlab_access: SwanlabAccess) -> Iterator[Finding]:
    """The SwanLab server knows the key and does not let the account in.

    It answers 403: the account is not verified, or a server of one's own was not activated. swanlab.login() reports a wrong
    key all the same.

    Fix: verify the account on the web page, or activate the server.

    See: https://github.com/SwanHubX/SwanLab/issues/1225
    """
    if was_asked(swanlab_access.reach) and swanlab_access.verdict == "forbidden":
        yield finding(
            "{server} does not let the account in (status 403): the login will end the job",
            target=swanlab_access.reach.server,
            fix="Verify the account on the web page of {server}, or activate the server",
            server=swanlab_access.reach.server,
        )


@check(
    "SWANLAB052",
    "swanlab-server-in-trouble",
    tags={"logger", "swanlab", "network"},
    severity=Severity.WARNING,
    good=[{}, {"swanlab_access": {"verdict": "accepted"}}],
    bad=[{"swanlab_access": {"verdict": "trouble", "status": 502}}],
)
def swanlab_server_in_trouble(swanlab_access: SwanlabAccess) -> Iterator[Finding]:
    """The SwanLab server answers that it cannot serve requests now.

    With 5xx or 429 swanlab.login() retries for 16 seconds and then ends the job with an error that blames the key. It may pass
    by itself.

    Fix: try again later, or log with SWANLAB_MODE=offline, without SWANLAB_API_KEY, and run `swanlab sync` afterwards.

    See: swanlab 0.10.3 (measured)
    """
    if was_asked(swanlab_access.reach) and swanlab_access.verdict == "trouble":
        yield finding(
            "{server} answers status {status}: if that lasts, the login ends the job",
            target=swanlab_access.reach.server,
            fix="Try again later, or log offline without SWANLAB_API_KEY and run `swanlab sync` afterwards",
            server=swanlab_access.reach.server,
            status=swanlab_access.status,
        )


@check(
    "SWANLAB070",
    "swanlab-folder-not-writable",
    tags={"logger", "swanlab", "disk", "offline"},
    good=[
        {"job": {"trainer.logger": ["swanlab"]}, "directories": [{"named_by": "SWANLAB_LOG_DIR", "place": {"path": "/s"}}]},
        {
            "job": {"trainer.logger": ["swanlab"]},
            "environment": {"SWANLAB_MODE": "disabled"},
            "directories": [{"named_by": "SWANLAB_LOG_DIR", "place": {"path": "/s", "writable": False}}],
        },
        {"job": {"trainer.logger": ["wandb"]}},
    ],
    bad=[
        {
            "job": {"trainer.logger": ["swanlab"]},
            "directories": [
                {"named_by": "SWANLAB_LOG_DIR", "place": {"path": "/s", "writable": False, "obstacle": "/s is a file"}}
            ],
        }
    ],
)
def swanlab_folder_not_writable(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """SwanLab cannot write to its log folder.

    It tries the folder when it starts, in the cloud mode too, and raises a PermissionError, which stops the training after the
    model has been loaded. verl passes SWANLAB_LOG_DIR, or `swanlog` in the working directory of the process that logs.

    Fix: set SWANLAB_LOG_DIR to a folder that the job may write to.

    See: verl 0.9.1 verl/utils/tracking.py
         swanlab 0.10.3 (measured)
    """
    folder = named_by(directories, "SWANLAB_LOG_DIR")
    if folder is None or folder.place.writable or not logs_to(job, "swanlab") or _mode(environment) == "disabled":
        return
    yield finding(
        "SwanLab cannot write to {path} ({obstacle}): the job stops when it starts to log",
        at=environment.given("SWANLAB_LOG_DIR"),
        target="SWANLAB_LOG_DIR",
        fix="Set SWANLAB_LOG_DIR to a folder that the job may write to",
        path=folder.place.path,
        obstacle=folder.place.obstacle,
    )
