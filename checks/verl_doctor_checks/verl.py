"""What verl itself makes of the tracking part of a configuration: loggers, names, validation generations, traces, secrets."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator
from typing import Any

from verl_doctor.api import Environment, Finding, Job, Packages, Secret, Setting, Severity, Undetermined, check, finding
from verl_doctor.job.knowledge import supported_backends
from verl_doctor_checks.trackers import (
    NEVER_READ,
    PPO_ONLY,
    QUADRATIC_SINKS,
    SINCE,
    TRACE,
    TRACE_BACKENDS,
    generates,
    generation_sinks,
    logger_override,
    number,
    override,
    records_traces,
    trace_backend,
    tracks,
    uses_v1_trainer,
    validations,
    words,
)

NEWEST = (9999,)
"""A release after every known one: what the newest known verl has."""

GENERATIONS = "trainer.log_val_generations"
NAME_KEYS = ("trainer.project_name", "trainer.experiment_name")


def _known_names() -> list[str]:
    return sorted(supported_backends(NEWEST))


def _holds_a_list(value: Any) -> bool:
    return isinstance(value, str) and ("," in value or value.strip()[:1] in {"[", "("})


@check(
    "VERL001",
    "unknown-logger",
    tags={"logger", "config"},
    good=[
        {"job": {"trainer.logger": ["console", "wandb"]}},
        {"job": {"trainer.logger": "console"}},
        {"job": {"trainer.logger": ["tracking", "rl_insight"]}},
        {"job": {"trainer.logger": ["Wandb"], "kind": "evaluation"}},
        {"job": {"trainer.logger": "[console,wandb]"}},
        {"job": {"trainer.logger": ["console", "file"], "verl": "0.5.0"}},
    ],
    bad=[
        {"job": {"trainer.logger": ["console", "Wandb"]}},
        {"job": {"trainer.logger": "Console"}},
        {"job": {"trainer.logger": ["console", "wandbb"]}},
        {"job": {"trainer.logger": ["console", "my_own_sink"]}},
        {"job": {"trainer.logger": ["console", 1]}},
        {"job": {"trainer.logger": ["console", "swanlb"], "kind": "recipe"}},
    ],
)
def unknown_logger(job: Job) -> Iterator[Finding]:
    """`trainer.logger` names a tracker that verl does not have.

    verl compares the names letter by letter and stops with an AssertionError. It does so when the trackers are built, which
    is after Ray, the workers, the model and the rollout engine are up, so the mistake costs the whole start of the job.

    Fix: write the name as verl does; `verl-doctor explain VERL002` is about names that only another version knows.

    See: verl 0.9.1 verl/utils/tracking.py, `Tracking.supported_backend`
    """
    if not tracks(job):
        return
    known = _known_names()
    for name in job.given_loggers:
        if name in ("", "tracking") or name in known or _holds_a_list(name):
            continue
        wanted = str(name).strip().lower()
        close = [wanted] if wanted in known else difflib.get_close_matches(wanted, known, n=1, cutoff=0.75)
        if job.kind == "recipe" and not close:
            raise Undetermined(f"the recipe may bring a tracker called {name!r} of its own")
        if close:
            names = [close[0] if other == name else str(other) for other in job.given_loggers]
            yield finding(
                'verl has no tracker called "{name}": the job stops with an AssertionError when it builds its trackers',
                at=job.settings.get("trainer.logger"),
                fix='Did you mean "{close}"?',
                commands=[logger_override(names)],
                name=name,
                close=close[0],
            )
        else:
            yield finding(
                'verl has no tracker called "{name}": the job stops with an AssertionError when it builds its trackers',
                at=job.settings.get("trainer.logger"),
                fix="Use one of {known}",
                name=name,
                known=", ".join(known),
            )


@check(
    "VERL002",
    "logger-not-in-this-verl",
    tags={"logger", "config"},
    good=[
        {"job": {"trainer.logger": ["console", "file"], "verl": "0.6.0"}},
        {"job": {"trainer.logger": ["rl_insight"], "verl": "0.9.1"}},
        {"job": {"trainer.logger": ["console", "nonsense"], "verl": "0.5.0"}},
        {"job": {"trainer.logger": ["tracking"], "verl": "0.5.0"}},
    ],
    bad=[
        {"job": {"trainer.logger": ["console", "file"], "verl": "0.5.0"}},
        {"job": {"trainer.logger": ["trackio"], "verl": "0.4.1"}},
        {"job": {"trainer.logger": ["rl_insight"], "verl": "0.8.0"}},
    ],
)
def logger_not_in_this_verl(job: Job) -> Iterator[Finding]:
    """`trainer.logger` names a tracker that this version of verl does not have yet.

    The name is right for a newer verl. In this one the job stops with an AssertionError after the model has been loaded:
    `clearml` came with 0.4.0, `file` and `trackio` with 0.6.0, `rl_insight` with 0.9.0.

    Fix: upgrade verl, or choose a tracker that this version has.

    See: verl/utils/tracking.py of the releases 0.3.0.post1, 0.4.0, 0.5.0, 0.6.0 and 0.9.0
    """
    if not tracks(job):
        return
    here = supported_backends(job.verl.release)
    for name in job.given_loggers:
        if isinstance(name, str) and name in supported_backends(NEWEST) and name not in here:
            yield finding(
                'verl {version} has no tracker called "{name}" (it came with {since}): the job stops with an AssertionError',
                at=job.settings.get("trainer.logger"),
                fix="Upgrade verl to {since} or later, or use one of {known}",
                name=name,
                version=job.verl.version,
                since=SINCE.get(name, "0.2.0"),
                known=", ".join(sorted(here)),
            )


@check(
    "VERL003",
    "logger-list-in-a-text",
    tags={"logger", "config", "launch"},
    good=[
        {"job": {"trainer.logger": ["console", "wandb"]}},
        {"job": {"trainer.logger": "wandb"}},
        {"job": {"trainer.logger": "console"}},
    ],
    bad=[
        {"job": {"trainer.logger": "[console,wandb]"}},
        {"job": {"trainer.logger": "console,wandb"}},
        {"job": {"trainer.logger": ["console,wandb"]}},
        {"job": {"trainer.logger": '["console", "swanlab"]'}},
    ],
)
def logger_list_in_a_text(job: Job) -> Iterator[Finding]:
    """`trainer.logger` is one text that looks like a list.

    One pair of quotes too many turns the list into a text. Hydra accepts it, and verl takes the whole text for the name of a
    single tracker: the job stops with `AssertionError: [console,wandb] is not supported` after the start of the cluster.
    Launch scripts that verl ships have had this mistake.

    Fix: let the shell's quotes stand around the whole override and put none directly around the list.

    See: verl 0.9.1 verl/utils/tracking.py, `Tracking.__init__`
    """
    if not tracks(job):
        return
    for value in job.given_loggers:
        if _holds_a_list(value):
            yield finding(
                'trainer.logger is the text "{value}" rather than a list: verl takes it for the name of one tracker and stops',
                at=job.settings.get("trainer.logger"),
                fix="Give a list",
                commands=[logger_override(words(value))],
                value=value,
            )


@check(
    "VERL004",
    "logger-empty",
    tags={"logger", "config"},
    good=[
        {"job": {"trainer.logger": ["console"]}},
        {"job": {"trainer.logger": "console"}},
        {"job": {"trainer.logger": [], "kind": "generation"}},
    ],
    bad=[
        {"job": {"trainer.logger": None}},
        {"job": {"trainer.logger": ""}},
        {"job": {"trainer.logger": []}},
        {"job": {"trainer.logger": ["console", ""]}},
    ],
)
def logger_empty(job: Job) -> Iterator[Finding]:
    """`trainer.logger` is empty.

    With null the job stops with `TypeError: 'NoneType' object is not iterable`, with an empty name it stops with an
    AssertionError, both after the start of the cluster. With an empty list it trains and no metric is kept or shown anywhere,
    not even on the console. An override whose variable is not set, such as `trainer.logger=$LOGGER`, ends like this.

    Fix: name at least one tracker; `trainer.logger=console` is the smallest.

    See: verl 0.9.1 verl/utils/tracking.py, `Tracking.__init__`
    """
    if not tracks(job):
        return
    setting = job.settings.get("trainer.logger")
    fix, commands = "Name at least one tracker", [logger_override(["console"])]
    value = job.get("trainer.logger")
    if setting is None:
        if job.exact and not job.problems:
            yield finding(
                "The configuration has no trainer.logger: it lacks verl's defaults, and the job stops when it is read",
                fix="Start the configuration from verl's own: `defaults: [ppo_trainer, _self_]`",
                target="trainer.logger",
            )
    elif value is None:
        yield finding("trainer.logger is null: the job stops with a TypeError", at=setting, fix=fix, commands=commands)
    elif isinstance(value, (list, tuple)) and not value:
        yield finding(
            "trainer.logger is an empty list: no metric is kept or shown anywhere, not even on the console",
            at=setting,
            fix=fix,
            commands=commands,
            severity=Severity.WARNING,
        )
    elif "" in job.given_loggers:
        yield finding(
            "trainer.logger holds an empty name: the job stops with an AssertionError", at=setting, fix=fix, commands=commands
        )


@check(
    "VERL005",
    "logger-alias-tracking",
    tags={"logger", "wandb", "generations", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.logger": ["console", "wandb"], GENERATIONS: 10}},
        {"job": {"trainer.logger": ["tracking", "console"], "verl": "0.1"}},
    ],
    bad=[
        {"job": {"trainer.logger": ["console", "tracking"]}},
        {"job": {"trainer.logger": "tracking", GENERATIONS: 10}},
    ],
)
def logger_alias_tracking(job: Job) -> Iterator[Finding]:
    """`trainer.logger` uses the old name `tracking` for wandb.

    verl still starts wandb for it, with a deprecation warning that Python hides by default. Validation generations are not
    covered by the alias: they are logged only to trackers whose real name is listed, so they are dropped without a message.

    Fix: write `wandb`.

    See: verl 0.9.1 verl/utils/tracking.py, `Tracking.__init__` and `ValidationGenerationsLogger.log`
    """
    given = job.given_loggers
    if not tracks(job) or "tracking" not in given or job.verl.release < (0, 2):
        return
    names = list(dict.fromkeys("wandb" if name == "tracking" else str(name) for name in given))
    lost = generates(job) and bool(job.get(GENERATIONS)) and "wandb" not in given
    yield finding(
        'trainer.logger uses "tracking", the old name of wandb: the validation generations that were asked for are not logged'
        if lost
        else 'trainer.logger uses "tracking", the deprecated name of wandb',
        at=job.settings.get("trainer.logger"),
        fix="Write wandb",
        commands=[logger_override(names)],
    )


DISTRIBUTIONS = {
    "wandb": ("wandb",),
    "mlflow": ("mlflow", "mlflow-skinny"),
    "swanlab": ("swanlab",),
    "trackio": ("trackio",),
    "tensorboard": ("tensorboard", "tb-nightly", "tensorboard-nightly"),
    "clearml": ("clearml",),
    "vemlp_wandb": ("volcengine-ml-platform",),
    "rl_insight": ("rl-insight",),
    "weave": ("weave",),
}
"""The distributions that bring what a tracker or trace backend imports; the first one is what to install."""


@check(
    "VERL006",
    "logger-package-missing",
    tags={"logger", "wandb", "mlflow", "swanlab", "tensorboard", "trackio", "traces"},
    good=[
        {"job": {"trainer.logger": ["console", "wandb", "mlflow"]}, "packages": {}},
        {"job": {"trainer.logger": ["mlflow"]}, "packages": {"mlflow": None, "mlflow-skinny": "3.17.2"}},
        {"job": {"trainer.logger": ["console", "file"]}, "packages": {"wandb": None, "mlflow": None}},
        {"job": {"trainer.logger": ["vemlp_wandb"]}, "packages": {"volcengine-ml-platform": "1.0"}},
        {"job": {"trainer.logger": ["rl_insight"], "kind": "sft"}, "packages": {}},
    ],
    bad=[
        {"job": {"trainer.logger": ["console", "mlflow"]}, "packages": {"mlflow": None}},
        {"job": {"trainer.logger": ["console", "tracking"]}, "packages": {"wandb": None}},
        {"job": {"trainer.logger": ["console", "rl_insight"]}, "packages": {}},
        {"job": {"trainer.logger": "console", f"{TRACE}.backend": "weave", "trainer.use_v1": False}, "packages": {}},
    ],
)
def logger_package_missing(job: Job, packages: Packages) -> Iterator[Finding]:
    """The package of a chosen tracker is not installed.

    verl installs wandb and tensorboard with itself, but neither mlflow nor swanlab, trackio or clearml. The import happens in
    the process that logs, after the model has been loaded, and nothing catches the ModuleNotFoundError. In a cluster the
    package must be there on each node on which the trainer may run, and a trace backend on every node.

    Fix: install the package into the environment that runs the job.

    See: verl 0.9.1 METADATA (Requires-Dist) and verl/utils/tracking.py
    """
    if not tracks(job):
        return
    wanted = {name: "trainer.logger" for name in job.loggers if name in DISTRIBUTIONS}
    if job.kind in {"sft", "sft_ray"}:
        wanted.pop("rl_insight", None)
    backend = trace_backend(job)
    if backend in TRACE_BACKENDS and backend not in wanted:
        wanted[backend] = f"{TRACE}.backend"
    for name, key in wanted.items():
        if not any(packages.version(distribution) for distribution in DISTRIBUTIONS[name]):
            yield finding(
                '{key} asks for "{name}", and the package {package} is not installed: the job stops with a ModuleNotFoundError',
                at=job.settings.get(key),
                fix="Install {package} for the Python that runs the job, on every node",
                commands=[f"pip install {DISTRIBUTIONS[name][0]}"],
                key=key,
                name=name,
                package=DISTRIBUTIONS[name][0],
            )


HEAVY = ("wandb", "mlflow", "swanlab", "trackio", "clearml", "vemlp_wandb")


@check(
    "VERL008",
    "many-trackers",
    tags={"logger"},
    severity=Severity.INFO,
    good=[
        {"job": {"trainer.logger": ["console", "wandb", "tensorboard", "file"]}},
        {"job": {"trainer.logger": ["console", "wandb", "swanlab"]}},
    ],
    bad=[{"job": {"trainer.logger": ["console", "wandb", "mlflow", "swanlab"]}}],
)
def many_trackers(job: Job) -> Iterator[Finding]:
    """Three or more tracking services are written to at once.

    verl calls the trackers one after the other in every step, and an exception in one of them ends the training: each further
    service is another way to lose the run. Measured for 78 metrics a step, mlflow on sqlite adds about 120 ms, wandb 7 ms,
    swanlab 4 ms; starting seven trackers took between 22 and 55 s.

    Fix: keep one service, and the `file` tracker beside it as a local copy.

    See: verl 0.9.1 verl/utils/tracking.py, `Tracking.log`
    """
    heavy = [name for name in job.loggers if name in HEAVY] if tracks(job) else []
    if len(heavy) > 2:
        yield finding(
            "{count} tracking services are written to in every step ({names}): each adds time, and most can end the training",
            at=job.settings.get("trainer.logger"),
            fix='Keep one of them, with "file" beside it as a local copy',
            count=len(heavy),
            names=", ".join(heavy),
        )


@check(
    "VERL010",
    "loggers-repeat",
    tags={"logger", "wandb", "swanlab", "mlflow", "file", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.logger": ["console", "wandb"]}},
        {"job": {"trainer.logger": ["console", "vemlp_wandb"]}},
        {"job": {"trainer.logger": "vemlp_wandb"}},
        {"job": {"trainer.logger": ["console", "wandb"], "kind": "recipe", "entry": "recipe.async_flow.grpo_main"}},
        {"job": {"trainer.logger": ["console", "swanlab"], "kind": "recipe", "entry": "recipe.dapo.main_dapo"}},
    ],
    bad=[
        {"job": {"trainer.logger": ["console", "wandb", "wandb"]}},
        {"job": {"trainer.logger": ["wandb", "tracking"]}},
        {"job": {"trainer.logger": ["wandb", "vemlp_wandb"]}},
        {"job": {"trainer.logger": ["console", "file"], "kind": "recipe", "entry": "recipe.async_flow.grpo_main"}},
        {"job": {"trainer.logger": ["swanlab"], "kind": "recipe", "entry": "recipe.async_flow.grpo_main"}},
        {"job": {"trainer.logger": ["mlflow"], "kind": "recipe", "entry": "recipe.async_flow.grpo_main"}},
    ],
)
def loggers_repeat(job: Job) -> Iterator[Finding]:
    """The same run is tracked twice, or a tracker is listed twice.

    A repeated name is harmless in verl itself: it builds one tracker for each name. It still says that the list is not what
    was meant, and other tools that read it may count twice. Two trackers really collide when `wandb` and `vemlp_wandb` are
    both listed, since each starts a wandb run in the same process, and when a trainer builds two `Tracking` objects, as the
    recipe async_flow does: the second swanlab.init raises, the second mlflow start is refused and given up, and two file
    loggers write over each other in one file.

    Fix: list each tracker once, and only one of `wandb` and `vemlp_wandb`.

    See: verl 0.9.1 verl/utils/tracking.py, `Tracking.__init__`
         verl-recipe async_flow/async_flow_trainer.py and async_flow/agent_loop/agent_loop.py
    """
    if not tracks(job):
        return
    setting = job.settings.get("trainer.logger")
    names = [str(name) for name in job.given_loggers]
    resolved = ["wandb" if name == "tracking" else name for name in names]
    once = list(dict.fromkeys(resolved))
    repeated = [name for name in once if resolved.count(name) > 1]
    if repeated:
        yield finding(
            "trainer.logger names {names} more than once; verl builds one tracker for each name",
            at=setting,
            fix="List each tracker once",
            commands=[logger_override(once)],
            names=", ".join(repeated),
        )
    if "wandb" in once and "vemlp_wandb" in once:
        yield finding(
            "trainer.logger has both wandb and vemlp_wandb: both start a wandb run in the same process",
            at=setting,
            fix="Keep one of the two",
            severity=Severity.ERROR,
        )
    if job.kind == "recipe" and ".async_flow." in f".{job.entry}.":
        yield from _two_tracking_objects(setting, once)


def _two_tracking_objects(setting: Setting | None, names: list[str]) -> Iterator[Finding]:
    if "swanlab" in names:
        yield finding(
            "The recipe async_flow starts its trackers twice in one process: the second swanlab.init raises and ends the job",
            at=setting,
            fix="Use wandb, tensorboard or trackio with this recipe",
            severity=Severity.ERROR,
        )
    if "file" in names:
        yield finding(
            "The recipe async_flow starts its trackers twice: two file loggers write over each other in one file",
            at=setting,
            fix="Use wandb, tensorboard or trackio with this recipe",
            severity=Severity.ERROR,
        )
    if "mlflow" in names:
        yield finding(
            "The recipe async_flow starts its trackers twice: the second start of mlflow is refused, and its metrics are lost",
            at=setting,
            fix="Use wandb, tensorboard or trackio with this recipe",
        )


@check(
    "VERL011",
    "run-name-empty",
    tags={"logger", "names", "resume", "config"},
    good=[
        {"job": {"trainer.project_name": "p", "trainer.experiment_name": "e"}},
        {"job": {}},
        {"job": {"trainer.experiment_name": None, "trainer.default_local_dir": "/ckpt/run7"}},
        {"job": {"trainer.experiment_name": "", "kind": "evaluation"}},
    ],
    bad=[
        {"job": {"trainer.experiment_name": ""}},
        {"job": {"trainer.project_name": "  "}},
        {"job": {"trainer.project_name": None}},
        {"job": {"trainer.experiment_name": None}},
    ],
)
def run_name_empty(job: Job) -> Iterator[Finding]:
    """The project or experiment name is empty.

    An unset variable in `trainer.experiment_name=$EXP` gives an empty name. swanlab refuses it, mlflow refuses an empty
    project and verl goes on without mlflow, the file logger writes to a file called `.jsonl`, and all nameless runs share one
    checkpoint folder, from which `trainer.resume_mode=auto` resumes somebody else's training. With null, folders get the
    name `None`.

    Fix: give a name; in a script `${EXP:?}` stops when the variable is not set.

    See: verl 0.9.1 verl/trainer/config/ppo_trainer.yaml (`default_local_dir`) and verl/utils/tracking.py
    """
    if not tracks(job):
        return
    for key in NAME_KEYS:
        setting = job.settings.get(key)
        if setting is None:
            continue
        value = job.get(key)
        if isinstance(value, str) and not value.strip():
            yield finding(
                "{key} is empty: nameless runs share their files and checkpoints, and some trackers refuse the name",
                at=setting,
                fix="Give a name; `${{NAME:?}}` in a script stops when the variable is not set",
                key=key,
            )
        elif value is None and (key == NAME_KEYS[0] or str(job.get("trainer.default_local_dir", "None")).endswith("None")):
            yield finding(
                '{key} is null: folders are called "None" and shared by all such runs, checkpoints included',
                at=setting,
                fix="Give a name",
                severity=Severity.WARNING,
                key=key,
            )


REFUSES_PROJECT = ("wandb", "swanlab", "file", "trackio", "mlflow")
REFUSES_EXPERIMENT = ("wandb", "swanlab")


@check(
    "VERL012",
    "run-name-not-text",
    tags={"logger", "names", "wandb", "swanlab", "mlflow", "file", "trackio", "tensorboard", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.experiment_name": "20250101_1"}},
        {"job": {"trainer.experiment_name": None}},
        {"job": {"trainer.experiment_name": 2025, "kind": "generation"}},
    ],
    bad=[
        {"job": {"trainer.experiment_name": 202501011, "trainer.logger": ["console", "wandb"]}},
        {"job": {"trainer.experiment_name": 1e5, "trainer.logger": ["console"]}},
        {"job": {"trainer.project_name": 2025, "trainer.logger": ["console", "file"]}},
        {"job": {"trainer.project_name": 2025, "trainer.logger": ["mlflow"]}},
        {"job": {"trainer.experiment_name": True, "trainer.logger": ["swanlab"]}},
        {"job": {"trainer.project_name": 7, "trainer.logger": ["tensorboard"], GENERATIONS: 2}},
    ],
)
def run_name_not_text(job: Job) -> Iterator[Finding]:
    """The project or experiment name is read as a number or a truth value.

    YAML rules turn `20250101_1` into the number 202501011 and `1e5` into 100000.0, so the run gets another name than the one
    that was written. wandb, swanlab, trackio and the file logger stop the job on a name that is not a text, and verl goes on
    without mlflow.

    Fix: put double quotes around the value, inside the shell's quotes.

    See: verl 0.9.1 verl/utils/tracking.py
         wandb 0.31.0 sdk/wandb_settings.py
    """
    if not tracks(job):
        return
    for key in NAME_KEYS:
        value = job.get(key)
        if value is None or isinstance(value, (str, Secret)):
            continue
        given = _as_given(job, key, value)
        refusing = _refuses(job, key)
        if refusing:
            yield finding(
                "{key} is read as {value}, which is not a text: {trackers} cannot start with it",
                at=job.settings[key],
                fix="Quote the value so that it stays a text",
                commands=[override(key, given)],
                severity=Severity.ERROR,
                key=key,
                value=value,
                trackers=", ".join(refusing),
            )
        else:
            yield finding(
                "{key} is read as {value}, which is not a text: the run may get another name than the one that was written",
                at=job.settings[key],
                fix="Quote the value so that it stays a text",
                commands=[override(key, given)],
                key=key,
                value=value,
            )


def _as_given(job: Job, key: str, value: Any) -> str:
    """The value as it was written in the command, as far as the command shows it."""
    words_of_key = [argument.split("=", 1)[1] for argument in job.command if argument.lstrip("+").startswith(f"{key}=")]
    return words_of_key[-1] if words_of_key else str(value)


def _refuses(job: Job, key: str) -> list[str]:
    refusing = REFUSES_PROJECT if key == NAME_KEYS[0] else REFUSES_EXPERIMENT
    names = [name for name in job.loggers if name in refusing]
    shows_generations = generates(job) and bool(job.get(GENERATIONS)) and validations(job) != 0
    if "tensorboard" in job.loggers and shows_generations and job.verl.release >= (0, 5):
        names.append("tensorboard")
    return names


@check(
    "VERL013",
    "generations-count-odd",
    tags={"logger", "generations", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {GENERATIONS: 0}},
        {"job": {GENERATIONS: 10}},
        {"job": {GENERATIONS: False}},
        {"job": {GENERATIONS: -1, "trainer.val_before_train": False, "trainer.test_freq": -1}},
        {"job": {GENERATIONS: "ten", "kind": "sft"}},
        {"job": {}},
    ],
    bad=[
        {"job": {GENERATIONS: -1}},
        {"job": {GENERATIONS: None}},
        {"job": {GENERATIONS: True}},
        {"job": {GENERATIONS: "ten"}},
        {"job": {GENERATIONS: 10.0}},
    ],
)
def generations_count_odd(job: Job) -> Iterator[Finding]:
    """`trainer.log_val_generations` is not a plain count.

    verl cuts the samples with `samples[:n]` and switches off only for 0. So -1 is neither "off" nor "all": it logs every
    sample of the validation set but one. null logs all of them, and true logs one. A text or a number with a decimal point
    stops the job at its first validation.

    Fix: use a whole number, 0 to switch off.

    See: verl 0.9.1 verl/trainer/ppo/ray_trainer.py, `_maybe_log_val_generations`
    """
    setting = job.settings.get(GENERATIONS)
    if setting is None or not generates(job) or validations(job) == 0:
        return
    value = job.get(GENERATIONS)
    fix = "Use a whole number; 0 switches the table off"
    if value is True:
        yield finding("trainer.log_val_generations is true, which verl takes for 1: one sample is logged", at=setting, fix=fix)
    elif value is None:
        yield finding(
            "trainer.log_val_generations is null: every sample of the validation set is logged at each validation",
            at=setting,
            fix=fix,
        )
    elif isinstance(value, (str, float)):
        yield finding(
            'trainer.log_val_generations is "{value}", not a whole number: the job stops at its first validation',
            at=setting,
            fix=fix,
            severity=Severity.ERROR,
            value=value,
        )
    elif isinstance(value, int) and value < 0:
        yield finding(
            "trainer.log_val_generations is {value}: verl logs all samples of the validation set but {left_out}",
            at=setting,
            fix=fix,
            value=value,
            left_out=-value,
        )


@check(
    "VERL014",
    "generations-kept-nowhere",
    tags={"logger", "generations", "console", "file", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {GENERATIONS: 10, "trainer.logger": ["console", "wandb"]}},
        {"job": {GENERATIONS: 10, "trainer.logger": ["console", "tensorboard"]}},
        {"job": {GENERATIONS: 0, "trainer.logger": "console"}},
        {"job": {GENERATIONS: 10, "trainer.logger": "vemlp_wandb"}},
        {"job": {GENERATIONS: 10, "trainer.logger": ["console", "tracking"]}},
        {"job": {GENERATIONS: 10, "trainer.logger": "console", "kind": "sft"}},
        {"job": {GENERATIONS: 10, "trainer.logger": "[console,wandb]"}},
        {"job": {GENERATIONS: 10, "trainer.logger": "console", "trainer.validation_data_dir": "/data/val"}},
        {"job": {GENERATIONS: 10, "trainer.logger": "console", "trainer.val_before_train": False, "trainer.test_freq": -1}},
    ],
    bad=[
        {"job": {GENERATIONS: 10, "trainer.logger": ["console", "file"]}},
        {"job": {GENERATIONS: 10, "trainer.logger": "console"}},
        {"job": {GENERATIONS: 10, "trainer.logger": ["console", "trackio"], "verl": "0.7.1"}},
    ],
)
def generations_kept_nowhere(job: Job) -> Iterator[Finding]:
    """Validation generations are asked for, and no chosen tracker keeps them.

    `console`, `file` and `rl_insight` skip generations without a message, `trackio` does so before verl 0.8.0. The samples are
    sorted and cut at each validation and then dropped.

    Fix: add a tracker that keeps them (wandb, mlflow, swanlab, tensorboard, clearml), or write all samples as JSONL with
    `trainer.validation_data_dir`.

    See: verl 0.9.1 verl/utils/tracking.py, `ValidationGenerationsLogger.log`
    """
    names = job.given_loggers
    setting = job.settings.get(GENERATIONS)
    if setting is None or not generates(job) or not job.get(GENERATIONS) or not names:
        return
    uncertain = any(name == "tracking" or _holds_a_list(name) or name not in _known_names() for name in names)
    if uncertain or generation_sinks(job) or job.get("trainer.validation_data_dir") or job.verl.release < (0, 4):
        return
    if validations(job) == 0:
        return
    yield finding(
        "trainer.log_val_generations is {value}, and none of {names} keeps generations: they are dropped without a message",
        at=setting,
        fix="Add a tracker that keeps them, or write all samples to files with trainer.validation_data_dir",
        commands=["trainer.validation_data_dir=validation_samples"],
        value=job.get(GENERATIONS),
        names=", ".join(map(str, names)),
    )


CHARACTERS_PER_TOKEN = 4
WARN_BYTES = 200_000_000
MANY_SAMPLES = 50


@check(
    "VERL015",
    "generations-too-large",
    tags={"logger", "generations", "wandb", "mlflow", "swanlab", "tensorboard", "trackio", "disk"},
    severity=Severity.WARNING,
    good=[
        {"job": {GENERATIONS: 0, "trainer.total_training_steps": 1000, "trainer.test_freq": 1}},
        {"job": {GENERATIONS: 10, "trainer.test_freq": 5}},
        {"job": {GENERATIONS: 100}},
        {
            "job": {
                GENERATIONS: 10,
                "trainer.total_training_steps": 100,
                "trainer.test_freq": 10,
                "data.max_response_length": 2048,
            }
        },
        {"job": {GENERATIONS: 500, "trainer.test_freq": 5, "trainer.logger": ["console", "mlflow"]}},
        {"job": {GENERATIONS: 500, "trainer.test_freq": 5, "trainer.logger": "console"}},
        {"job": {GENERATIONS: 500, "trainer.test_freq": 5, "kind": "fully_async"}},
        {"job": {GENERATIONS: -1, "trainer.test_freq": 5}},
    ],
    bad=[
        {
            "job": {
                GENERATIONS: 100,
                "trainer.total_training_steps": 1000,
                "trainer.test_freq": 10,
                "data.max_response_length": 8192,
            }
        },
        {
            "job": {
                GENERATIONS: 500,
                "trainer.total_training_steps": 1000,
                "trainer.test_freq": 5,
                "data.max_response_length": 32768,
            }
        },
        {
            "job": {
                GENERATIONS: 1000,
                "trainer.total_training_steps": 1000,
                "trainer.test_freq": 10,
                "data.max_response_length": 8192,
                "trainer.logger": ["mlflow"],
            }
        },
        {"job": {GENERATIONS: 100, "trainer.test_freq": 5, "trainer.logger": ["console", "wandb"]}},
    ],
)
def generations_too_large(job: Job) -> Iterator[Finding]:
    """The validation generations grow to an amount that fills disks and makes tables unusable.

    verl keeps no limit on the length of a sample. With wandb each validation writes the samples of all earlier validations
    again, so the bytes grow with the square of the number of validations; offline runs hold two further copies below the
    home folder. The other trackers grow in proportion. The estimate takes prompts and responses to be half as long as their
    limits and four characters to a token.

    Fix: log few samples, validate less often, or write all of them once with `trainer.validation_data_dir`.

    See: verl 0.9.1 verl/utils/tracking.py, `_log_generations_to_wandb`
         https://github.com/verl-project/verl/issues/745
    """
    count = number(job, GENERATIONS, 0)
    if not generates(job) or job.kind == "fully_async" or count <= 0:
        return
    sinks = generation_sinks(job)
    if not sinks:
        return
    repeating = next((name for name in sinks if name in QUADRATIC_SINKS), None)
    tokens = number(job, "data.max_prompt_length", 512) + number(job, "data.max_response_length", 512)
    sample = tokens * CHARACTERS_PER_TOKEN // 2
    times = validations(job)
    if times is not None:
        yield from _amount_in_all(job, count, sample, times, tracker=sinks[0], repeating=repeating)
    elif repeating and count >= MANY_SAMPLES:
        yield finding(
            "trainer.log_val_generations is {count}: each validation adds about {step} to the {tracker} table and writes all "
            "of it again, {ten} after 10 validations and {hundred} after 100 (for samples half as long as the limits)",
            at=job.settings.get(GENERATIONS),
            fix="Log fewer samples, or write all of them to files with trainer.validation_data_dir",
            commands=["trainer.log_val_generations=10"],
            count=count,
            step=_size(count * sample),
            ten=_size(count * sample * 55),
            hundred=_size(count * sample * 5050),
            tracker=repeating,
        )


def _amount_in_all(job: Job, count: int, sample: int, times: int, *, tracker: str, repeating: str | None) -> Iterator[Finding]:
    """The finding when the number of validations is known; `sample` is the bytes of one sample."""
    writes = times * (times + 1) // 2 if repeating else times
    total = count * sample * writes
    if total <= WARN_BYTES:
        return
    fitting = WARN_BYTES // (sample * writes)
    yield finding(
        "{count} samples at {validations} validations write about {size} through {tracker}, which repeats all earlier samples "
        "each time (for samples half as long as the limits)"
        if repeating
        else "{count} samples at {validations} validations write about {size} through {tracker} "
        "(for samples half as long as the limits)",
        at=job.settings.get(GENERATIONS),
        fix="{fitting} samples stay below {limit}; trainer.validation_data_dir writes all samples to files"
        if fitting
        else "Validate less often; trainer.validation_data_dir writes all samples to files, once each",
        commands=[f"trainer.log_val_generations={fitting}"],
        count=count,
        validations=times,
        size=_size(total),
        tracker=repeating or tracker,
        fitting=fitting,
        limit=_size(WARN_BYTES),
    )


def _size(count: int) -> str:
    """Bytes for people: two significant digits, decimal units."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


