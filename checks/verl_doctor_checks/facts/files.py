"""Files that the trackers will meet: looked at, never opened for writing, never followed further than one folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from typing import Any

import msgspec

from verl_doctor.api import Environment, Job, Location, Request, Secret, Setting, Source, Undetermined, Variable, fact

MAX_FILE_BYTES = 1_000_000
MAX_ENTRIES = 10_000
GIT_TIMEOUT_S = 3.0


class LogFile(msgspec.Struct, kw_only=True):
    """The file that verl's file logger will open. `unknown` says why it cannot be looked at; sizes are bytes.

    `folder_exists` is about the folder that must exist for the file to be opened; verl makes the project's folder itself.
    """

    path: str = ""
    unknown: str = ""
    exists: bool = False
    size: int = 0
    is_folder: bool = False
    folder_exists: bool = True


class EventFolder(msgspec.Struct, kw_only=True):
    """The folder in TENSORBOARD_DIR. `unknown` says why it cannot be looked at."""

    path: str = ""
    unknown: str = ""
    event_files: int = 0


class TrackioFolder(msgspec.Struct, kw_only=True):
    """Where trackio keeps its databases. `unknown` says why it cannot be looked at."""

    path: str = ""
    unknown: str = ""
    writable: bool = True


class TrackedCredential(msgspec.Struct, kw_only=True):
    """A credential that stands in plain text in a file that git tracks."""

    name: str
    file: str
    line: int | None = None

    @property
    def source(self) -> Source:
        """The place, as it is shown."""
        return Source("script", "file", Location(self.file, self.line))


def _log_file(plain: Any) -> LogFile:
    return msgspec.convert(plain or {}, LogFile)


def _event_folder(plain: Any) -> EventFolder:
    return msgspec.convert(plain or {}, EventFolder)


def _trackio_folder(plain: Any) -> TrackioFolder:
    return msgspec.convert(plain or {}, TrackioFolder)


def _credentials(plain: Any) -> list[TrackedCredential]:
    return msgspec.convert(plain or [], list[TrackedCredential])


def _elsewhere(job: Job, environment: Environment) -> str:
    """Why files of this machine say nothing about the process that logs, empty when they do."""
    return "the job runs on a cluster" if "ray job submit" in job.launchers else environment.unseen


def _folder(job: Job, environment: Environment) -> str:
    """Where the process that logs works: in the folder of the command, or in that of `ray start` when it joins a Ray node."""
    there = environment.given("PWD")
    joined = job.uses_ray and bool(environment.left_behind)
    return str(there.value) if joined and there is not None else job.directory


@fact(example=_log_file)
def log_file(job: Job, environment: Environment) -> LogFile:
    """The JSONL file of verl's file logger (verl 0.9.1, verl/utils/tracking.py, FileLogger)."""
    unknown = _elsewhere(job, environment)
    if unknown:
        return LogFile(unknown=unknown)
    try:
        path = _log_path(job, environment)
    except Undetermined as error:
        return LogFile(unknown=str(error))
    if not path:
        return LogFile(unknown="the names are not text")
    return look_at(os.path.join(_folder(job, environment), path))


def _log_path(job: Job, environment: Environment) -> str:
    given = environment.get("VERL_FILE_LOGGER_PATH")
    if given is not None:
        return str(given)
    project, experiment = job.get("trainer.project_name"), job.get("trainer.experiment_name")
    if not isinstance(project, str) or experiment is None:
        return ""
    root = os.path.expanduser(environment.text("VERL_FILE_LOGGER_ROOT", "."))
    return os.path.join(root, project, f"{experiment}.jsonl")


def look_at(path: str) -> LogFile:
    """What is at a path now."""
    found = LogFile(path=path, folder_exists=os.path.isdir(os.path.dirname(path) or "."))
    try:
        status = os.stat(path)
    except OSError:
        return found
    found.exists, found.size, found.is_folder = True, status.st_size, os.path.isdir(path)
    return found


