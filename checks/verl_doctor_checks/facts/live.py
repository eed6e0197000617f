"""What came of a short run at each tracker of the job, made in the job's own Python with the job's own environment."""

from __future__ import annotations

import math
import re
import time
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from verl_doctor.api import Environment, Job, NotAsked, Packages, Request, Secret, Unavailable, Undetermined, capture, fact
from verl_doctor.job.packages import job_python
from verl_doctor.job.working_directory import logging_directory
from verl_doctor.secrets import original, scrub
from verl_doctor.stores.child import NoAnswer, ask_python
from verl_doctor_checks.facts.mlflow import MlflowFiles
from verl_doctor_checks.facts.mlflow_store import MlflowDatabase, MlflowStore
from verl_doctor_checks.facts.reached import MlflowServer, Reach, SwanlabAccess, WandbViewer
from verl_doctor_checks.facts.wandb import WandbFiles
from verl_doctor_checks.mlflow import URI, kind_of, tracking_address
from verl_doctor_checks.swanlab import is_online
from verl_doctor_checks.trackers import tracks
from verl_doctor_checks.wandb import applied_settings, records_online

DEADLINE_S = 60.0
LIMIT_S = DEADLINE_S - 5.0
"""What a run may take before the child gives up by itself and says how far it came."""
FACT_S = 90.0
KEYS = ("val-core/x/acc/best@4/mean", "train/total_tokens(B)", "指标")
SOMETIMES_NAN = "actor/grad_norm"
TRACKERS = ("wandb", "swanlab", "mlflow", "trackio", "tensorboard", "file")
_DECIDING = re.compile(
    r".*_proxy|SSL_CERT_.*|(REQUESTS|CURL)_CA_BUNDLE|(WANDB|SWANLAB|MLFLOW|TRACKIO|PG|AWS)_.*|NETRC|HOME|PATH|PYTHONPATH",
    re.IGNORECASE,
)
_OTHER_RUN = re.compile(
    r"WANDB_(RUN_ID|RESUME.*|NAME|SWEEP_ID|RUN_GROUP|SERVICE|DIR|(?!CONFIG_).*_DIR)"
    r"|SWANLAB_(RUN_.*|RESUME|EXP.*|LOG_DIR)|MLFLOW_(TRACKING_URI|RUN_ID|EXPERIMENT_.*)|TRACKIO_DIR|TENSORBOARD_DIR|TMPDIR"
)
"""Variables that would lead into a run or a folder of the job itself."""
_OF_SETTINGS = ("base_url", "entity", "api_key", "http_proxy", "https_proxy", "insecure_disable_ssl")


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A value that came back otherwise; `read` is empty when it did not come back at all."""

    key: str
    step: int
    sent: str
    read: str = ""


class RoundTrip(msgspec.Struct, frozen=True, kw_only=True):
    """A short run at one tracker. `reason` says why it was not made, or is the client's error at the `stage` that failed.

    `left` is what stays behind, in words. `seconds` is from the last step until all could be read, None when it never could.
    """

    tracker: str
    state: Literal["done", "failed", "not-tried"] = "done"
    reason: str = ""
    stage: str = ""
    where: str = ""
    left: str = ""
    seconds: float | None = None
    duration: float = 0.0
    differences: tuple[Difference, ...] = ()


class _Held(Exception):
    """Why no run is made at a tracker."""


@fact(network=True, timeout=FACT_S, example=lambda plain: msgspec.convert(plain or [], list[RoundTrip]))
def live_round_trips(
    *,
    request: Request,
    job: Job,
    environment: Environment,
    packages: Packages,
    wandb_files: WandbFiles,
    mlflow_files: MlflowFiles,
    mlflow_store: MlflowStore,
    mlflow_database: MlflowDatabase,
    wandb_viewer: WandbViewer,
    swanlab_access: SwanlabAccess,
    mlflow_server: MlflowServer,
) -> list[RoundTrip]:
    """A run at each tracker, all at once. Raises NotAsked without --live, Unavailable where the job's Python is not here."""
    if not request.live:
        raise NotAsked("--live was not given")
    try:
        names = [name for name in job.loggers if name != "console"] if tracks(job) else []
        traveller = _Traveller(request, job, environment, packages)
    except Undetermined as error:
        raise Unavailable(str(error)) from None

    def special(name: str) -> dict[str, Any]:
        if name == "wandb":
            return _for_wandb(job, environment, packages, wandb_files, wandb_viewer)
        if name == "swanlab":
            return _for_swanlab(environment, swanlab_access)
        if name == "mlflow":
            address = tracking_address(job, environment, packages, mlflow_files)
            return _for_mlflow(address, mlflow_store, mlflow_database, mlflow_server)
        if name == "trackio" and (environment.get("TRACKIO_SPACE_ID") or environment.get("TRACKIO_SERVER_URL")):
            raise _Held("trackio logs to a server, where no run is made")
        return {}

    def travel(name: str) -> RoundTrip:
        begun = time.monotonic()
        try:
            found = traveller.travel(name, special(name))
        except (_Held, Undetermined, NoAnswer) as error:
            return RoundTrip(tracker=name, state="not-tried", reason=scrub(str(error)))
        return msgspec.structs.replace(found, duration=time.monotonic() - begun)

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=len(names) or 1) as pool:
        return list(pool.map(travel, names))