@check(
    "VERL016",
    "generations-in-another-process",
    tags={"logger", "generations", "wandb", "swanlab", "trackio", "mlflow", "clearml"},
    severity=Severity.WARNING,
    good=[
        {"job": {"kind": "fully_async", GENERATIONS: 10, "trainer.logger": ["console", "tensorboard"]}},
        {"job": {"kind": "fully_async", GENERATIONS: 0, "trainer.logger": ["console", "wandb"]}},
        {"job": {"kind": "ppo", GENERATIONS: 10, "trainer.logger": ["console", "swanlab"]}},
        {"job": {"kind": "one_step_off", GENERATIONS: 10, "trainer.logger": ["console", "swanlab"]}},
    ],
    bad=[
        {"job": {"kind": "fully_async", GENERATIONS: 10, "trainer.logger": ["console", "wandb"]}},
        {"job": {"kind": "fully_async", GENERATIONS: 10, "trainer.logger": ["swanlab"]}},
        {"job": {"kind": "fully_async", GENERATIONS: 10, "trainer.logger": ["trackio"]}},
        {"job": {"kind": "fully_async", GENERATIONS: 10, "trainer.logger": ["mlflow"]}},
    ],
)
def generations_in_another_process(job: Job) -> Iterator[Finding]:
    """Fully asynchronous training logs validation generations in a process that has no run.

    Validation happens in the rollouter actor, the trackers are started in the trainer actor. So wandb and clearml drop the
    generations without a message, mlflow puts them into a stray run with a random name, and swanlab and trackio raise a
    RuntimeError in the middle of the first validation.

    Fix: set `trainer.log_val_generations=0` and write the samples with `trainer.validation_data_dir`, or use tensorboard.

    See: verl 0.9.1 verl/experimental/fully_async_policy/fully_async_rollouter.py and fully_async_trainer.py
         https://github.com/verl-project/verl/issues/5988
    """
    if job.kind != "fully_async" or not job.get(GENERATIONS) or validations(job) == 0:
        return
    outcome = {
        "swanlab": "In fully asynchronous training {tracker} has no run where validation happens: the first one raises",
        "trackio": "In fully asynchronous training {tracker} has no run where validation happens: the first one raises",
        "mlflow": "In fully asynchronous training {tracker} puts the validation generations into a stray run of its own",
        "wandb": "In fully asynchronous training {tracker} drops the validation generations without a message",
        "clearml": "In fully asynchronous training {tracker} drops the validation generations without a message",
    }
    for tracker in generation_sinks(job):
        if tracker in outcome:
            yield finding(
                outcome[tracker],
                at=job.settings.get(GENERATIONS),
                fix="Switch them off and write the samples to files with trainer.validation_data_dir",
                commands=["trainer.log_val_generations=0", "trainer.validation_data_dir=validation_samples"],
                severity=Severity.ERROR if tracker in {"swanlab", "trackio"} else None,
                tracker=tracker,
            )


