"""What the rows of the checks cannot say: absent keys, places in scripts, amounts, and commands that are safe to copy."""

import shlex

import pytest

from verl_doctor.job.model import Environment, Job, Setting, Source, Variable
from verl_doctor.registry import example_facts, load_built_in
from verl_doctor.report import Location, Severity
from verl_doctor_checks.facts.files import LogFile
from verl_doctor_checks.file_logger import file_log_cannot_be_opened
from verl_doctor_checks.launch import override_repeated, variable_does_not_reach_the_cluster
from verl_doctor_checks.trackers import generation_sinks, override, validations, words
from verl_doctor_checks.verl import generations_too_large, logger_empty, loggers_repeat, run_name_not_text, unknown_logger

REGISTRY = load_built_in()
TOPICS = {"VERL", "LAUNCH", "FILE", "TB", "TRACKIO"}


def in_script(key, value, line, file="run.sh"):
    return Setting(key, value, Source("override", "override", Location(file, line)))


def test_a_configuration_without_the_key():
    job = Job.example({})
    del job.settings["trainer.logger"]
    assert [finding.target for finding in logger_empty(job)] == ["trainer.logger"]
    job.exact = False
    assert list(logger_empty(job)) == []


@pytest.mark.parametrize(
    ("earlier_file", "last_file", "severity"),
    [("run.sh", "run.sh", None), ("run.sh", "base.sh", "silent"), ("run.sh", "", "silent"), ("", "", Severity.INFO)],
)
def test_only_a_repetition_in_one_script_is_a_warning(earlier_file, last_file, severity):
    def setting(value, file, line):
        return (
            in_script("trainer.experiment_name", value, line, file)
            if file
            else Setting("trainer.experiment_name", value, Source("override", "override"))
        )

    job = Job.example({})
    job.settings["trainer.experiment_name"] = setting("b", last_file, 9)
    job.shadowed = [setting("a", earlier_file, 3)]
    found = list(override_repeated(job))
    if severity == "silent":
        assert found == []
    else:
        assert [finding.severity for finding in found] == [severity]


def test_the_place_of_the_repetition_is_that_of_the_one_without_effect():
    job = Job.example({})
    job.settings["trainer.logger"] = in_script("trainer.logger", ["wandb"], 9)
    job.shadowed = [in_script("trainer.logger", ["console"], 3)]
    assert [finding.location.line for finding in override_repeated(job)] == [3]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 1),
        ({"trainer.val_before_train": False}, 0),
        ({"trainer.test_freq": 5}, None),
        ({"trainer.test_freq": 5, "trainer.total_training_steps": 20}, 5),
        ({"trainer.test_freq": 5, "trainer.total_training_steps": 21}, 6),
        ({"trainer.test_freq": 5, "trainer.total_training_steps": 21, "trainer.val_before_train": False}, 5),
        ({"trainer.test_freq": 5, "trainer.total_training_steps": 21, "trainer.val_only": True}, 1),
    ],
)
def test_the_number_of_validations(settings, expected):
    job = Job.example(settings)
    assert validations(job) == expected
    steps, frequency = settings.get("trainer.total_training_steps", 0), settings.get("trainer.test_freq", 0)
    if expected is not None and steps and not settings.get("trainer.val_only"):
        counted = sum(1 for step in range(1, steps + 1) if step % frequency == 0 or step == steps)
        assert counted + (settings.get("trainer.val_before_train") is not False) == expected


def test_a_tracker_that_is_one_text_is_searched_for_names_in_it():
    assert generation_sinks(Job.example({"trainer.logger": "vemlp_wandb"})) == ["wandb", "vemlp_wandb"]
    assert generation_sinks(Job.example({"trainer.logger": ["vemlp_wandb"]})) == ["vemlp_wandb"]
    assert generation_sinks(Job.example({"trainer.logger": ["tracking", "file"]})) == []


def test_the_amount_grows_with_the_square_only_for_wandb():
    known = {"trainer.log_val_generations": 1000, "trainer.total_training_steps": 100, "trainer.test_freq": 1}
    lengths = {"data.max_prompt_length": 1000, "data.max_response_length": 9000}
    (wandb,) = generations_too_large(Job.example({**known, **lengths}))
    (mlflow,) = generations_too_large(Job.example({**known, **lengths, "trainer.logger": ["mlflow"]}))
    # 1000 samples of 20,000 bytes at 101 validations: 101 * 102 / 2 = 5151 writes through wandb, 101 through mlflow
    assert (wandb.message.values["size"], wandb.severity) == ("103 GB", None)
    assert (mlflow.message.values["size"], mlflow.severity) == ("2.0 GB", None)
    assert mlflow.fix.commands == ["trainer.log_val_generations=99"]