@fact(example=_event_folder)
def event_folder(job: Job, environment: Environment) -> EventFolder:
    """The folder in TENSORBOARD_DIR, with the number of event files directly in it."""
    unknown = _elsewhere(job, environment)
    if unknown:
        return EventFolder(unknown=unknown)
    try:
        given = environment.text("TENSORBOARD_DIR")
    except Undetermined as error:
        return EventFolder(unknown=str(error))
    path = os.path.join(_folder(job, environment), given) if given else ""
    return EventFolder(path=path, event_files=_count_event_files(path) if path else 0)


def _count_event_files(path: str) -> int:
    found = 0
    try:
        with os.scandir(path) as entries:
            for number, entry in enumerate(entries):
                if number >= MAX_ENTRIES:
                    break
                found += entry.name.startswith("events.out.tfevents.")
    except OSError:
        return 0
    return found


@fact(example=_trackio_folder)
def trackio_folder(job: Job, environment: Environment) -> TrackioFolder:
    """Where trackio writes, and whether this user may (trackio 0.43.0, utils.py, TRACKIO_DIR)."""
    unknown = _elsewhere(job, environment)
    if unknown:
        return TrackioFolder(unknown=unknown)
    try:
        path = environment.text("TRACKIO_DIR")
        home = environment.text("HF_HOME") or os.path.join(environment.text("HOME") or "~", ".cache", "huggingface")
    except Undetermined as error:
        return TrackioFolder(unknown=str(error))
    path = os.path.expanduser(os.path.join(_folder(job, environment), path or os.path.join(home, "trackio")))
    return TrackioFolder(path=path, writable=_may_be_made(path))


def _may_be_made(path: str) -> bool:
    """Whether the nearest existing folder on the way to `path` may be written to."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    return os.path.isdir(path or "/") and os.access(path or "/", os.W_OK | os.X_OK)


@fact(example=list)
def submitted_variables(request: Request, job: Job) -> list[str]:
    """The names of the variables in the runtime environment that `ray job submit` is given."""
    from verl_doctor.job.command import parse_command

    return sorted(parse_command(request.command, job.directory).runtime_env) if request.command else []


@fact(timeout=10, example=_credentials)
def tracked_credentials(job: Job, environment: Environment) -> list[TrackedCredential]:
    """Credentials of the job whose text stands in a file that git tracks."""
    variables = [*environment.variables.values(), *environment.left_behind.values()]
    sources: list[Setting | Variable] = [*job.settings.values(), *variables]
    found: list[TrackedCredential] = []
    tracked: dict[str, bool] = {}
    for item in sources:
        location = item.source.location
        if location is None or not isinstance(item.value, Secret) or item.value.is_placeholder or item.value.length < 8:
            continue
        path = location.file if os.path.exists(location.file) else os.path.join(job.directory, location.file)
        line = line_with(path, item.value.reveal() or "")
        if line is None:
            continue
        if path not in tracked:
            tracked[path] = is_tracked(path)
        if tracked[path]:
            name = item.key if isinstance(item, Setting) else item.name
            found.append(TrackedCredential(name=name, file=location.file, line=line))
    return _once(found)


def _once(found: Iterable[TrackedCredential]) -> list[TrackedCredential]:
    return list({(one.file, one.line): one for one in found}.values())


def line_with(path: str, text: str) -> int | None:
    """The number of the first line that holds a text, None when there is none or the file cannot be read."""
    if not text or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES)
    except OSError:
        return None
    place = content.find(text.encode())
    return None if place < 0 else content.count(b"\n", 0, place) + 1


def is_tracked(path: str) -> bool:
    """Whether git tracks a file; False when there is no git or no answer within `GIT_TIMEOUT_S` seconds."""
    folder, name = os.path.split(os.path.abspath(path))
    # core.fsmonitor may name a program of the repository's owner: it must not run because somebody looks.
    command = ["git", "-c", "core.fsmonitor=false", "-C", folder, "ls-files", "--error-unmatch", "--", name]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; the file's name stands behind `--`
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