@check(
    "VERL017",
    "trace-backend-unknown",
    tags={"logger", "traces", "config"},
    good=[
        {"job": {f"{TRACE}.backend": None}},
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.logger": ["console"]}},
        {"job": {f"{TRACE}.backend": "weave"}},
        {"job": {f"{TRACE}.backend": "trackio", "verl": "0.8.0"}},
        {"job": {f"{TRACE}.backend": "wandb", "kind": "sft"}},
    ],
    bad=[
        {"job": {f"{TRACE}.backend": "wandb"}},
        {"job": {f"{TRACE}.backend": "Weave"}},
        {"job": {f"{TRACE}.backend": "trackio", "verl": "0.7.1"}},
    ],
)
def trace_backend_unknown(job: Job) -> Iterator[Finding]:
    """`rollout.trace.backend` names something that records no traces.

    verl knows `weave` and `mlflow`, and `trackio` since 0.8.0. Any other text is accepted, and nothing is recorded and nothing
    is printed. The name of a tracker of `trainer.logger`, such as wandb or swanlab, does not work here: traces are
    independent of the trackers.

    Fix: use `weave`, `mlflow` or `trackio`.

    See: verl 0.9.1 verl/utils/rollout_trace.py, `RolloutTraceConfig.init`
    """
    backend = trace_backend(job)
    since = TRACE_BACKENDS.get(backend)
    if not backend or job.kind == "recipe" or (since and job.verl.release >= since):
        return
    usable = [name for name, first in TRACE_BACKENDS.items() if job.verl.release >= first]
    yield finding(
        'verl {version} records no rollout traces for the backend "{backend}", and says nothing about it',
        at=job.settings.get(f"{TRACE}.backend"),
        fix="Use one of {usable}",
        version=job.verl.version,
        backend=backend,
        usable=", ".join(usable) or "the backends of a newer verl",
    )


