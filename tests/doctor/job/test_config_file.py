"""One YAML file: a part of a configuration, a whole one, a primary one of Hydra, or what a run left behind."""

import os
from pathlib import Path

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.job.config_file import guess_entry, read_config_file
from verl_doctor.job.model import Argument, Request
from verl_doctor.job.resolve import resolve_job

WHOLE = """\
trainer:
  logger: [console, file]
  project_name: p
  experiment_name: e
  total_epochs: 1
  test_freq: 5
  default_local_dir: checkpoints/${trainer.project_name}
actor_rollout_ref:
  rollout: {n: 8}
"""


def resolve(folder, text, *overrides, name="job.yaml", **options):
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    arguments = [Argument(override) for override in overrides]
    return resolve_job(Request(config_file=name, overrides=arguments, directory=str(folder), **options))


def test_a_part_is_laid_over_verls_defaults(tmp_path, verl_root):
    job = resolve(
        tmp_path, "trainer:\n  logger: [console, swanlab]\n  swanlab: {save_dir: x}\n", "trainer.nnodes=2", verl_path=verl_root
    )
    assert (job.entry, job.kind, job.exact, job.problems) == ("verl.trainer.main_ppo", "ppo", True, [])
    assert job.loggers == ["console", "swanlab"]
    assert str(job.settings["trainer.logger"].source) == "configuration file (job.yaml:2)"
    assert job.get("trainer.swanlab.save_dir") == "x"
    assert (job.get("trainer.nnodes"), job.settings["trainer.nnodes"].source.kind) == (2, "override")
    assert job.settings["trainer.total_epochs"].source.kind == "verl-default"


def test_a_part_of_an_sft_configuration(tmp_path, verl_root):
    job = resolve(tmp_path, "data: {max_length: 512}\ntrainer: {project_name: mine}\n", verl_path=verl_root)
    assert (job.kind, job.get("trainer.total_epochs"), job.get("trainer.project_name")) == ("sft", 4, "mine")


def test_a_part_without_verl_is_laid_over_what_is_known(tmp_path):
    job = resolve(tmp_path, "trainer: {logger: [file]}\n", verl_version="0.6.1")
    assert (job.exact, job.loggers, job.verl.origin) == (False, ["file"], "built-in")
    assert job.get("actor_rollout_ref.rollout.mode") == "sync"


def test_a_whole_configuration_has_nothing_beneath_it(tmp_path):
    job = resolve(tmp_path, WHOLE, "trainer.nnodes=4")
    assert (job.exact, job.loggers, job.get("trainer.nnodes"), job.get("trainer.save_freq", "absent")) == (
        True,
        ["console", "file"],
        4,
        "absent",
    )
    assert job.get("trainer.default_local_dir") == "checkpoints/p"
    assert str(job.settings["actor_rollout_ref.rollout.n"].source.location) == "job.yaml:9"


def test_what_a_run_left_behind_says_which_entry_it_was(tmp_path):
    hydra = "hydra:\n  job: {name: main_ppo, config_name: one_step_off_ppo_trainer}\n  runtime: {cwd: /home/user/project}\n"
    outputs = tmp_path / "outputs/2026-01-02/03-04-05/.hydra"
    outputs.mkdir(parents=True)
    (outputs / "hydra.yaml").write_text(hydra)
    job = resolve(tmp_path, "trainer: {logger: [wandb]}\n", name="outputs/2026-01-02/03-04-05/.hydra/config.yaml")
    assert (job.entry, job.kind) == ("verl.experimental.one_step_off_policy.main_ppo", "one_step_off")
    assert (job.config_name, job.directory, job.exact) == ("one_step_off_ppo_trainer", "/home/user/project", True)
    assert job.loggers == ["wandb"]


