"""The built-in table says what verl's own files say."""

import pytest

from verl_doctor.job.composition import compose
from verl_doctor.job.hydra_files import FolderSource
from verl_doctor.job.knowledge import ENTRY_POINTS, LATEST_VERSION, supported_backends, takes_new_keys, tracking_defaults
from verl_doctor.job.verl_source import find_entry, find_verl


@pytest.mark.parametrize(
    "module",
    sorted(module for module, point in ENTRY_POINTS.items() if point.kind in {"ppo", "sft", "fully_async", "one_step_off"}),
)
def test_the_defaults_are_those_of_the_installed_verl(module, verl_root):
    found = find_verl(verl_root)
    assert found.verl.version == LATEST_VERSION
    entry = find_entry(module, found.root, [])
    if entry is None:
        assert ENTRY_POINTS[module].last is not None
        return
    own = FolderSource("verl", found.root.join("verl/trainer/config"), is_user=False)
    main = FolderSource("main", entry.folder.join(entry.config_path), is_user=False)
    composed = compose(entry.config_name, [main, own], [], locate=lambda path: own)
    raw = {}

    def collect(node, prefix):
        for name, child in node._content.items():
            if hasattr(child, "_content") and isinstance(child._content, dict) and child._content:
                collect(child, f"{prefix}{name}.")
            else:
                raw[prefix + name] = child._value() if not hasattr(child, "_content") else list(child)

    collect(composed.config, "")
    known = tracking_defaults(entry.config_name, found.verl.release)
    assert known == {key: raw.get(key, "missing") for key in known}
    assert {key for key in raw if key in tracking_defaults(entry.config_name, (99,))} == set(known)


def test_every_entry_point_of_the_installed_verl_is_known(verl_root):
    import os
    import re

    modules = set()
    for folder, _, names in os.walk(os.path.join(verl_root, "verl")):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    if re.search(r"^@hydra\.main\(", file.read(), re.MULTILINE):
                        modules.add(os.path.relpath(path, verl_root).removesuffix(".py").replace("/", "."))
    current = {module for module, point in ENTRY_POINTS.items() if module.startswith("verl.") and point.last is None}
    assert modules == current


def test_the_backends_of_the_installed_verl(verl_root):
    import ast

    with open(f"{verl_root}/verl/utils/tracking.py", encoding="utf-8") as file:
        tree = ast.parse(file.read())
    [names] = [
        ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "supported_backend"
    ]
    assert supported_backends((0, 9, 1)) == set(names) | {"tracking"}


@pytest.mark.parametrize(
    ("release", "has", "has_not"),
    [
        ((0, 1), {"console", "tracking"}, {"wandb"}),
        ((0, 3, 0), {"wandb", "tensorboard"}, {"clearml"}),
        ((0, 5, 0), {"clearml"}, {"file", "trackio"}),
        ((0, 6, 0), {"file", "trackio"}, {"rl_insight"}),
        ((0, 9, 0), {"rl_insight"}, set()),
        ((0, 10, 0), {"rl_insight", "file"}, set()),
    ],
)
def test_backends_by_release(release, has, has_not):
    assert has <= supported_backends(release)
    assert not has_not & supported_backends(release)


@pytest.mark.parametrize(
    ("config", "release", "key", "value"),
    [
        ("ppo_trainer", (0, 3, 0), "trainer.val_generations_to_log_to_wandb", 0),
        ("ppo_trainer", (0, 4, 1), "trainer.val_generations_to_log_to_wandb", "absent"),
        ("ppo_trainer", (0, 4, 1), "trainer.log_val_generations", 0),
        ("ppo_trainer", (0, 6, 1), "actor_rollout_ref.rollout.mode", "sync"),
        ("ppo_trainer", (0, 7, 0), "actor_rollout_ref.rollout.mode", "async"),
        ("ppo_trainer", (0, 8, 0), "trainer.use_v1", "absent"),
        ("ppo_trainer", (0, 10, 0), "trainer.use_v1", True),
        ("ppo_trainer", (0, 5, 0), "ray_init.num_cpus", None),
        ("ppo_trainer", (0, 6, 1), "ray_init.num_cpus", "absent"),
        ("sft_trainer", (0, 3, 0), "trainer.logger", ["console"]),
        ("sft_trainer_engine", (0, 6, 1), "trainer.nnodes", "absent"),
        ("fully_async_ppo_trainer", (0, 9, 1), "rollout.n", 4),
        ("a_recipe", (0, 9, 1), "trainer.resume_mode", "auto"),
    ],
)
def test_defaults_by_release(config, release, key, value):
    assert tracking_defaults(config, release).get(key, "absent") == value


def test_keys_that_need_a_plus_because_verl_passes_them_on():
    assert takes_new_keys("ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY")
    assert takes_new_keys("actor_rollout_ref.actor.megatron.override_transformer_config.x")
    assert not takes_new_keys("trainer.wandb_proxy")
    assert not takes_new_keys("ray_kwargs")