@check(
    "VERL018",
    "traces-not-recorded",
    tags={"logger", "traces", "mlflow", "trackio", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False}},
        {"job": {f"{TRACE}.backend": "mlflow", "kind": "fully_async"}},
        {"job": {f"{TRACE}.backend": "mlflow", "verl": "0.8.0"}},
        {"job": {f"{TRACE}.backend": None}},
        {"job": {f"{TRACE}.backend": "mlflow", "kind": "recipe"}},
        {"job": {f"{TRACE}.backend": "mlflow", "actor_rollout_ref.rollout.agent.agent_loop_manager_class": "mine.Manager"}},
        {"job": {f"{TRACE}.backend": "weave", "verl": "0.6.1", "actor_rollout_ref.rollout.mode": "async"}},
    ],
    bad=[
        {"job": {f"{TRACE}.backend": "mlflow"}},
        {"job": {f"{TRACE}.backend": "weave", "verl": "0.8.0", "entry": "verl.trainer.main_ppo_sync"}},
        {"job": {f"{TRACE}.backend": "weave", "verl": "0.6.1"}},
    ],
)
def traces_not_recorded(job: Job) -> Iterator[Finding]:
    """Rollout traces are configured, and this trainer records none.

    The V1 trainer, which is the default since 0.9.0, switches tracing off for every sample; a note in its source says that the
    support is still to come. Up to 0.6.1 traces exist only with the agent loop, that is with `rollout.mode=async`. Nothing is
    printed in either case.

    Fix: use `trainer.use_v1=False` while it exists, or do not rely on traces.

    See: verl 0.9.1 verl/trainer/ppo/v1/agent_loop_tq.py, `trace_this_sample`
         verl 0.8.0 verl/trainer/main_ppo_sync.py
    """
    backend = trace_backend(job)
    if backend not in TRACE_BACKENDS or records_traces(job) is not False:
        return
    setting = job.settings.get(f"{TRACE}.backend")
    if not uses_v1_trainer(job):
        yield finding(
            'Rollout traces for "{backend}" are recorded only by the agent loop, and the rollout mode is not async',
            at=setting,
            fix="Use the agent loop",
            commands=["actor_rollout_ref.rollout.mode=async"],
            backend=backend,
        )
    elif job.entry.endswith("main_ppo_sync"):
        yield finding(
            'This trainer records no rollout traces: "{backend}" stays empty, without a message',
            at=setting,
            fix="Start verl.trainer.main_ppo, which records them",
            backend=backend,
        )
    else:
        yield finding(
            'The V1 trainer of verl {version} records no rollout traces: "{backend}" stays empty, without a message',
            at=setting,
            fix="Use the older trainer, which records them and is deprecated",
            commands=["trainer.use_v1=False"],
            version=job.verl.version,
            backend=backend,
        )


