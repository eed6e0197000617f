"""The effective job as one document: what matters to its tracking, where each value came from, and what cannot be known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from verl_doctor.job.environment import effective_environment
from verl_doctor.job.model import UNKNOWN, ConfigProblem, Environment, Job, Request, Setting, Source, Variable, Verl, plain
from verl_doctor.job.resolve import resolve_job
from verl_doctor.report import Location
from verl_doctor.secrets import scrub, scrub_all

SCHEMA_VERSION = "1"

_KEYS = frozenset((
    "trainer.logger", "trainer.project_name", "trainer.experiment_name", "trainer.wandb_proxy", "trainer.log_val_generations",
    "trainer.validation_data_dir", "trainer.rollout_data_dir", "trainer.default_local_dir", "trainer.default_hdfs_dir",
    "trainer.total_epochs", "trainer.total_training_steps", "trainer.test_freq", "trainer.save_freq",
    "trainer.val_before_train", "trainer.val_only",
    "trainer.resume_mode", "trainer.resume_from_path", "trainer.nnodes", "trainer.n_gpus_per_node",
    "trainer.device", "trainer.use_v1", "trainer.v1.trainer_mode",
))  # fmt: skip
_PREFIXES = ("ray_kwargs.ray_init.", "ray_init.")
_TRACKERS = re.compile(r"wandb|mlflow|swanlab|tensorboard|trackio|clearml|vemlp|rl_insight")

_VARIABLES = re.compile(
    r"(WANDB|MLFLOW|SWANLAB|TENSORBOARD|TRACKIO|CLEARML|VOLC|MLP|DATABRICKS|RAY|VERL|HYDRA|HF)_"
    r"|((https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NETRC|HOME)\Z",
    re.IGNORECASE,
)


class Value(msgspec.Struct, kw_only=True):
    """A configuration key or an environment variable, redacted. `unknown` says why its value cannot be known."""

    name: str
    value: Any
    source: str
    source_kind: str
    location: Location | None
    unknown: str


class Refused(msgspec.Struct, kw_only=True):
    """An override that Hydra refuses; `corrected` is one that works, when known."""

    override: str
    reason: str
    corrected: str | None
    source: str
    location: Location | None


class JobSummary(msgspec.Struct, kw_only=True):
    """One launch. `shadowed` are overrides that a later one of the same key replaced.

    `environment` is that of the process that logs. `left_behind` are variables of the launching shell that do not get there,
    `unseen` says why others may be set there that are not listed; empty when all are known.
    """

    name: str
    entry: str
    kind: str
    launchers: list[str]
    directory: str
    verl: Verl
    config_name: str
    exact: bool
    settings: list[Value]
    shadowed: list[Value]
    refused: list[Refused]
    environment: list[Value]
    left_behind: list[Value]
    unseen: str


class JobsDocument(msgspec.Struct, kw_only=True):
    """The launches of one command or script."""

    schema_version: str
    tool: str
    tool_version: str
    jobs: list[JobSummary]


def summarise(request: Request) -> JobSummary:
    """Resolve a request and describe it. Raises BadInput and NotAVerlLaunch."""
    job = resolve_job(request)
    return describe(job, effective_environment(request, job))


def describe(job: Job, environment: Environment) -> JobSummary:
    """What matters to the tracking of a job, without credentials."""
    return JobSummary(
        name=scrub(job.name),
        entry=scrub(job.entry),
        kind=job.kind,
        launchers=[scrub(word) for word in job.launchers],
        directory=scrub(job.directory),
        verl=job.verl,
        config_name=scrub(job.config_name),
        exact=job.exact,
        settings=[_setting(setting) for setting in job.settings.values() if _matters(setting)],
        shadowed=[_setting(setting) for setting in job.shadowed],
        refused=[_refused(problem) for problem in job.problems],
        environment=_variables(environment.variables),
        left_behind=_variables(environment.left_behind),
        unseen=scrub(environment.unseen),
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    built = msgspec.json.schema(JobsDocument)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "verl-doctor show job", **built}


def _matters(setting: Setting) -> bool:
    key = setting.key
    return key in _KEYS or key.startswith(_PREFIXES) or _TRACKERS.search(key) is not None


def _setting(setting: Setting) -> Value:
    return _value(setting.key, setting.value, setting.source, setting.unknown)


def _variables(variables: Mapping[str, Variable]) -> list[Value]:
    chosen: Iterable[Variable] = (variables[name] for name in sorted(variables) if _VARIABLES.match(name))
    return [_value(variable.name, variable.value, variable.source, variable.unknown) for variable in chosen]


def _value(name: str, value: Any, source: Source, unknown: str) -> Value:
    return Value(
        name=scrub(name),
        value=scrub_all(_without_unknown(plain(value))),
        source=scrub(source.text),
        source_kind=source.kind,
        location=source.location,
        unknown=scrub(unknown),
    )


def _without_unknown(value: Any) -> Any:
    """The value with a question mark for what is not known of it."""
    if isinstance(value, str):
        return value.replace(UNKNOWN, "?")
    if isinstance(value, list):
        return [_without_unknown(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_unknown(item) for name, item in value.items()}
    return value


def _refused(problem: ConfigProblem) -> Refused:
    return Refused(
        override=scrub(_without_unknown(problem.override)),
        reason=scrub(problem.reason),
        corrected=scrub(problem.corrected) if problem.corrected else None,
        source=scrub(problem.source.text),
        location=problem.source.location,
    )
