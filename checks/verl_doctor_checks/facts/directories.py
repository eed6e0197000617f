"""The folders that the job's trackers and checkpoints will write to, as they are now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from verl_doctor.api import Environment, Job, Packages, Request, Undetermined, fact
from verl_doctor.job.working_directory import logging_directory
from verl_doctor.stores import filesystem
from verl_doctor.stores.filesystem import Place
from verl_doctor_checks.facts.mlflow import MlflowFiles
from verl_doctor_checks.facts.mlflow_store import sqlite_path
from verl_doctor_checks.trackers import number, tracks

OWNED_SETTINGS = ("trainer.default_local_dir", "trainer.rollout_data_dir", "trainer.validation_data_dir")


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """A folder or file that will be written. `named_by` is the variable or setting that names it, or would.

    `is_given`: it is named there and not a default. `unknown` says why it was not looked at.
    """

    named_by: str
    is_given: bool = True
    unknown: str = ""
    place: Place = Place()


def _example(plain: list[dict[str, Any]] | None) -> list[Directory]:
    return msgspec.convert(plain or [], list[Directory])


@fact(timeout=5, example=_example)
def directories(
    request: Request, job: Job, environment: Environment, packages: Packages, mlflow_files: MlflowFiles
) -> list[Directory]:
    """The folders of the trackers that are chosen, of checkpoints and of dumps."""
    wanted = _wanted(request, job, environment, packages, mlflow_files)
    return [found for name, find in wanted if (found := _look(name, find)) is not None]


def _look(name: str, find: _Finder) -> Directory | None:
    try:
        path, is_given = find()
        place = filesystem.look_at(os.path.normpath(path)) if path else None
    except Undetermined as error:
        return Directory(named_by=name, unknown=str(error))
    return Directory(named_by=name, is_given=is_given, place=place) if place else None


_Finder = Callable[[], tuple[str, bool]]


def _wanted(
    request: Request, job: Job, environment: Environment, packages: Packages, files: MlflowFiles
) -> Iterator[tuple[str, _Finder]]:
    """What names each folder that the job uses, and how to find it."""
    loggers = job.loggers if tracks(job) else []

    def absolute(path: str) -> str:
        if environment.unseen:
            raise Undetermined(environment.unseen)
        if path.startswith("~"):
            raise Undetermined("whether ~ is expanded depends on who reads it")
        return path if os.path.isabs(path) else os.path.join(logging_directory(request, job), path)

    def home(*parts: str) -> str:
        return os.path.join(environment.text("HOME") or os.path.expanduser("~"), *parts)

    def variable(name: str, default: Callable[[], str], inside: str = "") -> tuple[str, _Finder]:
        def find() -> tuple[str, bool]:
            given = environment.text(name)
            return absolute(os.path.join(given or default(), inside).rstrip("/")), bool(given)

        return name, find

    def setting(key: str) -> tuple[str, _Finder]:
        def find() -> tuple[str, bool]:
            value = job.get(key)
            if not isinstance(value, str) or not value or "://" in value:
                return "", False
            return absolute(value), job.settings[key].source.kind not in {"verl-default", "built-in"}

        return key, find

    def named(*parts: str) -> Callable[[], str]:
        return lambda: os.path.join(*parts, str(job.get("trainer.project_name")), str(job.get("trainer.experiment_name")))

    if "wandb" in loggers:
        yield variable("WANDB_DIR", lambda: "", "wandb")
        yield variable(
            "WANDB_DATA_DIR", lambda: os.path.join(environment.text("XDG_DATA_HOME") or home(".local/share"), "wandb")
        )
        yield variable("WANDB_CACHE_DIR", lambda: os.path.join(environment.text("XDG_CACHE_HOME") or home(".cache"), "wandb"))
    if "swanlab" in loggers:
        yield variable("SWANLAB_LOG_DIR", lambda: "swanlog")
    if "tensorboard" in loggers:
        yield variable("TENSORBOARD_DIR", named("tensorboard_log"))
    if "trackio" in loggers:
        yield variable(
            "TRACKIO_DIR", lambda: os.path.join(environment.text("HF_HOME") or home(".cache/huggingface"), "trackio")
        )
    if "file" in loggers:
        yield variable("VERL_FILE_LOGGER_PATH", lambda: named(environment.text("VERL_FILE_LOGGER_ROOT", "."))() + ".jsonl")
    yield "MLFLOW_TRACKING_URI", lambda: (sqlite_path(request, job, environment, packages, files), True)
    if tracks(job) and number(job, "trainer.save_freq", -1) > 0:
        yield setting("trainer.default_local_dir")
    if tracks(job):
        yield setting("trainer.rollout_data_dir")
        yield setting("trainer.validation_data_dir")


def named_by(directories: list[Directory], name: str) -> Directory | None:
    """The folder of this variable or setting, None when the job does not use it. Raises Undetermined when it is not known."""
    found = next((directory for directory in directories if directory.named_by == name), None)
    if found is not None and found.unknown:
        raise Undetermined(f"the folder of {name} was not looked at: {found.unknown}")
    return found