DEFAULT_TRACE_STORE = "sqlite:////tmp/mlruns.db"


@check(
    "VERL019",
    "trace-store-on-one-node",
    tags={"logger", "traces", "mlflow"},
    good=[
        {
            "job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "trainer.nnodes": 2},
            "environment": {"MLFLOW_TRACKING_URI": "http://mlflow.example:5000"},
        },
        {
            "job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "trainer.nnodes": 2},
            "environment": {"MLFLOW_TRACKING_URI": "databricks"},
        },
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "trainer.nnodes": 1}},
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.nnodes": 2}},
        {"job": {f"{TRACE}.backend": "weave", "trainer.use_v1": False, "trainer.nnodes": 2}},
    ],
    bad=[
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "trainer.nnodes": 2}},
        {
            "job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "trainer.nnodes": 2},
            "environment": {"MLFLOW_TRACKING_URI": "sqlite:///mlruns.db"},
        },
        {
            "job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "trainer.nnodes": 4},
            "environment": {"MLFLOW_TRACKING_URI": "sqlite:////shared/mlruns.db"},
        },
        {"job": {f"{TRACE}.backend": "mlflow", "kind": "fully_async", "trainer.nnodes": 1, "rollout.nnodes": 1}},
    ],
)
def trace_store_on_one_node(job: Job, environment: Environment) -> Iterator[Finding]:
    """The workers of several nodes write their traces to an sqlite file.

    Traces are written by the agent loop workers, which Ray spreads over all nodes. With an sqlite address, which is also the
    default, each node gets a database file of its own and the traces of one step are scattered. On a shared file system many
    workers write to one sqlite file, which ends with "database is locked".

    Fix: use the address of an MLflow server that every node reaches.

    See: verl 0.9.1 verl/utils/rollout_trace.py and verl/experimental/agent_loop/agent_loop.py
         https://github.com/mlflow/mlflow/issues/7206
    """
    if trace_backend(job) != "mlflow" or not records_traces(job):
        return
    nodes = number(job, "trainer.nnodes", 1)
    if job.kind in {"fully_async", "one_step_off"}:
        nodes += number(job, "rollout.nnodes", 0)
    if nodes < 2:
        return
    address = environment.text("MLFLOW_TRACKING_URI", DEFAULT_TRACE_STORE)
    sqlite = re.match(r"sqlite(?:\+\w+)?:///(.*)", address)
    if sqlite is None:
        return
    private = not sqlite[1].startswith("/") or sqlite[1].startswith(("/tmp/", "/var/tmp/", "/dev/shm/"))  # noqa: S108 - compared
    yield finding(
        "{nodes} nodes write traces to {address}: each node gets a database of its own"
        if private
        else "{nodes} nodes write traces to {address}: they lock each other out, or each has a file of its own",
        at=environment.given("MLFLOW_TRACKING_URI") or job.settings.get(f"{TRACE}.backend"),
        fix="Set MLFLOW_TRACKING_URI to an MLflow server that every node reaches",
        severity=None if private else Severity.WARNING,
        nodes=nodes,
        address=address,
    )