def test_a_file_with_a_defaults_list_is_composed_by_hydra(tmp_path, verl_root):
    text = "defaults: [ppo_trainer, _self_]\ntrainer:\n  logger: [console, mlflow]\n  is_test: true\n"
    job = resolve(tmp_path, text, "trainer.nnodes=2", "trainer.nope=1", name="mine.yaml", verl_path=verl_root)
    assert (job.exact, job.config_name, job.loggers, job.get("trainer.is_test")) == (True, "mine", ["console", "mlflow"], True)
    assert str(job.settings["trainer.logger"].source) == "configuration file (mine.yaml:3)"
    assert job.settings["trainer.test_freq"].source.location.file == "verl/trainer/config/ppo_trainer.yaml"
    assert [problem.kind for problem in job.problems] == ["not-in-struct"]


def test_a_defaults_list_that_names_nothing_is_a_problem_not_bad_input(tmp_path, verl_root):
    job = resolve(tmp_path, "defaults: [no_such, _self_]\n", verl_path=verl_root)
    [problem] = job.problems
    assert problem.kind == "missing-group"
    assert "no_such" in problem.reason
    assert not job.exact


def test_unknown_interpolations_in_a_file(tmp_path, verl_root):
    text = "trainer:\n  project_name: ${oc.env:NOT_SET}\n  experiment_name: ${trainer.nowhere}\n"
    job = resolve(tmp_path, text, verl_path=verl_root)
    assert "NOT_SET is not set here" in job.settings["trainer.project_name"].unknown
    assert [(problem.kind, problem.key, str(problem.source.location)) for problem in job.problems] == [
        ("interpolation", "trainer.experiment_name", "job.yaml:3")
    ]


def test_credentials_in_a_file_are_secrets(tmp_path):
    key = "k" * 40
    job = resolve(
        tmp_path,
        f"ray_kwargs: {{ray_init: {{runtime_env: {{env_vars: {{WANDB_API_KEY: {key}}}}}}}}}\nurl: https://u:{key}@host/\n",
    )
    assert key not in repr(job)
    assert job.get("ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY").length == 40
    assert job.get("url") == "https://***@host/"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "job.yaml: the file is empty"),
        (b"# only a comment\n", "job.yaml: the file is empty"),
        (b"- a\n- b\n", "job.yaml: not a configuration"),
        (b"just text\n", "job.yaml: not a configuration"),
        (b"a: 1\na: 2\n", "job.yaml:2: found duplicate key a"),
        (b"a: [\n", "job.yaml:2: not valid YAML"),
        (b"a: !!python/object/apply:os.system [x]\n", "job.yaml:1: could not determine a constructor"),
        (b"a: ${unclosed\n", "job.yaml:1: OmegaConf refuses it"),
        (b"\x00\x01", "job.yaml: not valid YAML"),
        (b"\xff\xfe", "job.yaml:1: the file is not UTF-8"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "job.yaml").write_bytes(content)
    with pytest.raises(BadInput) as refused:
        resolve_job(Request(config_file="job.yaml", directory=str(tmp_path)))
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) > len(message)


def test_what_is_not_a_readable_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in {
        "nope.yaml": "cannot be read",
        ".": "a folder",
        "pipe": "not a regular file",
        "a\0b": "cannot be read",
    }.items():
        with pytest.raises(BadInput, match=message):
            read_config_file(name, str(tmp_path))
    (tmp_path / "job.yml").write_text("defaults: [x]\n")
    with pytest.raises(BadInput, match=r"\.yaml"):
        read_config_file("job.yml", str(tmp_path))


@pytest.mark.parametrize(
    ("keys", "entry"),
    [
        (set(), "verl.trainer.main_ppo"),
        ({"trainer.logger"}, "verl.trainer.main_ppo"),
        ({"model.partial_pretrain", "trainer.logger"}, "verl.trainer.fsdp_sft_trainer"),
        ({"optim.lr", "data.train_files"}, "verl.trainer.sft_trainer"),
        ({"optim.lr", "actor_rollout_ref.model.path"}, "verl.trainer.main_ppo"),
        ({"async_training.staleness_threshold"}, "verl.experimental.fully_async_policy.fully_async_main"),
    ],
)
def test_the_entry_is_guessed_from_the_keys(keys, entry):
    assert guess_entry(keys) == entry
