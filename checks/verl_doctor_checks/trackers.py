"""What verl's trackers and traces do, as plain functions of a job: no checks here, several topics use them."""

from __future__ import annotations

import re
import shlex
from typing import Any

from verl_doctor.api import Job

TRACE = "actor_rollout_ref.rollout.trace"
TRACE_BACKENDS = {"weave": (0, 5, 0), "mlflow": (0, 5, 0), "trackio": (0, 8, 0)}
"""Trace backends and the first verl that has them (verl, verl/utils/rollout_trace.py of each release)."""

SINCE = {
    "tensorboard": "0.3.0",
    "vemlp_wandb": "0.3.0",
    "clearml": "0.4.0",
    "trackio": "0.6.0",
    "file": "0.6.0",
    "rl_insight": "0.9.0",
}
"""The release in which a tracker appeared; the ones that are not here were there in 0.2 (verl/utils/tracking.py)."""

GENERATION_SINKS = {
    "wandb": (0, 4, 0),
    "swanlab": (0, 4, 0),
    "mlflow": (0, 4, 0),
    "clearml": (0, 4, 0),
    "tensorboard": (0, 4, 0),
    "vemlp_wandb": (0, 4, 1),
    "trackio": (0, 8, 0),
}
"""Trackers that keep validation generations, and since when (verl/utils/tracking.py, ValidationGenerationsLogger)."""

QUADRATIC_SINKS = ("wandb", "vemlp_wandb")
"""Trackers to which each validation writes the rows of all earlier ones again."""

NEVER_READ = {
    "trainer.tensorboard_dir": ("variable", "TENSORBOARD_DIR"),
    "trainer.swanlab.save_dir": ("variable", "SWANLAB_LOG_DIR"),
    "trainer.swanlab.log_dir": ("variable", "SWANLAB_LOG_DIR"),
    "trainer.swanlab.mode": ("variable", "SWANLAB_MODE"),
    "trainer.swanlab.interval": ("nothing", ""),
    "trainer.wandb_entity": ("variable", "WANDB_ENTITY"),
    "trainer.wandb_mode": ("variable", "WANDB_MODE"),
    "trainer.wandb_dir": ("variable", "WANDB_DIR"),
    "trainer.wandb_run_id": ("variable", "WANDB_RUN_ID"),
    "trainer.mlflow_tracking_uri": ("variable", "MLFLOW_TRACKING_URI"),
    "trainer.swanlab_mode": ("variable", "SWANLAB_MODE"),
    "trainer.swanlab_log_dir": ("variable", "SWANLAB_LOG_DIR"),
    "trainer.max_epochs": ("key", "trainer.total_epochs"),
    "trainer.is_test": ("nothing", ""),
    "trainer.val_generations_to_log_to_wandb": ("key", "trainer.log_val_generations"),
    "trainer.val_generations_to_log_to_swanlab": ("key", "trainer.log_val_generations"),
}
"""Keys that articles and old scripts use and no verl since 0.4.0 reads, with what does the job."""

NOT_IN_CONFIG_BUT_READ = ("trainer.wandb_proxy", "trainer.rl_insight")
"""Keys that verl reads and no configuration of verl holds, so that an override needs a plus (verl/utils/tracking.py)."""

PPO_ONLY = ("trainer.log_val_generations", "trainer.rollout_data_dir", "trainer.validation_data_dir")


def tracks(job: Job) -> bool:
    """Whether this entry point builds trackers at all: generation and evaluation do not."""
    return job.kind not in {"generation", "evaluation"}


def logs_to(job: Job, tracker: str) -> bool:
    """Whether the job has loggers and this tracker is one of them. Raises Undetermined."""
    return tracks(job) and tracker in job.loggers


def generates(job: Job) -> bool:
    """Whether this trainer can log validation generations: the SFT trainers never do."""
    return job.kind not in {"sft", "sft_ray", "generation", "evaluation"}


def override(key: str, value: str) -> str:
    """A Hydra override with a quoted text value, quoted once more for a shell."""
    # Hydra's grammar: a backslash is itself unless a quote follows, before which every backslash is doubled.
    escaped = re.sub(r'(\\*)"', lambda match: match[1] * 2 + '\\"', value)
    escaped = re.sub(r"(\\+)$", lambda match: match[1] * 2, escaped)
    return shlex.quote(f'{key}="{escaped}"')


def logger_override(names: list[str]) -> str:
    """The override that sets this list of trackers, quoted for a shell."""
    return shlex.quote("trainer.logger=[{}]".format(",".join(f'"{name}"' for name in names)))


def number(job: Job, key: str, default: int) -> int:
    """A whole number of the configuration, `default` when it is absent or something else; raises Undetermined."""
    value = job.get(key, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def words(text: str) -> list[str]:
    """The names in a text such as `[console,wandb]` or `console, wandb`."""
    return re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)


def generation_sinks(job: Job) -> list[str]:
    """The trackers that get validation generations, in the order in which verl serves them.

    verl tests the configured value itself, so a value that is one text matches every name that it contains
    (`vemlp_wandb` also means wandb), and the alias `tracking` matches nothing. Raises Undetermined.
    """
    value: Any = job.get("trainer.logger")
    given = value if isinstance(value, (str, list, tuple)) else []
    return [name for name, since in GENERATION_SINKS.items() if job.verl.release >= since and name in given]


def validations(job: Job) -> int | None:
    """How many validations the run makes, None when the number of steps is not configured. Raises Undetermined.

    verl 0.9.1, verl/trainer/ppo/ray_trainer.py: one before training, then every `test_freq` steps and after the last one.
    """
    initial = 1 if job.get("trainer.val_before_train", True) is not False else 0
    if job.get("trainer.val_only", False) is True:
        return initial
    frequency = number(job, "trainer.test_freq", -1)
    if frequency <= 0:
        return initial
    steps = number(job, "trainer.total_training_steps", 0)
    if steps <= 0:
        return None
    return initial + steps // frequency + (1 if steps % frequency else 0)


def trace_backend(job: Job) -> str:
    """The configured trace backend, empty when there is none. Raises Undetermined."""
    value = job.get(f"{TRACE}.backend")
    return value if isinstance(value, str) and generates(job) else ""


def uses_v1_trainer(job: Job) -> bool:
    """Whether the V1 trainer runs: the default of main_ppo since 0.9.0, a separate entry in 0.8.0. Raises Undetermined."""
    if job.entry.endswith("main_ppo_sync"):
        return True
    return job.kind == "ppo" and job.verl.release >= (0, 9, 0) and job.get("trainer.use_v1", True) is not False


def uses_agent_loop(job: Job) -> bool:
    """Whether rollouts go through the agent loop: by default since 0.7.0, with `rollout.mode=async` before."""
    default = "async" if job.verl.release >= (0, 7, 0) else "sync"
    return job.kind in {"fully_async", "one_step_off"} or job.get("actor_rollout_ref.rollout.mode", default) != "sync"


def records_traces(job: Job) -> bool | None:
    """Whether rollout traces are recorded; None when the trainer is not one of verl's own. Raises Undetermined."""
    if job.kind == "recipe" or job.get("actor_rollout_ref.rollout.agent.agent_loop_manager_class"):
        return None
    return uses_agent_loop(job) and not uses_v1_trainer(job)
