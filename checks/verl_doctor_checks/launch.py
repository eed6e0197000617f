"""What the launch command gets wrong: overrides that Hydra refuses, folders and variables that do not reach the Ray cluster."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator
from typing import Any

from verl_doctor.api import (
    ConfigProblem,
    Environment,
    Finding,
    Job,
    ScriptNote,
    Severity,
    Source,
    Variable,
    check,
    finding,
)
from verl_doctor_checks.facts.files import TrackedCredential
from verl_doctor_checks.trackers import NEVER_READ, PPO_ONLY, override, tracks

RUNTIME_ENV = "ray_kwargs.ray_init.runtime_env.env_vars"


def _problem(kind: str, override: str, key: str = "", reason: str = "", **more: object) -> dict[str, object]:
    """The plain data of a problem, for the rows."""
    source = {"kind": "override", "text": "override"}
    key = key or override.partition("=")[0].lstrip("+~")
    return {"problems": [{"kind": kind, "override": override, "key": key, "reason": reason, "source": source, **more}]}


def _refused(job: Job, *kinds: str) -> Iterator[ConfigProblem]:
    return (problem for problem in job.problems if problem.kind in kinds)


def _commands(problem: ConfigProblem) -> list[str]:
    return [shlex.quote(problem.corrected)] if problem.corrected else []


def _about(problem: ConfigProblem, template: str, fix: str, commands: list[str] | None = None, **values: Any) -> Finding:
    return finding(
        template,
        target=problem.key or problem.override,
        source=problem.source,
        fix=fix,
        commands=_commands(problem) if commands is None else commands,
        override=problem.override,
        key=problem.key,
        reason=problem.reason,
        **values,
    )


READ_WITH_A_PLUS = ("trainer.wandb_proxy", "trainer.rl_insight", "ray_kwargs.ray_init.runtime_env.env_vars.")
"""Keys that verl reads although none of its configuration files has them (verl 0.9.1, verl/utils/tracking.py, main_ppo.py)."""


@check(
    "LAUNCH001",
    "override-unreadable",
    tags={"launch", "config", "logger"},
    good=[{"job": {"trainer.experiment_name": "lr1e-6_bs=64"}}, {"job": _problem("not-in-struct", "a.b=1", "a.b")}],
    bad=[
        {
            "job": _problem(
                "grammar",
                "trainer.experiment_name=lr1e-6_bs=64",
                "trainer.experiment_name",
                "'=' cannot stand in an unquoted value",
                column=32,
                character="=",
                corrected='trainer.experiment_name="lr1e-6_bs=64"',
            )
        },
        {"job": _problem("grammar", "'wandb']", "'wandb']", "it has no '='")},
        {
            "job": _problem(
                "grammar",
                "trainer.logger=[“console”]",
                "trainer.logger",
                "'“' is not a character of Hydra's grammar",
                column=17,
                character="“",
                corrected='trainer.logger=["console"]',
            )
        },
    ],
)
def override_unreadable(job: Job, script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """Hydra cannot read an override.

    The launch stops before anything starts. Without quotes of Hydra's own a value may not hold `=`, brackets, `;`, `#` or
    letters beyond ASCII, and quotes or commas copied from a web page are other characters than they seem. A space in an
    unquoted list makes the shell cut the override in two.

    Fix: put double quotes around the value and single quotes around the whole override.

    See: hydra-core 1.3.8 hydra/grammar/OverrideLexer.g4
    """
    split_lines = {(note.location.file, note.location.line) for note in script_notes if note.kind == "override-split"}
    for problem in _refused(job, "grammar"):
        place = problem.source.location
        if place and (place.file, place.line) in split_lines:
            continue  # LAUNCH023 names the cause
        if problem.column is None:
            yield _about(problem, "Hydra cannot read the override {override}: {reason}", "Quote the value")
        else:
            yield _about(
                problem,
                "Hydra cannot read the override {override} at character {column}: {reason}",
                "Quote the value",
                column=problem.column,
            )


@check(
    "LAUNCH002",
    "key-unknown-to-verl",
    tags={"launch", "config", "logger"},
    good=[
        {"job": {"trainer.logger": ["console"]}},
        {"job": _problem("append-existing", "+trainer.logger=console", "trainer.logger")},
    ],
    bad=[
        {
            "job": _problem(
                "not-in-struct",
                "trainer.wandb_proxy=http://h:1",
                "trainer.wandb_proxy",
                "Key 'wandb_proxy' is not in struct",
                corrected="+trainer.wandb_proxy=http://h:1",
            )
        },
        {"job": _problem("not-in-struct", "trainer.val_generations_to_log_to_wandb=1")},
        {"job": _problem("not-in-struct", "trainer.tensorboard_dir=/x", corrected="+trainer.tensorboard_dir=/x")},
        {"job": {"trainer.experiment_name": "a", **_problem("not-in-struct", "trainer.experimentname=a")}},
        {"job": _problem("not-in-struct", "trainer.is_test=1", corrected="+trainer.is_test=1")},
        {"job": {"kind": "sft", **_problem("not-in-struct", "trainer.log_val_generations=1")}},
        {"job": _problem("not-in-struct", "trainer.brand_new=1", corrected="+trainer.brand_new=1")},
    ],
)
def key_unknown_to_verl(job: Job) -> Iterator[Finding]:
    """An override sets a key that the configuration does not have.

    Hydra stops the launch and advises a plus in front of the key. That is right for the few keys that verl reads without
    declaring them, such as `trainer.wandb_proxy`. For a misspelt, renamed or invented key the plus only hides the mistake:
    the launch goes on, and the value is never read.

    Fix: write the key as verl has it; add the plus only for a key that some code reads.

    See: verl 0.9.1 verl/trainer/config/ppo_trainer.yaml, docs/faq/faq.rst
         https://github.com/verl-project/verl/issues/480
    """
    for problem in _refused(job, "not-in-struct"):
        kind, name = NEVER_READ.get(problem.key, ("", ""))
        if kind == "variable":
            yield _about(
                problem,
                "verl has no key {key}, and it would not read it with a plus either",
                "Set the environment variable {name} in the process that logs",
                [],
                name=name,
            )
        elif kind == "nothing":
            yield _about(
                problem, "verl has no key {key}, and it would not read it with a plus either", "Remove the override", []
            )
        elif kind == "key":
            value = problem.override.partition("=")[2]
            yield _about(
                problem, "verl has no key {key}: it is {name}", "Use {name}", [shlex.quote(f"{name}={value}")], name=name
            )
        elif job.kind in {"sft", "sft_ray"} and problem.key in PPO_ONLY:
            yield _about(problem, "The SFT trainer has no key {key}: it makes no rollouts", "Remove the override", [])
        else:
            yield _unknown_key(job, problem)


def _unknown_key(job: Job, problem: ConfigProblem) -> Finding:
    corrected = (problem.corrected or "").partition("=")[0]
    close = difflib.get_close_matches(problem.key, job.settings, n=1, cutoff=0.85)
    if corrected and not corrected.startswith("+"):
        close = [corrected]
    if close:
        value = problem.override.partition("=")[2]
        commands = _commands(problem) if corrected == close[0] else [shlex.quote(f"{close[0]}={value}")]
        return _about(problem, "The configuration has no key {key}", "Did you mean {close}?", commands, close=close[0])
    if problem.key.startswith(READ_WITH_A_PLUS):
        return _about(
            problem, "{key} stands in no configuration file of verl, so its override needs a plus", "Put a plus in front"
        )
    return _about(
        problem,
        "The configuration has no key {key}, and the override has no plus",
        "Check the spelling; a key that only your own code reads needs a plus in front",
    )


@check(
    "LAUNCH003",
    "plus-on-an-existing-key",
    tags={"launch", "config", "logger"},
    good=[{"job": {}}, {"job": _problem("not-in-struct", "a.b=1", "a.b")}],
    bad=[
        {"job": _problem("append-existing", "+trainer.logger=console", "trainer.logger", corrected="++trainer.logger=console")}
    ],
)
def plus_on_an_existing_key(job: Job) -> Iterator[Finding]:
    """An override with a plus adds a key that exists already.

    Hydra stops the launch: a plus only adds. It happens when a key that scripts had to add became part of verl's
    configuration, or when the same plus stands in the command twice.

    Fix: drop the plus; `++` sets the key in either case.

    See: hydra-core 1.3.8 hydra/_internal/config_loader_impl.py, `_apply_overrides_to_config`
    """
    for problem in _refused(job, "append-existing"):
        yield _about(problem, "The override {override} adds {key}, which exists already", "Drop the plus")


@check(
    "LAUNCH004",
    "list-without-brackets",
    tags={"launch", "config", "logger"},
    good=[{"job": {"trainer.logger": ["console", "wandb"]}}],
    bad=[
        {
            "job": _problem(
                "ambiguous-list",
                "trainer.logger=console,wandb",
                "trainer.logger",
                corrected="trainer.logger=[console,wandb]",
            )
        }
    ],
)
def list_without_brackets(job: Job) -> Iterator[Finding]:
    """Values are separated by commas without brackets around them.

    To Hydra that is a sweep over several runs, and it stops with "Ambiguous value".

    Fix: put brackets around the list, and quotes around the override for the shell.

    See: hydra-core 1.3.8 hydra/_internal/config_loader_impl.py, `validate_sweep_overrides_legal`
    """
    for problem in _refused(job, "ambiguous-list"):
        yield _about(
            problem,
            "{override} is a sweep over several runs to Hydra, which it refuses here",
            "Put brackets around the list",
        )


@check(
    "LAUNCH005",
    "deletes-a-missing-key",
    tags={"launch", "config", "logger"},
    good=[{"job": {}}],
    bad=[{"job": _problem("delete-missing", "~trainer.nothing", "trainer.nothing")}],
)
def deletes_a_missing_key(job: Job) -> Iterator[Finding]:
    """An override deletes a key that the configuration does not have.

    Hydra stops the launch. The key may have been renamed, or the value after `=` may differ from the configured one: a
    deletion with a value is refused unless both agree.

    Fix: remove the override.

    See: hydra-core 1.3.8 hydra/_internal/config_loader_impl.py, `_apply_overrides_to_config`
    """
    for problem in _refused(job, "delete-missing"):
        yield _about(problem, "{override} deletes what the configuration does not have", "Remove the override")


@check(
    "LAUNCH006",
    "config-group-missing",
    tags={"launch", "config", "logger"},
    good=[{"job": {}}],
    bad=[{"job": _problem("missing-group", "model_engine=megatrn", "model_engine", "there is no such choice")}],
)
def config_group_missing(job: Job) -> Iterator[Finding]:
    """An override chooses a group or an option of a group that does not exist.

    Hydra stops the launch. Groups such as `model_engine` came with certain versions of verl, and their options are files in
    verl's configuration folder.

    Fix: use a group and an option that this version has.

    See: verl 0.9.1 verl/trainer/config
    """
    for problem in _refused(job, "missing-group"):
        yield _about(problem, "{override}: {reason}", "Use a choice that this version of verl has")


@check(
    "LAUNCH007",
    "value-of-wrong-type",
    tags={"launch", "config", "logger"},
    good=[{"job": {"trainer.nnodes": 2}}],
    bad=[{"job": _problem("wrong-type", "trainer.logger.0=console", "trainer.logger.0", "the value is not a mapping")}],
)
def value_of_wrong_type(job: Job) -> Iterator[Finding]:
    """An override gives a key a value of a type that it cannot take.

    Hydra stops the launch before anything starts.

    Fix: give a value of the type that the key has.

    See: omegaconf 2.3.1 omegaconf/errors.py
    """
    for problem in _refused(job, "wrong-type"):
        yield _about(problem, "{override} cannot be applied: {reason}", "Give a value of the type that {key} has")


@check(
    "LAUNCH008",
    "config-file-not-found",
    tags={"launch", "config", "logger"},
    good=[{"job": {}}],
    bad=[{"job": _problem("config-not-found", "--config-name=sft_trainer", "--config-name", "there is no sft_trainer")}],
)
def config_file_not_found(job: Job) -> Iterator[Finding]:
    """The configuration that the command names does not exist.

    Hydra looks for `--config-name` in its search path, that is in verl's configuration folder or in `--config-path` (relative
    to the module, not to the shell's folder). verl 0.8.0, for example, has no `sft_trainer` any more: the SFT trainer reads
    `sft_trainer_engine`.

    Fix: name a configuration of this version, or give the absolute folder with `--config-path` or `--config-dir`.

    See: verl 0.9.1 verl/trainer/config
         hydra-core 1.3.8 hydra/_internal/config_loader_impl.py
    """
    for problem in _refused(job, "config-not-found"):
        yield _about(
            problem,
            "The configuration of {override} was not found: {reason}",
            "Name a configuration that exists, and give its folder as an absolute path",
        )


@check(
    "LAUNCH009",
    "option-unknown",
    tags={"launch", "config", "logger"},
    good=[{"job": {}}],
    bad=[{"job": _problem("unknown-option", "--config", "--config", "'--config' could mean several options")}],
)
def option_unknown(job: Job) -> Iterator[Finding]:
    """The command has an option that verl's entry point does not take.

    The entry points take Hydra's options only. There is no `--config FILE`: a file is named by `--config-path` and
    `--config-name`. Everything else is an override without dashes.

    Fix: write `key=value`, or use Hydra's options.

    See: hydra-core 1.3.8 hydra/_internal/utils.py, `get_args_parser`
    """
    for problem in _refused(job, "unknown-option"):
        yield _about(
            problem,
            "{override} cannot be used: {reason}",
            "Write key=value without dashes, and name a file with --config-path and --config-name",
        )


@check(
    "LAUNCH010",
    "interpolation-fails",
    tags={"launch", "config", "logger"},
    good=[{"job": {}}],
    bad=[{"job": _problem("interpolation", "trainer.logger=${if:a,b}", "trainer.logger", "Unsupported interpolation type if")}],
)
def interpolation_fails(job: Job) -> Iterator[Finding]:
    """A value refers to something that does not exist.

    `${oc.env:NAME}` needs the variable NAME in the launching process, `${a.b}` needs the key, and OmegaConf has no `${if:...}`.
    The failure comes when verl resolves the configuration inside Ray, not when Hydra composes it.

    Fix: refer to an existing key, or give a default: `${oc.env:NAME,default}`.

    See: omegaconf 2.3.1 omegaconf/resolvers/oc/__init__.py
    """
    for problem in _refused(job, "interpolation"):
        yield _about(
            problem,
            "{key} cannot be resolved: {reason}",
            "Refer to an existing key, or give a default such as ${{oc.env:NAME,default}}",
        )


@check(
    "LAUNCH011",
    "config-refused",
    tags={"launch", "config", "logger"},
    good=[{"job": {}}, {"job": _problem("grammar", "a", "a")}],
    bad=[{"job": _problem("other", "a=1", "a", "some reason")}],
)
def config_refused(job: Job) -> Iterator[Finding]:
    """Hydra refuses the command for another reason.

    The launch stops before anything starts; the message is Hydra's own.

    Fix: follow the message.

    See: hydra-core 1.3.8
    """
    for problem in _refused(job, "other"):
        yield _about(problem, "Hydra refuses {override}: {reason}", "Change the override")


SHADOWED_KEYS = (
    "trainer.logger",
    "trainer.project_name",
    "trainer.experiment_name",
    "trainer.log_val_generations",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
    "trainer.default_local_dir",
    "trainer.resume_mode",
    "trainer.wandb_proxy",
)


def _shadowed(key: str, value: object, kind: str = "override", **location: object) -> dict[str, object]:
    source: dict[str, object] = {"kind": kind, "text": "override"}
    if location:
        source["location"] = location
    return {"key": key, "value": value, "source": source}


@check(
    "LAUNCH012",
    "override-repeated",
    tags={"launch", "config", "logger", "names"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.experiment_name": "b"}},
        {"job": {"trainer.experiment_name": "b", "shadowed": [_shadowed("trainer.experiment_name", "b")]}},
        {"job": {"data.train_batch_size": 8, "shadowed": [_shadowed("data.train_batch_size", 4)]}},
        {"job": {"trainer.logger": ["console"], "shadowed": [_shadowed("trainer.logger", ["wandb"], file="run.sh", line=3)]}},
    ],
    bad=[
        {"job": {"trainer.logger": ["console", "wandb"], "shadowed": [_shadowed("trainer.logger", ["console", "swanlab"])]}},
        {"job": {"trainer.experiment_name": "b", "shadowed": [_shadowed("trainer.experiment_name", "a")]}},
    ],
)
def override_repeated(job: Job) -> Iterator[Finding]:
    """A tracking key is set twice in the same command, with different values.

    The last one wins, without a message: a change to the first one has no effect, which looks as if verl ignored it. Where
    both stand in one script this is a warning. An argument that is given to a script, which passes it on, is meant to win.

    Fix: remove one of the two.

    See: https://github.com/verl-project/verl/issues/3418
    """
    for earlier in job.shadowed:
        winner = job.settings.get(earlier.key)
        if winner is None or earlier.key not in SHADOWED_KEYS or winner.value == earlier.value:
            continue
        first, last = earlier.source.location, winner.source.location
        if (first and first.file) == (last and last.file):
            yield finding(
                "{key} is set twice in the same command: {earlier} is replaced by {value}",
                at=earlier,
                fix="Remove one of the two",
                # Without a script it is not known whether the later one was passed on with "$@", which is meant to win.
                severity=None if first else Severity.INFO,
                key=earlier.key,
                earlier=earlier.value,
                value=winner.value,
            )


def _is_relative(path: object) -> bool:
    return isinstance(path, str) and bool(path) and "://" not in path and not path.startswith(("/", "~", "$"))


@check(
    "LAUNCH013",
    "relative-folder-under-ray",
    tags={"launch", "logger", "tensorboard", "file", "swanlab", "wandb", "mlflow", "generations"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.default_local_dir": "checkpoints/x"}, "environment": {}},
        {"job": {"trainer.default_local_dir": "checkpoints/x"}, "environment": {"PWD": "/w", "left_behind": {"SHLVL": "2"}}},
        {
            "job": {"trainer.default_local_dir": "/data/ckpt", "launchers": ["ray job submit"]},
            "environment": {"unseen": "the cluster was started by somebody else"},
        },
        {
            "job": {"trainer.default_local_dir": "hdfs://c/ckpt", "launchers": ["ray job submit"]},
            "environment": {"WANDB_DIR": "/data/wandb"},
        },
        {
            "job": {"trainer.logger": ["console", "file"], "launchers": ["ray job submit"]},
            "environment": {"unseen": "the cluster was started by somebody else"},
        },
        {
            "job": {"kind": "sft", "trainer.default_local_dir": "checkpoints/x", "launchers": ["torchrun"]},
            "environment": {},
        },
    ],
    bad=[
        {
            "job": {"trainer.default_local_dir": "checkpoints/x", "launchers": ["ray job submit"]},
            "environment": {"unseen": "the cluster was started by somebody else"},
        },
        {
            "job": {"trainer.logger": ["console", "tensorboard"], "launchers": ["ray job submit"]},
            "environment": {"TENSORBOARD_DIR": "logs/tb"},
        },
        {
            "job": {"trainer.logger": ["mlflow"], "launchers": ["ray job submit"]},
            "environment": {"MLFLOW_TRACKING_URI": "sqlite:///mlruns.db"},
        },
        {"job": {"trainer.logger": ["console", "file"], "launchers": ["ray job submit"]}, "environment": {}},
        {
            "job": {"trainer.default_local_dir": "checkpoints/x"},
            "environment": {"PWD": "/home/me", "left_behind": {"PWD": "/home/me/verl"}},
        },
    ],
)
def relative_folder_under_ray(job: Job, environment: Environment) -> Iterator[Finding]:
    """Relative folders are looked up on the cluster, not where the command was typed.

    `ray job submit --working-dir` unpacks that folder on the node, and the job runs there, below
    `runtime_resources/working_dir_files`, which Ray cleans up after the job. On a cluster that runs already the process that
    logs works in the folder in which `ray start` was typed. Checkpoints, event files and logs with relative paths are then
    looked for in vain.

    Fix: give absolute paths on storage that every node sees.

    See: https://github.com/verl-project/verl/issues/2457
    """
    if not tracks(job):
        return
    submitted = "ray job submit" in job.launchers
    behind, there = environment.left_behind.get("PWD"), environment.given("PWD")
    joined = job.uses_ray and behind is not None and there is not None and behind.value != there.value
    if not submitted and not joined:
        return
    places = [*_relative_settings(job), *_relative_variables(job, environment)]
    if places:
        key = places[0].partition("=")[0]
        yield finding(
            "The job runs in a folder of Ray's on the cluster, and these paths are relative to it: {places}"
            if submitted
            else "The process that logs works in {folder}, where Ray was started, and these paths are relative to it: {places}",
            target=key,
            source=_source_of(job, key),
            fix="Use absolute paths on storage that every node sees",
            places=", ".join(places),
            folder=there.value if there else "",
        )


def _source_of(job: Job, key: str) -> Source | None:
    setting = job.settings.get(key)
    return setting.source if setting else None


def _relative_settings(job: Job) -> Iterator[str]:
    for key in ("trainer.default_local_dir", "trainer.rollout_data_dir", "trainer.validation_data_dir"):
        setting = job.settings.get(key)
        if setting is not None and not setting.unknown and _is_relative(setting.value):
            yield f"{key}={setting.value}"


FOLDER_VARIABLES = {
    "wandb": [("WANDB_DIR", "")],
    "swanlab": [("SWANLAB_LOG_DIR", "")],
    "tensorboard": [("TENSORBOARD_DIR", "tensorboard_log")],
    "file": [("VERL_FILE_LOGGER_PATH", ""), ("VERL_FILE_LOGGER_ROOT", ".")],
    "mlflow": [("MLFLOW_TRACKING_URI", "")],
    "trackio": [("TRACKIO_DIR", "")],
}
"""For each tracker the variables that hold a folder, and what verl takes when they are not set, if that loses data."""


def _relative_variables(job: Job, environment: Environment) -> Iterator[str]:
    for tracker in job.loggers:
        for name, default in FOLDER_VARIABLES.get(tracker, []):
            variable = environment.given(name)
            value = variable.value if variable is not None and not variable.unknown else ""
            if isinstance(value, str) and (_is_relative(value) or re.match(r"sqlite:///[^/]", value)):
                yield f"{name}={value}"
            elif default and variable is None and not environment.unseen and not environment.given("VERL_FILE_LOGGER_PATH"):
                yield f"{name}={default}"


REACH = {
    "tensorboard": ("TENSORBOARD_DIR",),
    "trackio": ("TRACKIO_DIR", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_WRITE_TOKEN"),
    "file": ("VERL_FILE_LOGGER_PATH", "VERL_FILE_LOGGER_ROOT"),
}
"""The variables that say where a tracker writes. Those of wandb, mlflow and swanlab are judged under their own codes."""


@check(
    "LAUNCH014",
    "variable-does-not-reach-the-cluster",
    tags={"launch", "logger", "tensorboard", "trackio", "file"},
    severity=Severity.WARNING,
    good=[
        {"job": {"trainer.logger": ["console", "tensorboard"]}, "environment": {"TENSORBOARD_DIR": "/logs/tb"}},
        {
            "job": {"trainer.logger": ["console", "wandb"]},
            "environment": {"left_behind": {"TENSORBOARD_DIR": "/logs/tb"}},
        },
        {
            "job": {"trainer.logger": ["console", "file"]},
            "environment": {"VERL_FILE_LOGGER_ROOT": "/logs", "left_behind": {"VERL_FILE_LOGGER_ROOT": "/logs"}},
        },
        {"job": {"trainer.logger": ["tensorboard"]}, "environment": {"unseen": "somebody else started Ray"}},
        {"job": {"trainer.logger": ["tensorboard"]}, "environment": {"left_behind": {"TENSORBOARD_DIR": ""}}},
    ],
    bad=[
        {
            "job": {"trainer.logger": ["console", "tensorboard"]},
            "environment": {"left_behind": {"TENSORBOARD_DIR": "/logs/tb"}},
        },
        {
            "job": {"trainer.logger": ["console", "tensorboard"], "launchers": ["ray job submit"]},
            "environment": {"unseen": "somebody else started Ray", "left_behind": {"TENSORBOARD_DIR": "/logs/tb"}},
        },
        {
            "job": {"trainer.logger": ["file"]},
            "environment": {"VERL_FILE_LOGGER_ROOT": "/old", "left_behind": {"VERL_FILE_LOGGER_ROOT": "/logs"}},
        },
    ],
)
def variable_does_not_reach_the_cluster(job: Job, environment: Environment) -> Iterator[Finding]:
    """A variable of the launching shell that says where to log does not get to the process that logs.

    The trackers live in a Ray actor. When Ray was started beforehand, the actor has the environment of `ray start`, and with
    `ray job submit` not even the driver has that of the submitting shell; verl forwards no tracking variable. So a folder or an
    address that was exported before the launch is not seen, and the data goes to a default place, without an error.

    Fix: export the variable before `ray start` on every node, put it into the runtime environment of the job, or add it as
    `+ray_kwargs.ray_init.runtime_env.env_vars.NAME`.

    See: ray 2.60.0, verl 0.9.1 verl/trainer/constants_ppo.py
         https://github.com/ray-project/ray/issues/30845
         https://github.com/verl-project/verl/issues/1853
    """
    if not tracks(job):
        return
    for name in (name for tracker in job.loggers for name in REACH.get(tracker, ())):
        behind, reached = environment.left_behind.get(name), environment.given(name)
        if behind is None or behind.unknown or not behind.value or _is_meant(reached):
            continue
        if reached is not None and reached.value != behind.value:
            template = "{name} is {value} in the launching shell and {other} in the process that logs, which counts"
        elif reached is not None:
            continue
        elif environment.unseen:
            template = "{name} is set in the launching shell, which does not reach the process that logs on the Ray cluster"
        else:
            template = "{name} is set in the launching shell, and the process that logs does not have it"
        yield finding(
            template,
            at=behind,
            fix="Export {name} before `ray start` on every node, or pass it in the runtime environment of the job",
            commands=_pass_on(job, behind),
            name=name,
            value=behind.value,
            other=reached.value if reached is not None else "",
        )


def _is_meant(reached: Variable | None) -> bool:
    """Whether the process that logs got the variable on purpose: from the job itself rather than from the node."""
    return reached is not None and (bool(reached.unknown) or reached.source.kind != "shell")


def _pass_on(job: Job, variable: Variable) -> list[str]:
    """The override that hands the variable to Ray, which exists since verl 0.6.0; none for a value that may not be shown."""
    text = variable.value
    if not isinstance(text, str) or "***" in text or job.verl.release < (0, 6):
        return []
    return [override(f"+{RUNTIME_ENV}.{variable.name}", text)]


HANDED_OVER = (
    "VERL_FULL_DETERMINISM",
    "VLLM_BATCH_INVARIANT",
    "VERL_RL_INSIGHT_ENABLE",
    "PYTHONHASHSEED",
    "CUBLAS_WORKSPACE_CONFIG",
    "FLASH_ATTENTION_DETERMINISTIC",
    "NCCL_DETERMINISTIC",
    "NCCL_ALGO",
)
"""Variables that verl always gives to ray.init, or gives when they are set (verl 0.9.1, verl/trainer/constants_ppo.py)."""


@check(
    "LAUNCH015",
    "variable-given-to-ray-twice",
    tags={"launch", "ray"},
    good=[
        {"job": {f"{RUNTIME_ENV}.WANDB_MODE": "offline"}, "environment": {}, "submitted_variables": []},
        {"job": {}, "environment": {}, "submitted_variables": ["WANDB_MODE"]},
        {"job": {"kind": "sft"}, "environment": {}, "submitted_variables": ["NCCL_ALGO"]},
        {"job": {"verl": "0.8.0"}, "environment": {}, "submitted_variables": ["VERL_RL_INSIGHT_ENABLE"]},
        {
            "job": {f"{RUNTIME_ENV}.WANDB_MODE": "offline"},
            "environment": {"RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"},
            "submitted_variables": ["WANDB_MODE"],
        },
    ],
    bad=[
        {
            "job": {f"{RUNTIME_ENV}.WANDB_MODE": "offline"},
            "environment": {},
            "submitted_variables": ["WANDB_MODE", "WANDB_API_KEY"],
        },
        {"job": {}, "environment": {}, "submitted_variables": ["NCCL_ALGO"]},
    ],
)
def variable_given_to_ray_twice(job: Job, environment: Environment, submitted_variables: list[str]) -> Iterator[Finding]:
    """A variable is in the runtime environment of the job and also in that of ray.init.

    Ray refuses to merge the two, even when both have the same value: ray.init stops with "Failed to merge the Job's runtime
    env". Since 0.9.0 verl itself hands over a few variables, so those may not be in the environment of the job either.

    Fix: give the variable in one of the two places.

    See: ray 2.60.0 python/ray/_private/worker.py and runtime_env
         verl 0.9.1 verl/trainer/constants_ppo.py, `get_ppo_ray_runtime_env`
    """
    if not job.uses_ray or environment.given("RAY_OVERRIDE_JOB_RUNTIME_ENV"):
        return
    own = set(job.under(RUNTIME_ENV))
    for name in submitted_variables:
        if name in own:
            yield finding(
                "{name} is in the runtime environment of the job and in ray_kwargs.ray_init: Ray refuses the two together",
                at=job.settings[f"{RUNTIME_ENV}.{name}"],
                fix="Give {name} in one place only",
                name=name,
            )
        elif name in HANDED_OVER and job.verl.release >= (0, 9) and job.kind != "recipe":
            yield finding(
                "{name} is in the runtime environment of the job, and verl hands it to ray.init too: Ray refuses the two",
                target=name,
                fix="Take {name} out of the runtime environment of the job",
                name=name,
            )


@check(
    "LAUNCH016",
    "credential-in-a-tracked-file",
    tags={"secrets", "launch"},
    severity=Severity.WARNING,
    good=[{"tracked_credentials": []}, {"tracked_credentials": None}],
    bad=[{"tracked_credentials": [{"name": "WANDB_API_KEY", "file": "run.sh", "line": 3}]}],
)
def credential_in_a_tracked_file(tracked_credentials: list[TrackedCredential]) -> Iterator[Finding]:
    """A credential stands in plain text in a file that git tracks.

    Whoever can read the repository can use it, also after it was removed, since the history keeps it.

    Fix: replace the credential at the service, take it out of the file, and read it from the environment.

    See: https://github.com/verl-project/verl/issues/3365
    """
    for credential in tracked_credentials:
        yield finding(
            "{name} stands in plain text in {file}, which git tracks",
            target=credential.name,
            source=credential.source,
            fix="Replace the credential at the service, take it out of the file, and read it from the environment",
            name=credential.name,
            file=credential.file,
        )