TRACED_BYTES = {"mlflow": 72_000, "weave": 72_000, "trackio": 345_000}
"""Bytes of a trace of one turn with 2,500 tokens: measured with mlflow 3.17.2 and trackio 0.43.0, weave is taken as mlflow."""

MANY_TRACES = 256


@check(
    "VERL020",
    "traces-uncapped",
    tags={"logger", "traces", "mlflow", "trackio", "disk", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, f"{TRACE}.max_samples_per_step_per_worker": 2}},
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "data.train_batch_size": 16}},
        {"job": {f"{TRACE}.backend": "mlflow"}},
        {"job": {f"{TRACE}.max_samples_per_step_per_worker": None}},
    ],
    bad=[
        {"job": {f"{TRACE}.backend": "mlflow", "trainer.use_v1": False, "data.train_batch_size": 1024}},
        {"job": {f"{TRACE}.backend": "weave", "verl": "0.6.1", "actor_rollout_ref.rollout.mode": "async"}},
        {"job": {f"{TRACE}.max_samples_per_step_per_worker": -1}},
    ],
)
def traces_uncapped(job: Job) -> Iterator[Finding]:
    """Every rollout of every step is traced.

    Without a cap each response becomes a trace, validation included: about 72 kB in mlflow and 345 kB in trackio for a single
    turn of 2,500 tokens, more with several turns. 1,024 prompts with 8 responses are 0.6 GB a step. The free plan of weave is
    used up within hours. A negative cap stops the job.

    Fix: set `actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker`, which exists since 0.7.0.

    See: verl 0.9.1 verl/trainer/config/rollout/rollout.yaml and verl/workers/config/rollout.py, `TraceConfig`
         verl docs/advance/rollout_trace.rst
    """
    if not generates(job):
        return
    key = f"{TRACE}.max_samples_per_step_per_worker"
    cap = job.get(key)
    if isinstance(cap, int) and cap < 0 and job.verl.release >= (0, 7):
        yield finding(
            "{key} is {cap}: a negative cap stops the job with a ValueError",
            at=job.settings[key],
            fix="Use null for all samples, or a count",
            severity=Severity.ERROR,
            key=key,
            cap=cap,
        )
        return
    backend = trace_backend(job)
    if backend not in TRACE_BACKENDS or not records_traces(job) or cap is not None:
        return
    traces = number(job, "data.train_batch_size", 1024) * number(job, "actor_rollout_ref.rollout.n", 1)
    if traces <= MANY_TRACES:
        return
    has_cap = job.verl.release >= (0, 7)
    yield finding(
        "Every rollout is traced: about {traces} traces and {size} a step through {backend}",
        at=job.settings.get(f"{TRACE}.backend"),
        fix="Cap the samples that each worker traces" if has_cap else "Upgrade verl to 0.7.0, which has a cap",
        commands=[f"{key}=1"] if has_cap else [],
        traces=traces,
        size=_size(traces * TRACED_BYTES[backend]),
        backend=backend,
    )


