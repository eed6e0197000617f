"""verl's `tensorboard` tracker."""

from __future__ import annotations

from collections.abc import Iterator

from verl_doctor.api import Environment, Finding, Job, Severity, check, finding
from verl_doctor_checks.facts.directories import Directory, named_by
from verl_doctor_checks.facts.files import EventFolder
from verl_doctor_checks.trackers import generates, logs_to, validations

FOLDER = "TENSORBOARD_DIR"


@check(
    "TB001",
    "tensorboard-folder-shared",
    tags={"logger", "tensorboard", "resume"},
    severity=Severity.WARNING,
    good=[
        {
            "job": {"trainer.logger": ["tensorboard"], "trainer.experiment_name": "run7"},
            "environment": {FOLDER: "/logs/run7"},
            "event_folder": {"path": "/logs/run7", "event_files": 2},
        },
        {
            "job": {"trainer.logger": ["tensorboard"]},
            "environment": {FOLDER: "/logs"},
            "event_folder": {"path": "/logs", "event_files": 0},
        },
        {"job": {"trainer.logger": ["tensorboard"]}, "environment": {}, "event_folder": {}},
        {
            "job": {"trainer.logger": ["wandb"]},
            "environment": {FOLDER: "/logs"},
            "event_folder": {"path": "/logs", "event_files": 2},
        },
    ],
    bad=[
        {
            "job": {"trainer.logger": ["tensorboard"], "trainer.experiment_name": "run7"},
            "environment": {FOLDER: "/logs"},
            "event_folder": {"path": "/logs", "event_files": 3},
        }
    ],
)
def tensorboard_folder_shared(job: Job, environment: Environment, event_folder: EventFolder) -> Iterator[Finding]:
    """TENSORBOARD_DIR holds the event files of other runs.

    verl takes the variable as it is and adds neither project nor experiment, so every run with it writes into one folder.
    TensorBoard shows such files as one run: curves jump between the runs, and steps of the older one are hidden.

    Fix: give each run a folder of its own, or unset the variable, so that verl uses `tensorboard_log/<project>/<experiment>`.

    See: verl 0.9.1 verl/utils/tracking.py, `_TensorboardAdapter.__init__`
    """
    if not logs_to(job, "tensorboard") or not event_folder.event_files:
        return
    name = job.get("trainer.experiment_name")
    if isinstance(name, str) and name and name in event_folder.path:
        return
    yield finding(
        "{path} in TENSORBOARD_DIR holds {count} event files of other runs: TensorBoard will mix this run with them",
        at=environment.given(FOLDER),
        fix="Give the run a folder of its own",
        path=event_folder.path,
        count=event_folder.event_files,
    )


@check(
    "TB002",
    "tensorboard-name-with-leading-slash",
    tags={"logger", "tensorboard", "names", "generations"},
    good=[
        {"job": {"trainer.logger": ["tensorboard"], "trainer.experiment_name": "a/b"}, "environment": {}},
        {"job": {"trainer.logger": ["tensorboard"], "trainer.experiment_name": "/b"}, "environment": {}},
        {
            "job": {"trainer.logger": ["tensorboard"], "trainer.experiment_name": "/b", "trainer.log_val_generations": 5},
            "environment": {FOLDER: "/logs"},
        },
    ],
    bad=[
        {
            "job": {"trainer.logger": ["tensorboard"], "trainer.experiment_name": "/b", "trainer.log_val_generations": 5},
            "environment": {},
        }
    ],
)
def tensorboard_name_with_leading_slash(job: Job, environment: Environment) -> Iterator[Finding]:
    """A name that begins with a slash sends the validation generations to another folder than the metrics.

    The metrics go below `tensorboard_log`. For the generations verl joins the parts with os.path.join, which drops everything
    before an absolute part, so it makes a folder at the root of the file system, or fails to and ends the training.

    Fix: drop the slash at the beginning of the name.

    See: verl 0.9.1 verl/utils/tracking.py, `log_generations_to_tensorboard`
    """
    if not logs_to(job, "tensorboard") or not generates(job) or job.verl.release < (0, 5):
        return
    if not job.get("trainer.log_val_generations") or validations(job) == 0 or environment.get(FOLDER) is not None:
        return
    for key in ("trainer.project_name", "trainer.experiment_name"):
        value = job.get(key)
        if isinstance(value, str) and value.startswith("/"):
            yield finding(
                '{key} is "{value}": the validation generations go to that folder at the root of the file system',
                at=job.settings[key],
                fix="Drop the slash at the beginning",
                key=key,
                value=value,
            )


