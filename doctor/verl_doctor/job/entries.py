"""Which modules and scripts are verl's, and how to tell a user's own verl program from somebody else's."""

from __future__ import annotations

import re

from verl_doctor.job.model import Argument
from verl_doctor.job.variables import brief

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")
_TRAINERS = ("verl.trainer.", "verl.experimental.", "recipe.")
_VERL_FOLDERS = frozenset({"trainer", "experimental"})

# Arguments that Hydra's own command line takes (hydra-core 1.3.2, _internal/utils.py, get_args_parser).
_HYDRA_OPTIONS = frozenset((
    "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd", "--cfg", "-c", "--package", "-p", "--run", "-r",
    "--multirun", "-m", "--resolve", "--info", "-i", "--help", "-h", "--hydra-help", "--version", "--shell-completion",
    "-sc", "--experimental-rerun", "--config",
))  # fmt: skip

# Keys that verl has and the common Hydra templates have not; `actor_rollout_ref` is verl's alone.
_VERL_KEYS = frozenset((
    "trainer.logger", "trainer.project_name", "trainer.experiment_name", "trainer.n_gpus_per_node", "trainer.nnodes",
    "trainer.total_epochs", "trainer.total_training_steps", "trainer.test_freq", "trainer.save_freq",
    "trainer.default_local_dir", "trainer.default_hdfs_dir", "trainer.val_before_train", "trainer.val_only",
    "trainer.resume_mode", "trainer.critic_warmup", "trainer.log_val_generations", "trainer.validation_data_dir",
    "trainer.rollout_data_dir", "trainer.use_v1", "trainer.balance_batch", "trainer.esi_redundant_time", "data.train_files",
    "data.val_files", "data.max_prompt_length", "data.max_response_length", "data.filter_overlong_prompts",
    "data.prompt_key", "data.train_batch_size", "data.micro_batch_size_per_gpu", "algorithm.adv_estimator",
    "algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", "reward_model.enable", "reward_model.reward_manager",
    "reward.reward_manager.name", "model.partial_pretrain", "custom_reward_function.path", "custom_reward_function.name",
    "critic.ppo_mini_batch_size", "critic.model.path",
))  # fmt: skip
_OVERRIDE = re.compile(r"(?:\+{1,2}|~)?([A-Za-z_][\w@/]*(?:\.[\w@/]+)*)=")

_OTHERS = {
    "openrlhf": "OpenRLHF",
    "skyrl": "SkyRL",
    "skyrl_train": "SkyRL",
    "trl": "TRL",
    "swift": "ms-swift",
    "llamafactory": "LLaMA-Factory",
    "axolotl": "Axolotl",
    "nemo_rl": "NeMo RL",
    "areal": "AReaL",
    "roll": "ROLL",
    "slime": "slime",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "lightning": "Lightning",
}
_NO_TRAINERS = {
    "llamafactory-cli": "LLaMA-Factory",
    "swift": "ms-swift",
    "axolotl": "Axolotl",
    "trl": "TRL",
    "vllm": "vLLM",
}


def verl_module(text: str) -> bool:
    """Whether the text is a dotted module of verl or of its recipes."""
    return text.startswith(("verl.", "recipe.")) and _DOTTED.match(text) is not None


def script_entry(path: str) -> str:
    """The dotted module of a script inside a tree of verl or of its recipes, empty for another script."""
    if not path.endswith(".py"):
        return ""
    parts = [part for part in path[: -len(".py")].split("/") if part not in ("", ".")]
    for place in range(len(parts) - 2, -1, -1):
        inside = parts[place] == "verl" and parts[place + 1] in _VERL_FOLDERS
        if inside or (parts[place] == "recipe" and len(parts) > place + 2):
            return ".".join(parts[place:])
    return ""


def is_hydra_launch(words: list[Argument]) -> bool:
    """Whether the arguments hold at least two settings that only verl has: the sign of a user's own verl program."""
    found = 0
    for word in words:
        match = _OVERRIDE.match(word.text)
        found += match is not None and (match[1] in _VERL_KEYS or match[1].startswith("actor_rollout_ref."))
        if found == 2:
            return True
    return False


def describe_entry(program: str, words: list[Argument], *, refuse_only: bool = False) -> str:
    """Why this program is not taken for a launch of verl. With `refuse_only` empty unless there is a reason against it."""
    reason = _reason_against(program, words)
    if reason or refuse_only:
        return reason
    other = _NO_TRAINERS.get(program.rsplit("/", 1)[-1])
    if other:
        return f"the command starts {brief(program)}, which is {other}, not verl"
    return (
        f"the command starts {brief(program)}, which is not verl's, and fewer than two of its arguments are settings of verl "
        "(such as trainer.logger=... or actor_rollout_ref.model.path=...)"
    )


def _reason_against(program: str, words: list[Argument]) -> str:
    other = _OTHERS.get(program.split(".", 1)[0]) if "/" not in program and not program.endswith(".py") else None
    if other:
        return f"the command starts {brief(program)}, which is {other}, not verl"
    if program == "verl.trainer.main":
        return "the command starts 'verl.trainer.main', which is EasyR1's fork of verl with its own settings (config=...)"
    if not verl_module(program):
        return ""
    if not program.startswith(_TRAINERS):
        return f"the command starts {brief(program)}, which is a tool of verl and trains nothing"
    foreign = next((word.text for word in words if _foreign_option(word.text)), "")
    if foreign and not program.startswith("verl."):
        return f"the command starts {brief(program)} with the option {brief(foreign, 40)}, which no trainer of verl takes"
    return ""


def _foreign_option(text: str) -> bool:
    name = text.split("=", 1)[0]
    abbreviated = name.startswith("--") and any(option.startswith(name) for option in _HYDRA_OPTIONS)
    return name.startswith("-") and name not in _HYDRA_OPTIONS and not abbreviated
