"""Start-up and `check logger` against a bare click program, Hydra's own composition, and other tools, side by side in one run.

    python benchmarks/start.py [--rounds 15] [--other /path/to/venv/bin]

CPU seconds (user + system) and peak memory of each command as a whole process; the commands take turns, so that a machine whose
speed drifts treats them alike. `--other` names the folder of an environment with wandb, mlflow and verl.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

OVERRIDES = [
    "algorithm.adv_estimator=grpo", "data.train_files=/data/train.parquet", "data.val_files=/data/test.parquet",
    "data.train_batch_size=1024", "data.max_prompt_length=512", "data.max_response_length=1024",
    "data.filter_overlong_prompts=True", "data.truncation=error", "actor_rollout_ref.model.path=Qwen/Qwen3-8B",
    "actor_rollout_ref.actor.optim.lr=1e-6", "actor_rollout_ref.model.use_remove_padding=True",
    "actor_rollout_ref.actor.ppo_mini_batch_size=256", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=32",
    "actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.001",
    "actor_rollout_ref.actor.kl_loss_type=low_var_kl", "actor_rollout_ref.actor.entropy_coeff=0",
    "actor_rollout_ref.model.enable_gradient_checkpointing=True", "actor_rollout_ref.actor.fsdp_config.param_offload=False",
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=False",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=2", "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6", "actor_rollout_ref.rollout.n=5",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=32", "actor_rollout_ref.ref.fsdp_config.param_offload=True",
    "algorithm.use_kl_in_reward=False", "trainer.critic_warmup=0", 'trainer.logger=["console","wandb"]',
    "trainer.project_name=demo", "trainer.experiment_name=qwen3_8b", "trainer.n_gpus_per_node=8", "trainer.nnodes=1",
    "trainer.save_freq=20", "trainer.test_freq=5", "trainer.total_epochs=15",
]  # fmt: skip
OVERRIDES += [f"+data.extra_{number}={number}" for number in range(60 - len(OVERRIDES))]

CLICK = "import click\n@click.group()\n@click.version_option('1')\ndef cli(): pass\n@cli.command()\ndef a(): pass\ncli()\n"
HYDRA = (
    "import sys\nfrom hydra import compose, initialize_config_dir\n"
    "with initialize_config_dir(sys.argv[1], version_base=None):\n    compose('ppo_trainer', overrides=sys.argv[2:])\n"
)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--other", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        commands = _commands(Path(folder), arguments.other)
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for turn in range(arguments.rounds + 1):
            for name, command in commands.items():
                measured = _measure(command)
                if turn:  # the first turn warms the page cache
                    figures[name].append(measured)
    _print(figures)


def _commands(folder: Path, other: Path | None) -> dict[str, list[str]]:
    python = sys.executable
    (folder / "bare.py").write_text(CLICK, encoding="utf-8")
    (folder / "compose.py").write_text(HYDRA, encoding="utf-8")
    doctor = str(Path(python).parent / "verl-doctor")
    launch = ["--", "python3", "-m", "verl.trainer.main_ppo", *OVERRIDES]
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "bare click --version": [python, str(folder / "bare.py"), "--version"],
        "verl-doctor --version": [doctor, "--version"],
        "bare click --help": [python, str(folder / "bare.py"), "--help"],
        "verl-doctor --help": [doctor, "--help"],
        "verl-doctor explain WANDB001": [doctor, "explain", "WANDB001"],
    }
    config = _verl_config()
    if config:
        commands["hydra compose, 60 overrides"] = [python, str(folder / "compose.py"), config, *OVERRIDES]
    commands["verl-doctor check logger, 60 overrides"] = [doctor, "check", "logger", *launch]
    if other:
        for name, command in {
            "wandb --version": ["wandb", "--version"],
            "mlflow doctor": ["mlflow", "doctor"],
            "verl's scripts.diagnose": ["python", "-m", "scripts.diagnose"],
        }.items():
            if shutil.which(command[0], path=str(other)):
                commands[name] = [str(other / command[0]), *command[1:]]
    return commands


def _verl_config() -> str | None:
    import importlib.util

    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        return None
    return str(Path(next(iter(spec.submodule_search_locations))) / "trainer" / "config")


def _measure(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak memory (MB) of one run."""
    process = os.posix_spawn(
        command[0],
        command,
        os.environ | {"WANDB_MODE": "offline"},
        file_actions=[(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1, 2)],
    )
    _, _, usage = os.wait4(process, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _print(figures: dict[str, list[tuple[float, float]]]) -> None:
    print(f"{'command':<42} {'CPU ms, median':>15} {'min':>7} {'peak MB':>8}")
    for name, measured in figures.items():
        seconds = [cpu for cpu, _ in measured]
        memory = max(peak for _, peak in measured)
        print(f"{name:<42} {statistics.median(seconds) * 1000:>15.0f} {min(seconds) * 1000:>7.0f} {memory:>8.0f}")


if __name__ == "__main__":
    main()
