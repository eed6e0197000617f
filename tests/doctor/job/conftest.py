"""A small configuration tree in Hydra's manner, the installed verl, and the real Hydra to agree with."""

import importlib.util
import os
from pathlib import Path

import pytest

FILES = {
    "main.yaml": """\
defaults:
  - engine: a
  - actor@model.actor: ${engine}_actor
  - optional extra: null
  - _self_
trainer:
  logger: [console, wandb]
  name: x
  n: 3
  nested: {deep: {v: 1}}
  empty: {}
  dir: out/${trainer.name}
""",
    "engine/a.yaml": "# @package _global_\nengine: a\n",
    "engine/b.yaml": "# @package _global_\nengine: b\n",
    "actor/a_actor.yaml": "lr: 1\nkind: a\n",
    "actor/b_actor.yaml": "lr: 2\nkind: b\nonly_b: 1\n",
    "extra/e.yaml": "e: 1\n",
}


def write_files(folder, files):
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """The folder of a primary configuration `main` with groups."""
    return write_files(tmp_path_factory.mktemp("tree"), FILES)


@pytest.fixture(scope="session")
def verl_root():
    """The folder that holds the installed package `verl`, which is never imported."""
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("verl is not installed: pip install --no-deps verl==0.9.1")
    return os.path.dirname(next(iter(spec.submodule_search_locations)))


@pytest.fixture
def hydra_compose():
    """Real Hydra: (True, the composed values, unresolved) or (False, the first line of its error)."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    def run(folder, name, overrides):
        try:
            with initialize_config_dir(str(folder), version_base=None):
                config = compose(name, overrides=overrides)
            return True, OmegaConf.to_container(config, resolve=False)
        except Exception as error:  # noqa: BLE001 - whatever Hydra raises is its refusal
            return False, str(error).split("\n")[0]
        finally:
            GlobalHydra.instance().clear()

    return run