def steps() -> dict[int, dict[str, float]]:
    """Three steps with keys that trackers rename or refuse, and one NaN; every value is exact in 32 bits, as some keep it."""
    values = {step: {key: step / 4 + number for number, key in enumerate(KEYS)} for step in (1, 2, 3)}
    return {step: data | {SOMETIMES_NAN: math.nan if step == 2 else 1.5} for step, data in values.items()}


def differences(
    sent: dict[int, dict[str, float]], read: dict[str, dict[str, float]], *, leaves_nan_out: bool = False
) -> list[Difference]:
    """What came back otherwise. `read` is by key and by the step as text, as it comes out of JSON."""
    found: list[Difference] = []
    for step, data in sent.items():
        for key, value in data.items():
            back = read.get(key, {}).get(str(step))
            if back is None and leaves_nan_out and math.isnan(value):
                continue
            if back is None or not _same(value, back):
                found.append(Difference(key=key, step=step, sent=str(value), read="" if back is None else str(back)))
    return found


def _same(sent: float, read: float) -> bool:
    return math.isnan(read) if math.isnan(sent) else math.isclose(sent, read, rel_tol=1e-6)


class _Traveller:
    """Makes runs in the job's Python."""

    def __init__(self, request: Request, job: Job, environment: Environment, packages: Packages) -> None:
        if environment.unseen:
            raise Undetermined(environment.unseen)
        self.python = job_python(request, job)
        self.directory = logging_directory(request, job)
        self.project = str(job.get("trainer.project_name"))
        self.packages = packages
        self.variables = variables(environment)

    def travel(self, name: str, special: dict[str, Any]) -> RoundTrip:
        """Raises _Held, Undetermined and NoAnswer."""
        import secrets
        import tempfile
        from pathlib import Path

        from verl_doctor_checks.facts import live_script

        if name not in TRACKERS:
            raise _Held(f"how {name} reads back is not known")
        if name != "file" and self.packages.version(name) is None:
            raise _Held(f"{name} is not installed")
        child = dict(special)
        with tempfile.TemporaryDirectory(prefix="verl-doctor-live-", ignore_cleanup_errors=True) as folder:
            environment = self.variables | child.pop("variables", {}) | _quiet(folder)
            sent = steps()
            question: dict[str, Any] = {
                "tracker": name,
                "project": self.project,
                "name": f"verl-doctor-live-{secrets.token_hex(4)}",
                "folder": folder,
                "steps": sent,
                "limit": LIMIT_S,
                "wandb_proxy": "",
                "address": f"sqlite:///{folder}/mlflow.db",
                "temporary": name in {"tensorboard", "trackio", "file"},
            } | child
            found = ask_python(
                self.python,
                Path(live_script.__file__),
                question,
                environment=environment,
                timeout=DEADLINE_S,
                directory=folder if question["temporary"] else self.directory,
            )
        return _judged(name, sent, found, question)


def _judged(name: str, sent: dict[int, dict[str, float]], found: dict[str, Any], question: dict[str, Any]) -> RoundTrip:
    from verl_doctor_checks.facts.live_script import TEMPORARY

    temporary = question["temporary"] or found["left"] == TEMPORARY
    where = found["where"]
    if name == "mlflow" and where:
        where = TEMPORARY if question["temporary"] else f"{where} at {question['address']}"
    failed = bool(found["error"])
    return RoundTrip(
        tracker=name,
        state="failed" if failed else "done",
        reason=scrub(" ".join(found["error"].split())[:600]),
        stage=found["stage"],
        where=scrub(where),
        left="" if temporary else scrub(" ".join(found["left"].split())[:600]),
        seconds=found["seconds"],
        differences=() if failed else tuple(differences(sent, found["read"], leaves_nan_out=name == "swanlab")),
    )


