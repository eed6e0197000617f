"""A configuration given as one YAML file: a primary one of Hydra, a part of verl's, or what a run left behind."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from verl_doctor.errors import BadInput
from verl_doctor.job.folders import read_file, short_path
from verl_doctor.job.knowledge import ENTRY_POINTS
from verl_doctor.job.yaml_reader import Document, parse_yaml

_FULL = ("trainer.logger", "trainer.project_name", "trainer.experiment_name", "trainer.total_epochs", "trainer.test_freq")
"""A file that sets all of these holds a whole configuration: nobody repeats verl's defaults by hand."""

_ONLY_SFT = {"model.partial_pretrain", "data.micro_batch_size_per_gpu", "data.max_length", "engine.strategy", "optim.lr"}


class ConfigFile(msgspec.Struct, kw_only=True):
    """A configuration file. `entry`, `config_name` and `directory` are what the run that wrote it says of itself, if it does.

    `is_primary`: it has a defaults list and is composed by Hydra. `is_full`: nothing of verl's defaults lies beneath it.
    """

    path: str
    shown: str
    data: dict[str, Any]
    document: Any
    is_primary: bool = False
    is_full: bool = False
    entry: str = ""
    config_name: str = ""
    directory: str = ""


def read_config_file(path: str, directory: str) -> ConfigFile:
    """Read `--config FILE`; raises BadInput, whose message names the file, the line and the remedy."""
    full = os.path.abspath(os.path.join(directory, os.path.expanduser(path)))
    shown = short_path(full, directory)
    if os.path.isdir(full):
        raise BadInput(f"{shown}: a folder, not a file; give a YAML file, such as .hydra/config.yaml of a run")
    document = parse_yaml(read_file(full, shown), shown)
    if document.data is None:
        raise BadInput(f"{shown}: the file is empty; give the job's configuration")
    if not isinstance(document.data, dict):
        raise BadInput(f"{shown}: not a configuration: it holds no 'key: value' lines at its top level")
    file = ConfigFile(path=full, shown=shown, data=document.data, document=document)
    file.is_primary = isinstance(document.data.get("defaults"), list)
    if file.is_primary and not full.endswith(".yaml"):
        raise BadInput(f"{shown}: it has a defaults list, and Hydra reads only files whose name ends with .yaml; rename it")
    file.is_full = not file.is_primary and all(document.line_of(tuple(key.split("."))) for key in _FULL)
    if os.path.basename(os.path.dirname(full)) == ".hydra":
        _read_siblings(file, directory)
    return file


def guess_entry(keys: set[str]) -> str:
    """The entry that these keys belong to: the SFT trainer when they fit only that, else PPO."""
    if any(key.startswith("async_training.") for key in keys):
        return "verl.experimental.fully_async_policy.fully_async_main"
    if any(key.startswith(("actor_rollout_ref.", "algorithm.", "critic.")) for key in keys):
        return "verl.trainer.main_ppo"
    if "model.partial_pretrain" in keys:
        return "verl.trainer.fsdp_sft_trainer"
    return "verl.trainer.sft_trainer" if keys & _ONLY_SFT else "verl.trainer.main_ppo"


def _read_siblings(file: ConfigFile, directory: str) -> None:
    """Hydra writes beside config.yaml what it knows of the run (hydra-core 1.3, core/utils.py, run_job)."""
    sibling = os.path.join(os.path.dirname(file.path), "hydra.yaml")
    file.is_full = not file.is_primary
    if not os.path.isfile(sibling):
        return
    shown = short_path(sibling, directory)
    document: Document = parse_yaml(read_file(sibling, shown), shown)
    job = _text_table(document.data, "hydra", "job")
    runtime = _text_table(document.data, "hydra", "runtime")
    file.config_name = job.get("config_name", "")
    file.directory = runtime.get("cwd", "")
    named = [module for module in ENTRY_POINTS if module.rpartition(".")[2] == job.get("name")]
    fitting = [module for module in named if ENTRY_POINTS[module].config_name == file.config_name]
    file.entry = (fitting or named or [""])[0]


def _text_table(data: Any, *path: str) -> dict[str, str]:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return {str(name): value for name, value in data.items() if isinstance(value, str)} if isinstance(data, dict) else {}