@check(
    "VERL021",
    "key-verl-never-reads",
    tags={"config", "logger"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.total_epochs": 3, "trainer.wandb_proxy": "http://proxy:3128"}},
        {"job": {"trainer.val_generations_to_log_to_wandb": 5, "verl": "0.3.0.post1"}},
        {"job": {"trainer.log_freq": 1}},
        {"job": {f"{TRACE}.backend": "mlflow", f"{TRACE}.token2text": True, f"{TRACE}._target_": "verl.TraceConfig"}},
    ],
    bad=[
        {"job": {"trainer.tensorboard_dir": "/logs/tb"}},
        {"job": {"trainer.max_epochs": 3}},
        {"job": {"trainer.is_test": True}},
        {"job": {"trainer.swanlab.save_dir": "/logs"}},
        {"job": {f"{TRACE}.max_text_length": 1000}},
    ],
)
def key_verl_never_reads(job: Job) -> Iterator[Finding]:
    """The configuration sets a key that no part of verl reads.

    Some keys exist only in articles. With a plus, or in a file of one's own, Hydra accepts them and they do nothing:
    tensorboard, for example, goes on writing to its default folder. An unknown key below `rollout.trace` does more: the
    trainer stops with a TypeError, since that part is turned into a dataclass.

    Fix: use what verl does read; for most of them that is an environment variable of the process that logs.

    See: verl 0.9.1 verl/utils/tracking.py and verl/workers/config/rollout.py
         https://github.com/verl-project/verl/issues/1853
    """
    if job.verl.release < (0, 4):
        return
    for key, (kind, name) in NEVER_READ.items():
        setting = job.settings.get(key)
        if setting is None:
            continue
        if kind == "variable":
            yield finding(
                "verl never reads {key}",
                at=setting,
                fix="Set the environment variable {name} in the process that logs",
                key=key,
                name=name,
            )
        elif kind == "key":
            yield finding("verl never reads {key}", at=setting, fix="The key is {name}", key=key, name=name)
        else:
            yield finding("verl never reads {key}", at=setting, fix="Remove it; verl has nothing like it", key=key)
    yield from _unknown_trace_keys(job)


TRACE_KEYS = {"_target_", "backend", "token2text", "max_samples_per_step_per_worker", "project_name", "experiment_name"}


def _unknown_trace_keys(job: Job) -> Iterator[Finding]:
    if job.verl.release < (0, 7) or not generates(job):
        return
    for key, setting in job.under(TRACE).items():
        if key.split(".")[0] not in TRACE_KEYS:
            yield finding(
                "{key} does not exist: the job stops with a TypeError when verl reads the rollout configuration",
                at=setting,
                fix="Remove it; samples are not shortened by verl, only their number can be capped",
                severity=Severity.ERROR,
                key=f"{TRACE}.{key}",
            )


RUNTIME_ENV = "ray_kwargs.ray_init.runtime_env.env_vars."
_REDACTED = re.compile(r"(?<!\*)\*\*\*(?!\*)")


@check(
    "VERL022",
    "secret-in-config",
    tags={"secrets", "config", "logger"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.experiment_name": "run1", "data.prompt_key": "prompt", "trainer.max_tokens": 100}},
        {"job": {"ray_kwargs.ray_init.runtime_env.env_vars.WANDB_MODE": "offline"}},
        {"job": {"ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY": "your_key"}},
        {"job": {"custom.api_key": "EMPTY"}},
        {"job": {"trainer.wandb_proxy": "http://proxy.example:3128"}},
    ],
    bad=[
        {"job": {"ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567"}},
        {"job": {"reward.judge.api_key": "sk-abcdefghijklmnopqrstuvwxyz"}},
        {"job": {"trainer.wandb_proxy": "http://user:password@proxy.example:3128"}},
    ],
)
def secret_in_config(job: Job) -> Iterator[Finding]:
    """A credential is part of the configuration.

    verl sends its whole configuration to every tracker as the settings of the run, prints it on the console twice, and Hydra
    writes it to `outputs/`. A key that is passed as `+ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY=...` was found
    again in the wandb run file, the mlflow database, the trackio database and the swanlab configuration.

    Fix: hand credentials over through the environment: export them before `ray start`, put them into the runtime environment
    of `ray job submit`, or log in on the node. Replace a credential that has been logged already.

    See: verl 0.9.1 verl/trainer/main_ppo.py (`print`, `pprint`) and verl/utils/tracking.py (`config=`)
    """
    if not tracks(job):
        return
    for key, setting in job.settings.items():
        if setting.source.kind in {"verl-default", "built-in"} or not _reveals(setting.value):
            continue
        if key.startswith(RUNTIME_ENV):
            yield finding(
                "{key} holds a credential: verl sends it to every tracker with the configuration and prints it on the console",
                at=setting,
                fix="Export {name} before `ray start`, or put it into the runtime environment of `ray job submit`",
                key=key,
                name=key[len(RUNTIME_ENV) :],
            )
        else:
            yield finding(
                "{key} holds a credential: verl sends it to every tracker with the configuration and prints it on the console",
                at=setting,
                fix="Pass it through the environment of the process that needs it",
                key=key,
            )


