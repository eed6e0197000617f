"""What is known of verl without having it: entry points, logger names, and the defaults of the keys that tracking looks at.

Read from the wheels 0.3.0.post1, 0.4.1, 0.5.0, 0.6.1, 0.7.0, 0.7.1, 0.8.0 and 0.9.1 (composed with Hydra); `supported_backend`
of verl/utils/tracking.py in every wheel from 0.1 on. A release that was not read is taken to be like the next one that was,
when its tags or change notes say so, else like the one before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from verl_doctor.job.model import TrainerKind

LATEST_VERSION = "0.9.1"
Release = tuple[int, ...]


class EntryPoint(NamedTuple):
    """A module with a `hydra.main`. It exists in the releases `since` <= release <= `last` (None: up to now)."""

    kind: TrainerKind
    config_name: str
    since: Release = (0,)
    last: Release | None = None


ENTRY_POINTS: dict[str, EntryPoint] = {
    "verl.trainer.main_ppo": EntryPoint("ppo", "ppo_trainer"),
    "verl.trainer.main_ppo_sync": EntryPoint("ppo", "ppo_trainer", (0, 8, 0), (0, 8, 0)),
    "verl.trainer.sft_trainer": EntryPoint("sft", "sft_trainer_engine", (0, 6, 0)),
    "verl.trainer.sft_trainer_ray": EntryPoint("sft_ray", "sft_trainer_engine", (0, 7, 0)),
    "verl.trainer.fsdp_sft_trainer": EntryPoint("sft", "sft_trainer", (0,), (0, 7, 0)),
    "verl.trainer.main_generation": EntryPoint("generation", "generation", (0,), (0, 7, 0)),
    "verl.trainer.main_generation_server": EntryPoint("generation", "ppo_trainer", (0, 6, 0)),
    "verl.trainer.main_eval": EntryPoint("evaluation", "evaluation"),
    "verl.experimental.fully_async_policy.fully_async_main": EntryPoint("fully_async", "fully_async_ppo_trainer", (0, 7, 1)),
    "verl.experimental.one_step_off_policy.main_ppo": EntryPoint("one_step_off", "one_step_off_ppo_trainer", (0, 7, 1)),
    # Part of the repository (not of the wheel) up to 0.7.0.
    "recipe.fully_async_policy.fully_async_main": EntryPoint("fully_async", "fully_async_ppo_trainer", (0, 6, 0), (0, 7, 0)),
    "recipe.one_step_off_policy.main_ppo": EntryPoint("one_step_off", "one_step_off_ppo_trainer", (0, 5, 0), (0, 7, 0)),
    "recipe.r1.main_eval": EntryPoint("evaluation", "evaluation"),
}

_BACKENDS: list[tuple[Release, frozenset[str]]] = [
    ((0, 1), frozenset({"console"})),
    ((0, 2), frozenset({"wandb", "mlflow", "swanlab"})),
    ((0, 3), frozenset({"vemlp_wandb", "tensorboard"})),
    ((0, 4), frozenset({"clearml"})),
    ((0, 6), frozenset({"trackio", "file"})),
    ((0, 9), frozenset({"rl_insight"})),
]


def supported_backends(release: Release) -> frozenset[str]:
    """The names that `trainer.logger` may hold in a release, with the old alias `tracking`."""
    names = frozenset({"tracking"})
    return names.union(*(added for since, added in _BACKENDS if since <= release))


class _Gone:
    """Marks a key that a release no longer has."""


GONE = _Gone()
History = dict[str, list[tuple[Release, Any]]]
"""For each key, the releases at which its default appeared or changed."""

_ALWAYS: Release = (0,)
_CHECKPOINTS = "checkpoints/${trainer.project_name}/${trainer.experiment_name}"

_PPO: History = {
    "trainer.logger": [(_ALWAYS, ["console", "wandb"])],
    "trainer.project_name": [(_ALWAYS, "verl_examples")],
    "trainer.experiment_name": [(_ALWAYS, "gsm8k")],
    "trainer.log_val_generations": [((0, 4), 0)],
    "trainer.val_generations_to_log_to_wandb": [(_ALWAYS, 0), ((0, 4), GONE)],
    "trainer.rollout_data_dir": [((0, 4, 1), None)],
    "trainer.validation_data_dir": [((0, 4, 1), None)],
    "trainer.default_local_dir": [(_ALWAYS, _CHECKPOINTS)],
    "trainer.default_hdfs_dir": [(_ALWAYS, None)],
    "trainer.resume_mode": [(_ALWAYS, "auto")],
    "trainer.resume_from_path": [(_ALWAYS, None)],
    "trainer.nnodes": [(_ALWAYS, 1)],
    "trainer.n_gpus_per_node": [(_ALWAYS, 8)],
    "trainer.save_freq": [(_ALWAYS, -1)],
    "trainer.test_freq": [(_ALWAYS, -1)],
    "trainer.val_before_train": [((0, 4), True)],
    "trainer.val_only": [((0, 4), False)],
    "trainer.total_epochs": [(_ALWAYS, 30)],
    "trainer.total_training_steps": [(_ALWAYS, None)],
    "trainer.device": [((0, 4, 1), "cuda")],
    "trainer.use_v1": [((0, 9), True)],
    "trainer.v1.trainer_mode": [((0, 9), "sync")],
    "actor_rollout_ref.rollout.n": [(_ALWAYS, 1)],
    "actor_rollout_ref.rollout.val_kwargs.n": [(_ALWAYS, 1)],
    "actor_rollout_ref.rollout.mode": [((0, 4), "sync"), ((0, 7), "async")],
    "actor_rollout_ref.rollout.agent.num_workers": [((0, 5), 8)],
    "actor_rollout_ref.rollout.trace.backend": [((0, 5), None)],
    "actor_rollout_ref.rollout.trace.token2text": [((0, 5), False)],
    "actor_rollout_ref.rollout.trace.max_samples_per_step_per_worker": [((0, 7), None)],
    "actor_rollout_ref.rollout.trace.project_name": [((0, 7, 1), "${oc.select:trainer.project_name,null}")],
    "actor_rollout_ref.rollout.trace.experiment_name": [((0, 7, 1), "${oc.select:trainer.experiment_name,null}")],
    "data.train_batch_size": [(_ALWAYS, 1024)],
    "data.val_batch_size": [(_ALWAYS, None)],
    "data.max_prompt_length": [(_ALWAYS, 512)],
    "data.max_response_length": [(_ALWAYS, 512)],
    "data.train_files": [(_ALWAYS, "~/data/rlhf/gsm8k/train.parquet")],
    "data.val_files": [(_ALWAYS, "~/data/rlhf/gsm8k/test.parquet")],
    "ray_init.num_cpus": [((0, 4), None), ((0, 6), GONE)],
    "ray_kwargs.ray_init.num_cpus": [((0, 6), None)],
}

_POOL: History = {
    "rollout.nnodes": [(_ALWAYS, 1)],
    "rollout.n_gpus_per_node": [(_ALWAYS, 8)],
}

_SFT: History = {
    "trainer.logger": [(_ALWAYS, ["console", "wandb"])],
    "trainer.project_name": [(_ALWAYS, "gsm8k-sft")],
    "trainer.experiment_name": [(_ALWAYS, "test")],
    "trainer.default_local_dir": [(_ALWAYS, _CHECKPOINTS)],
    "trainer.default_hdfs_dir": [(_ALWAYS, None)],
    "trainer.resume_mode": [(_ALWAYS, "auto")],
    "trainer.resume_from_path": [(_ALWAYS, None)],
    "trainer.save_freq": [(_ALWAYS, -1)],
    "trainer.test_freq": [(_ALWAYS, -1)],
    "trainer.total_epochs": [(_ALWAYS, 4)],
    "trainer.total_training_steps": [(_ALWAYS, None)],
    "trainer.device": [(_ALWAYS, "cuda")],
    "trainer.nnodes": [((0, 7), 1)],
    "trainer.n_gpus_per_node": [((0, 7), 1)],
    "data.train_batch_size": [(_ALWAYS, 256)],
    "data.max_length": [(_ALWAYS, 1024)],
    "data.train_files": [(_ALWAYS, "~/data/gsm8k/train.parquet")],
    "data.val_files": [(_ALWAYS, None)],
}

_FSDP_SFT: History = _SFT | {
    "trainer.logger": [(_ALWAYS, ["console"]), ((0, 4), ["console", "wandb"])],
    "trainer.default_local_dir": [(_ALWAYS, "/tmp/sft_model"), ((0, 4), _CHECKPOINTS)],  # noqa: S108 - verl's value
    "trainer.default_hdfs_dir": [(_ALWAYS, "hdfs://tmp/experiments/gsm8k/gemma-1.1-7b-it/"), ((0, 4), None)],
    "trainer.resume_mode": [((0, 5), "auto")],
    "trainer.resume_from_path": [((0, 5), None)],
    "trainer.save_freq": [((0, 4), -1)],
    "trainer.test_freq": [((0, 4), -1)],
    "trainer.device": [((0, 5), "cuda")],
    "trainer.nnodes": [((0, 4), 1)],
    "trainer.n_gpus_per_node": [((0, 4), 8)],
    "data.val_files": [(_ALWAYS, "~/data/gsm8k/test.parquet")],
}

_BY_CONFIG: dict[str, History] = {
    "ppo_trainer": _PPO,
    "fully_async_ppo_trainer": _PPO | _POOL | {"rollout.n": [(_ALWAYS, 4)]},
    "one_step_off_ppo_trainer": _PPO | _POOL,
    "sft_trainer_engine": _SFT,
    "sft_trainer": _FSDP_SFT,
}


def tracking_defaults(config_name: str, release: Release) -> dict[str, Any]:
    """The defaults of the tracking keys, with their interpolations, in one of verl's primary configurations.

    A configuration that is not verl's own is taken to build on `ppo_trainer`, as all recipes that train with loggers do.
    """
    history = _BY_CONFIG.get(config_name, _PPO)
    values = {key: _at(changes, release) for key, changes in history.items()}
    return {key: value for key, value in values.items() if value is not GONE}


def _at(changes: list[tuple[Release, Any]], release: Release) -> Any:
    known = [value for since, value in changes if since <= release]
    return known[-1] if known else GONE


TRACKING_KEYS = frozenset(_PPO) | frozenset(_FSDP_SFT) | frozenset(_POOL)
"""The keys whose defaults are shown with the line that sets them."""

RENAMED = {
    "trainer.val_generations_to_log_to_wandb": "trainer.log_val_generations",
    "trainer.val_generations_to_log_to_swanlab": "trainer.log_val_generations",
    "trainer.resume_path": "trainer.resume_from_path",
    "trainer.max_epochs": "trainer.total_epochs",
    "ray_init": "ray_kwargs.ray_init",
}
"""Old (or often mistaken) keys or parents of keys, and what they are called now."""

READ_BUT_UNDECLARED = ("trainer.wandb_proxy", "trainer.rl_insight", "trainer.remove_previous_ckpt_in_save")
"""Keys, or parents of keys, that verl's code reads and no file of it declares: they need `+` (verl/utils/tracking.py)."""


def takes_new_keys(key: str) -> bool:
    """Whether verl passes whatever stands below the key's parent on, so that `+` is what a new key needs."""
    open_parents = {"env_vars", "runtime_env", "ray_init"}
    parents = key.split(".")[:-1]
    return any(part.endswith("kwargs") or part.startswith("override_") or part in open_parents for part in parents)