@check(
    "TB003",
    "tensorboard-folder-malformed",
    tags={"logger", "tensorboard"},
    good=[
        {"job": {"trainer.logger": ["tensorboard"]}, "environment": {FOLDER: "/logs"}},
        {"job": {"trainer.logger": ["tensorboard"]}, "environment": {}},
        {"job": {"trainer.logger": ["console"]}, "environment": {FOLDER: ""}},
        {"job": {"trainer.logger": ["tensorboard"]}, "environment": {"unseen": "somebody else started Ray"}},
    ],
    bad=[
        {"job": {"trainer.logger": ["tensorboard"]}, "environment": {FOLDER: ""}},
        {"job": {"trainer.logger": ["console", "tensorboard"]}, "environment": {FOLDER: "~/tb"}},
    ],
)
def tensorboard_folder_malformed(job: Job, environment: Environment) -> Iterator[Finding]:
    """TENSORBOARD_DIR is empty or begins with `~`.

    An empty value counts as set, and the job stops with a FileNotFoundError after the model has been loaded. verl does not
    expand `~`, so quotes around it in a script make a folder that is really called `~`.

    Fix: unset the variable, or give the path in full.

    See: verl 0.9.1 verl/utils/tracking.py, `_TensorboardAdapter.__init__`
    """
    if not logs_to(job, "tensorboard") or job.verl.release < (0, 4):
        return
    variable = environment.given(FOLDER)
    if variable is None or variable.unknown:
        return
    value = str(variable.value)
    if not value:
        yield finding("TENSORBOARD_DIR is set and empty: the job stops with a FileNotFoundError", at=variable, fix="Unset it")
    elif value.startswith("~"):
        yield finding(
            'TENSORBOARD_DIR is "{value}": verl does not expand "~" and makes a folder of that name where the job runs',
            at=variable,
            fix="Give the path in full",
            severity=Severity.WARNING,
            value=value,
        )


@check(
    "TB070",
    "tensorboard-folder-not-writable",
    tags={"logger", "tensorboard", "disk", "offline"},
    good=[
        {"job": {"trainer.logger": ["tensorboard"]}, "directories": [{"named_by": FOLDER, "place": {"path": "/t"}}]},
        {"job": {"trainer.logger": ["wandb"]}},
    ],
    bad=[
        {
            "job": {"trainer.logger": ["tensorboard"]},
            "directories": [{"named_by": FOLDER, "place": {"path": "/t", "writable": False, "obstacle": "/ is read-only"}}],
        }
    ],
)
def tensorboard_folder_not_writable(job: Job, environment: Environment, directories: list[Directory]) -> Iterator[Finding]:
    """TensorBoard's folder cannot be made or written to.

    verl makes it when the trackers start, after the model has been loaded, and stops with a PermissionError.

    Fix: set TENSORBOARD_DIR to a folder that the job may write to.

    See: verl 0.9.1 verl/utils/tracking.py, `_TensorboardAdapter.__init__` (measured)
    """
    folder = named_by(directories, FOLDER)
    if folder is None or folder.place.writable or not logs_to(job, "tensorboard"):
        return
    yield finding(
        "TensorBoard cannot write to {path} ({obstacle}): the job stops when it starts to log",
        at=environment.given(FOLDER),
        target=FOLDER,
        fix="Set TENSORBOARD_DIR to a folder that the job may write to",
        path=folder.place.path,
        obstacle=folder.place.obstacle,
    )