def _reveals(value: Any) -> bool:
    if isinstance(value, Secret):
        return value.length >= 8 and not value.is_placeholder
    return isinstance(value, str) and _REDACTED.search(value) is not None


@check(
    "VERL025",
    "sft-needs-newer-verl",
    tags={"logger", "wandb"},
    good=[
        {"job": {"kind": "sft", "trainer.logger": ["console", "wandb"], "verl": "0.4.1"}},
        {"job": {"kind": "sft", "trainer.logger": ["console"], "verl": "0.4.0"}},
        {"job": {"kind": "ppo", "trainer.logger": ["console", "wandb"], "verl": "0.4.0"}},
    ],
    bad=[{"job": {"kind": "sft", "trainer.logger": ["console", "wandb"], "verl": "0.4.0"}}],
)
def sft_needs_newer_verl(job: Job) -> Iterator[Finding]:
    """The SFT trainer of verl 0.4.0 cannot start wandb.

    It hands no configuration to the trackers, and the search for `trainer.wandb_proxy` in it fails with a TypeError, also for
    those who use no proxy. 0.4.1 tests for the case.

    Fix: upgrade verl to 0.4.1 or later.

    See: verl 0.4.0 verl/utils/tracking.py and verl/trainer/fsdp_sft_trainer.py
         https://github.com/verl-project/verl/issues/1938
    """
    if job.kind in {"sft", "sft_ray"} and job.verl.release == (0, 4, 0) and "wandb" in job.loggers:
        yield finding(
            "The SFT trainer of verl {version} stops with a TypeError when it starts wandb",
            at=job.settings.get("trainer.logger"),
            fix="Upgrade verl to 0.4.1 or later",
            version=job.verl.version,
        )


@check(
    "VERL026",
    "sft-logs-no-generations",
    tags={"logger", "generations", "traces", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {"kind": "sft", "trainer.logger": ["console", "wandb"]}},
        {"job": {"kind": "ppo", GENERATIONS: 10}},
        {"job": {"kind": "sft", GENERATIONS: 0}},
    ],
    bad=[
        {"job": {"kind": "sft", GENERATIONS: 10}},
        {"job": {"kind": "sft_ray", "trainer.rollout_data_dir": "/data/rollouts"}},
        {"job": {"kind": "sft", f"{TRACE}.backend": "mlflow"}},
    ],
)
def sft_logs_no_generations(job: Job) -> Iterator[Finding]:
    """The SFT trainer is asked for generations, dumps or traces, which it never makes.

    Supervised fine-tuning has no rollouts. Its configuration lacks these keys, so they come from a file of one's own or from
    an override with a plus, and nobody reads them.

    Fix: remove the key.

    See: verl 0.9.1 verl/trainer/config/sft_trainer_engine.yaml and verl/trainer/sft_trainer.py
    """
    if job.kind not in {"sft", "sft_ray"}:
        return
    for key in (*PPO_ONLY, f"{TRACE}.backend"):
        if job.settings.get(key) is not None and job.get(key):
            yield finding(
                "{key} has no effect in supervised fine-tuning: there are no rollouts",
                at=job.settings[key],
                fix="Remove it",
                key=key,
            )


@check(
    "VERL027",
    "rl-insight-not-enabled",
    tags={"logger", "config"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.logger": ["console", "rl_insight"]}, "environment": {}},
        {"job": {"kind": "sft", "trainer.logger": ["rl_insight"]}, "environment": {"VERL_RL_INSIGHT_ENABLE": "1"}},
        {"job": {"kind": "sft", "trainer.logger": ["console"]}, "environment": {}},
    ],
    bad=[
        {"job": {"kind": "sft", "trainer.logger": ["console", "rl_insight"]}, "environment": {}},
        {"job": {"kind": "sft_ray", "trainer.logger": "rl_insight"}, "environment": {"VERL_RL_INSIGHT_ENABLE": "0"}},
    ],
)
def rl_insight_not_enabled(job: Job, environment: Environment) -> Iterator[Finding]:
    """rl_insight is listed, and the variable that switches it on is not set.

    The tracker does nothing unless VERL_RL_INSIGHT_ENABLE is "1". The PPO launcher sets it by itself, the SFT trainers do not,
    so the metrics go nowhere and nothing is printed.

    Fix: set VERL_RL_INSIGHT_ENABLE=1 for the trainer.

    See: verl 0.9.1 verl/utils/tracking.py, `RLInsightLogger.enabled`, and verl/trainer/main_ppo.py
    """
    if job.kind not in {"sft", "sft_ray"} or "rl_insight" not in job.loggers or job.verl.release < (0, 9):
        return
    if environment.text("VERL_RL_INSIGHT_ENABLE") != "1":
        yield finding(
            "rl_insight does nothing in this trainer unless VERL_RL_INSIGHT_ENABLE is 1",
            at=job.settings.get("trainer.logger"),
            fix="Set the variable for the trainer",
            commands=[f"export {shlex.quote('VERL_RL_INSIGHT_ENABLE')}=1"],
        )


VOLCENGINE = ("VOLC_ACCESS_KEY_ID", "VOLC_SECRET_ACCESS_KEY", "MLP_TRACKING_REGION")


@check(
    "VERL028",
    "vemlp-variables-missing",
    tags={"logger", "secrets"},
    good=[
        {
            "job": {"trainer.logger": ["console", "vemlp_wandb"]},
            "environment": {"VOLC_ACCESS_KEY_ID": "a", "VOLC_SECRET_ACCESS_KEY": "b", "MLP_TRACKING_REGION": "cn-beijing"},
        },
        {"job": {"trainer.logger": ["console", "wandb"]}, "environment": {}},
    ],
    bad=[
        {"job": {"trainer.logger": "vemlp_wandb"}, "environment": {}},
        {
            "job": {"trainer.logger": ["vemlp_wandb"]},
            "environment": {"VOLC_ACCESS_KEY_ID": "a", "VOLC_SECRET_ACCESS_KEY": "b"},
        },
    ],
)
def vemlp_variables_missing(job: Job, environment: Environment) -> Iterator[Finding]:
    """vemlp_wandb is listed, and a variable that it needs is not set.

    verl reads the access key, the secret key and the region from the environment of the process that logs and stops with a
    KeyError when one of them is missing, after the model has been loaded.

    Fix: set VOLC_ACCESS_KEY_ID, VOLC_SECRET_ACCESS_KEY and MLP_TRACKING_REGION for the process that logs.

    See: verl 0.9.1 verl/utils/tracking.py, `Tracking.__init__`
    """
    if not tracks(job) or "vemlp_wandb" not in job.loggers:
        return
    missing = [name for name in VOLCENGINE if environment.get(name) is None]
    if missing:
        yield finding(
            "vemlp_wandb needs {names}: without them the job stops with a KeyError",
            at=job.settings.get("trainer.logger"),
            fix="Set {names} for the process that logs",
            names=", ".join(missing),
        )