def _quiet(folder: str) -> dict[str, str]:
    """Variables that keep a client to itself and its files in one folder, and that end its retries before the deadline."""
    named = ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR", "TRACKIO_DIR", "TMPDIR", "RUSTUP_HOME")
    return dict.fromkeys(named, folder) | {
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
        "WANDB_DISABLE_CODE": "true",
        "WANDB_DISABLE_GIT": "true",
        "SWANLAB_LOG_DIR": folder,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",  # SwanLab asks pip and rustc what there is, and both write into the home
        "PIP_NO_CACHE_DIR": "1",
    }


def variables(environment: Environment) -> dict[str, str]:
    """The variables of the job with their values, without those that name a run or a folder. Raises Undetermined."""
    chosen: dict[str, str] = {}
    for name, variable in environment.variables.items():
        if _OTHER_RUN.fullmatch(name):
            continue
        value = variable.value.reveal() if isinstance(variable.value, Secret) else original(name, variable.value)
        if value is None and not variable.value:
            value = ""
        if variable.unknown or value is None:
            if _DECIDING.fullmatch(name):
                raise Undetermined(f"{name} is not known: {variable.unknown or 'only a redacted copy is here'}")
            continue
        chosen[name] = value
    return chosen


def _check_way(reach: Reach) -> None:
    """Raise _Held when the server is known not to answer: another check says why, and the client would wait for minutes."""
    if reach.page or (reach.probe is not None and reach.probe.cause != "ok"):
        raise _Held(f"{reach.server} cannot be reached, which another check explains")


def _for_wandb(
    job: Job, environment: Environment, packages: Packages, files: WandbFiles, viewer: WandbViewer
) -> dict[str, Any]:
    online = records_online(environment, files, packages)
    if environment.text("WANDB_MODE") == "disabled" or environment.text("WANDB_DISABLED"):
        raise _Held("wandb is disabled")
    if online:
        _check_way(viewer.reach)
        if viewer.verdict not in {"", "accepted"} or (viewer.reach.state == "looked" and not viewer.key_from):
            raise _Held("wandb has no key that its server accepts, which another check explains")
    given = job.get("trainer.wandb_proxy")
    proxy = (original("trainer.wandb_proxy", given) or "") if isinstance(given, str) else ""
    extra: dict[str, str] = {}
    for key, value in applied_settings(files, packages).items():
        if key in _OF_SETTINGS and environment.given(f"WANDB_{key.upper()}") is None:
            extra[f"WANDB_{key.upper()}"] = (value.reveal() or "") if isinstance(value, Secret) else str(value)
    return {"wandb_proxy": proxy, "variables": extra}


def _for_swanlab(environment: Environment, access: SwanlabAccess) -> dict[str, Any]:
    if environment.text("SWANLAB_MODE") == "disabled":
        raise _Held("swanlab is disabled")
    _check_way(access.reach)
    looked = access.reach.state == "looked"
    if access.verdict not in {"", "accepted"} or (is_online(environment) and looked and not access.key_from):
        raise _Held("swanlab has no key that its server accepts, which another check explains")
    return {}


def _for_mlflow(address: str, store: MlflowStore, database: MlflowDatabase, server: MlflowServer) -> dict[str, Any]:
    """The store of the job where it is ready; a store in a folder of our own where the job would first make or upgrade it."""
    kind = kind_of(address)
    if kind == "http":
        _check_way(server.reach)
        if server.verdict not in {"", "ready"} or server.experiment == "deleted":
            raise _Held("MLflow's server does not take this job, which another check explains")
    elif kind == "sqlite":
        ready = store.state == "database" and store.contents.schema == "current" and store.place.writable and not store.writer
        return {"address": f"sqlite:///{store.place.path}", "temporary": False} if ready else {"temporary": True}
    elif kind in {"postgresql", "mysql"}:
        if database.cause != "ok" or database.contents.schema != "current" or database.unwritable:
            raise _Held("MLflow's database is not ready, which another check explains")
    elif kind == "file":
        return {"temporary": True}
    else:
        raise _Held(f"{scrub(address)[:60]} is not probed")
    plain = original(URI, address)
    if plain is None:
        raise Undetermined("the password in MLFLOW_TRACKING_URI is not known")
    password = plain.partition("://")[2].rpartition("@")[0].partition(":")[2]
    if password:  # a driver's error may quote it as the server knows it
        capture(unquote(password))
    return {"address": plain.strip(), "temporary": False}
