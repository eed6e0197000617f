"""verl's `file` tracker, which writes one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator

from verl_doctor.api import Environment, Finding, Job, Severity, check, finding
from verl_doctor_checks.facts.directories import Directory, named_by
from verl_doctor_checks.facts.files import LogFile
from verl_doctor_checks.trackers import logs_to, uses_agent_loop

PATH = "VERL_FILE_LOGGER_PATH"


@check(
    "FILE001",
    "file-log-overwritten",
    tags={"logger", "file", "resume"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.logger": ["console", "file"]}, "log_file": {"path": "/w/p/e.jsonl"}},
        {"job": {"trainer.logger": ["console"]}, "log_file": {"path": "/w/p/e.jsonl", "exists": True, "size": 1000}},
        {"job": {"trainer.logger": ["file"]}, "log_file": {"path": "/w/p/e.jsonl", "exists": True, "size": 0}},
        {"job": {"trainer.logger": ["file"]}, "log_file": {"unknown": "the job runs on a cluster"}},
        {"job": {"trainer.logger": ["file"]}, "log_file": {"path": "/w", "exists": True, "size": 4096, "is_folder": True}},
    ],
    bad=[{"job": {"trainer.logger": ["console", "file"]}, "log_file": {"path": "/w/p/e.jsonl", "exists": True, "size": 90210}}],
)
def file_log_overwritten(job: Job, log_file: LogFile) -> Iterator[Finding]:
    """The file logger will overwrite the metrics of an earlier run with the same name.

    It opens `<root>/<project>/<experiment>.jsonl` for writing from the start, also when the training resumes from a
    checkpoint, which it does by default. The metrics up to the restart are then gone from this file.

    Fix: give each attempt a file of its own with VERL_FILE_LOGGER_PATH, or move the old one away.

    See: verl 0.9.1 verl/utils/tracking.py, `FileLogger.__init__`
    """
    if logs_to(job, "file") and log_file.exists and log_file.size and not log_file.is_folder:
        yield finding(
            "{path} exists with {size} bytes: the file logger empties it when the job starts, also when the training resumes",
            target="file",
            fix="Move the file away, or set VERL_FILE_LOGGER_PATH to a new file for each attempt",
            path=log_file.path,
            size=log_file.size,
        )


@check(
    "FILE002",
    "file-log-cannot-be-opened",
    tags={"logger", "file"},
    good=[
        {"job": {"trainer.logger": ["file"]}, "environment": {PATH: "/w/x.jsonl"}, "log_file": {"path": "/w/x.jsonl"}},
        {"job": {"trainer.logger": ["file"]}, "environment": {}, "log_file": {"path": "p/e.jsonl", "folder_exists": False}},
        {
            "job": {"trainer.logger": ["console"]},
            "environment": {PATH: "/no/x.jsonl"},
            "log_file": {"path": "/no/x.jsonl", "folder_exists": False},
        },
        {
            "job": {"trainer.logger": ["file"]},
            "environment": {PATH: "/w/x.jsonl", "unseen": "somebody else started Ray"},
            "log_file": {"unknown": "somebody else started Ray"},
        },
    ],
    bad=[
        {
            "job": {"trainer.logger": ["file"]},
            "environment": {PATH: "/no/x.jsonl"},
            "log_file": {"path": "/no/x.jsonl", "folder_exists": False},
        },
        {"job": {"trainer.logger": ["file"]}, "environment": {PATH: ""}, "log_file": {}},
        {"job": {"trainer.logger": ["file"]}, "environment": {PATH: "~/x.jsonl"}, "log_file": {"unknown": "a cluster"}},
        {
            "job": {"trainer.logger": ["file"]},
            "environment": {PATH: "/w"},
            "log_file": {"path": "/w", "exists": True, "is_folder": True},
        },
    ],
)
def file_log_cannot_be_opened(job: Job, environment: Environment, log_file: LogFile) -> Iterator[Finding]:
    """VERL_FILE_LOGGER_PATH names a file that cannot be opened.

    verl makes the folder of the project below VERL_FILE_LOGGER_ROOT, but not the folder of VERL_FILE_LOGGER_PATH, and it
    expands `~` only in the root. The job stops with a FileNotFoundError after the model has been loaded. An empty value counts
    as a path too.

    Fix: make the folder first and give an absolute path, or unset the variable.

    See: verl 0.9.1 verl/utils/tracking.py, `FileLogger.__init__`
    """
    if not logs_to(job, "file") or job.verl.release < (0, 6):
        return
    variable = environment.given(PATH)
    if variable is None or variable.unknown:
        return
    value = str(variable.value)
    if not value:
        yield finding("{name} is set and empty: the job stops with a FileNotFoundError", at=variable, fix="Unset it", name=PATH)
    elif value.startswith("~"):
        yield finding(
            '{name} is "{value}": verl does not expand "~" there, and the job stops with a FileNotFoundError',
            at=variable,
            fix="Give the path in full",
            name=PATH,
            value=value,
        )
    elif log_file.is_folder:
        yield finding("{name} is a folder, {value}", at=variable, fix="Name a file", name=PATH, value=value)
    elif not log_file.unknown and not log_file.folder_exists:
        yield finding(
            "The folder of {name} ({value}) does not exist, and verl does not make it: the job stops with a FileNotFoundError",
            at=variable,
            fix="Make the folder before the job starts",
            # A script may make the folder on its way to the launch, which is not seen here.
            severity=Severity.WARNING if variable.source.location else None,
            name=PATH,
            value=value,
        )


@check(
    "FILE003",
    "file-log-name-with-slash",
    tags={"logger", "file", "names"},
    good=[
        {"job": {"trainer.logger": ["file"], "trainer.experiment_name": "a_b"}, "environment": {}, "log_file": {}},
        {"job": {"trainer.logger": ["file"], "trainer.project_name": "a/b"}, "environment": {}, "log_file": {}},
        {
            "job": {"trainer.logger": ["file"], "trainer.experiment_name": "a/b"},
            "environment": {PATH: "/w/x.jsonl"},
            "log_file": {"path": "/w/x.jsonl"},
        },
        {
            "job": {"trainer.logger": ["file"], "trainer.experiment_name": "a/b"},
            "environment": {},
            "log_file": {"path": "p/a/b.jsonl", "folder_exists": True},
        },
        {"job": {"trainer.logger": ["console"], "trainer.experiment_name": "a/b"}, "environment": {}, "log_file": {}},
    ],
    bad=[
        {
            "job": {"trainer.logger": ["file"], "trainer.experiment_name": "a/b"},
            "environment": {},
            "log_file": {"path": "p/a/b.jsonl", "folder_exists": False},
        }
    ],
)
def file_log_name_with_slash(job: Job, environment: Environment, log_file: LogFile) -> Iterator[Finding]:
    """The experiment name has a slash, and the file logger does not make the folder that it implies.

    It makes the folder of the project only, so `<project>/a/b.jsonl` cannot be opened and the job stops with a
    FileNotFoundError. A slash in the project name is fine.

    Fix: use another character in the experiment name.

    See: verl 0.9.1 verl/utils/tracking.py, `FileLogger.__init__`
    """
    name = job.get("trainer.experiment_name")
    if not logs_to(job, "file") or not isinstance(name, str) or "/" not in name:
        return
    if environment.get(PATH) is None and (log_file.unknown or not log_file.folder_exists):
        yield finding(
            'The file logger cannot open a file for the experiment name "{name}": nobody makes the folder before the slash',
            at=job.settings.get("trainer.experiment_name"),
            fix="Use another character than the slash",
            name=name,
        )


@check(
    "FILE004",
    "file-log-stops-on-numpy",
    tags={"logger", "file"},
    good=[
        {"job": {"trainer.logger": ["file"], "verl": "0.7.1"}},
        {"job": {"trainer.logger": ["file"], "verl": "0.6.1"}},
        {"job": {"trainer.logger": ["file"], "verl": "0.7.0", "kind": "sft"}},
        {"job": {"trainer.logger": ["console"], "verl": "0.7.0"}},
    ],
    bad=[
        {"job": {"trainer.logger": ["file"], "verl": "0.7.0"}},
        {"job": {"trainer.logger": ["file"], "verl": "0.6.1", "actor_rollout_ref.rollout.mode": "async"}},
    ],
)
def file_log_stops_on_numpy(job: Job) -> Iterator[Finding]:
    """In this version the file logger stops the training at the first step.

    From 0.6.0 to 0.7.0 it writes with Python's own json module, which refuses the numpy integers of `num_turns/min` and
    `num_turns/max`. With the agent loop these are part of every step, so the first one ends with a TypeError.

    Fix: upgrade verl to 0.7.1 or later, or drop `file`.

    See: verl 0.7.0 verl/utils/tracking.py, `FileLogger.log`, and verl/trainer/ppo/metric_utils.py
    """
    if not logs_to(job, "file") or job.kind in {"sft", "sft_ray", "recipe"}:
        return
    if (0, 6) <= job.verl.release < (0, 7, 1) and uses_agent_loop(job):
        yield finding(
            "The file logger of verl {version} cannot write the metrics of the agent loop: the first step ends in a TypeError",
            at=job.settings.get("trainer.logger"),
            fix="Upgrade verl to 0.7.1 or later, or drop the file logger",
            version=job.verl.version,
        )


@check(
    "FILE070",
    "file-log-not-writable",
    tags={"logger", "file", "disk", "offline"},
    good=[
        {"job": {"trainer.logger": ["file"]}, "directories": [{"named_by": PATH, "place": {"path": "/w/p/e.jsonl"}}]},
        {"job": {"trainer.logger": ["wandb"]}},
    ],
    bad=[
        {
            "job": {"trainer.logger": ["file"]},
            "directories": [
                {"named_by": PATH, "place": {"path": "/w/p/e.jsonl", "writable": False, "obstacle": "/w is a file"}}
            ],
        }
    ],
)
def file_log_not_writable(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """The file logger cannot write its file.

    It opens the file when the trackers start, after the model has been loaded, and the job stops with a PermissionError.

    Fix: name a file with VERL_FILE_LOGGER_PATH, or a folder with VERL_FILE_LOGGER_ROOT, that the job may write to.

    See: verl 0.9.1 verl/utils/tracking.py, `FileLogger.__init__`
    """
    file = named_by(directories, PATH)
    if file is None or file.place.writable or not logs_to(job, "file"):
        return
    yield finding(
        "the file logger cannot write {path} ({obstacle}): the job stops when it starts to log",
        at=environment.given(PATH) or environment.given("VERL_FILE_LOGGER_ROOT"),
        target="file",
        fix="Name a file in a folder that the job may write to with VERL_FILE_LOGGER_PATH",
        path=file.place.path,
        obstacle=file.place.obstacle,
    )