def test_the_suggested_count_fits():
    known = {"trainer.total_training_steps": 100, "trainer.test_freq": 10, "data.max_response_length": 8192}
    (found,) = generations_too_large(Job.example({**known, "trainer.log_val_generations": 400}))
    fitting = found.message.values["fitting"]
    assert list(generations_too_large(Job.example({**known, "trainer.log_val_generations": fitting}))) == []
    assert list(generations_too_large(Job.example({**known, "trainer.log_val_generations": fitting + 1})))


def test_the_correction_keeps_the_other_trackers_and_the_written_name():
    (found,) = unknown_logger(Job.example({"trainer.logger": ["console", "Wandb"]}))
    assert found.fix.commands == ["""'trainer.logger=["console","wandb"]'"""]
    (repeated,) = loggers_repeat(Job.example({"trainer.logger": ["wandb", "console", "tracking"]}))
    assert repeated.fix.commands == ["""'trainer.logger=["wandb","console"]'"""]
    command = ["python3", "-m", "verl.trainer.main_ppo", "trainer.experiment_name=20250101_1"]
    (typed,) = run_name_not_text(Job.example({"trainer.experiment_name": 202501011, "command": command}))
    assert typed.fix.commands == ["""'trainer.experiment_name="20250101_1"'"""]


def test_a_missing_folder_is_certain_only_without_a_script_that_may_make_it():
    job, log = Job.example({"trainer.logger": ["file"]}), LogFile(path="/no/x.jsonl", folder_exists=False)
    environment = Environment.example({"VERL_FILE_LOGGER_PATH": "/no/x.jsonl"})
    assert [finding.severity for finding in file_log_cannot_be_opened(job, environment, log)] == [None]
    in_a_script = Source("script", "run.sh", Location("run.sh", 2))
    environment.variables["VERL_FILE_LOGGER_PATH"] = Variable("VERL_FILE_LOGGER_PATH", "/no/x.jsonl", in_a_script)
    assert [finding.severity for finding in file_log_cannot_be_opened(job, environment, log)] == [Severity.WARNING]


def test_names_in_a_text():
    assert words("['console', \"wandb\"]") == ["console", "wandb"]
    assert words("console,wandb") == ["console", "wandb"]


@pytest.mark.parametrize(
    "value", ["plain", "a b", 'with "quotes"', "it's", "back\\slash", 'a\\"b', "end\\", "end\\\\", "$(rm -rf x)", "中文", "a=b"]
)
def test_a_quoted_override_means_the_same_to_a_shell_and_to_hydra(value):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (word,) = shlex.split(override("trainer.experiment_name", value))
    assert OverridesParser.create().parse_override(word).value() == value


def test_a_variable_that_stays_behind_can_be_passed_on():
    job = Job.example({"trainer.logger": ["tensorboard"]})
    left = Environment.example({"left_behind": {"TENSORBOARD_DIR": "/logs/tb"}})
    (found,) = variable_does_not_reach_the_cluster(job, left)
    assert found.fix.commands == ["""'+ray_kwargs.ray_init.runtime_env.env_vars.TENSORBOARD_DIR="/logs/tb"'"""]


def test_a_credential_is_not_put_into_a_command():
    job = Job.example({"trainer.logger": ["trackio"]})
    values = {"TRACKIO_SERVER_URL": "http://user:hunter2hunter2@t:1", "TRACKIO_WRITE_TOKEN": "hunter2hunter2"}
    found = list(variable_does_not_reach_the_cluster(job, Environment.example({"left_behind": values})))
    assert [finding.fix.commands for finding in found] == [[], []]
    assert "hunter2" not in "".join(finding.message.text for finding in found)


def test_what_the_job_itself_sets_on_purpose_is_not_reported():
    job = Job.example({"trainer.logger": ["tensorboard"]})
    environment = Environment.example({"TENSORBOARD_DIR": "/a", "left_behind": {"TENSORBOARD_DIR": "/b"}})
    assert len(list(variable_does_not_reach_the_cluster(job, environment))) == 1
    for kind in ("override", "runtime-env", "script"):
        environment.variables["TENSORBOARD_DIR"] = Variable("TENSORBOARD_DIR", "/a", Source(kind, "somewhere"))
        assert list(variable_does_not_reach_the_cluster(job, environment)) == []


@pytest.mark.parametrize("check", [check for check in REGISTRY.checks.values() if check.topic in TOPICS], ids=lambda c: c.code)
def test_no_command_of_a_fix_needs_more_than_one_line_or_holds_a_mask(check):
    for row in check.bad:
        for finding in check.function(**example_facts(check, REGISTRY, row)):
            for command in finding.fix.commands if finding.fix else []:
                assert shlex.split(command)
                assert "\n" not in command
                assert "***" not in command
