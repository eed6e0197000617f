"""verl is found by its files and never imported."""

import json
import os
import subprocess
import sys
import zipfile

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.job.knowledge import LATEST_VERSION
from verl_doctor.job.verl_source import find_entry, find_verl, module_of, trainer_kind


def make_verl(root, version="0.8.0", config="trainer: {logger: [console]}\n"):
    for name, text in {
        "verl/__init__.py": "raise RuntimeError('executed')\n",
        "verl/version/version": f"{version}\n",
        "verl/trainer/main_ppo.py": "raise RuntimeError('executed')\n",
        "verl/trainer/config/ppo_trainer.yaml": config,
        "verl/trainer/config/model/hf_model.yaml": "path: x\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def make_wheel(root, path):
    with zipfile.ZipFile(path, "w") as wheel:
        for folder, _, names in os.walk(root):
            for name in names:
                file = os.path.join(folder, name)
                wheel.write(file, os.path.relpath(file, root))
    return path


@pytest.mark.parametrize("given", ["", "verl", "lib/python3.11/site-packages"])
def test_a_path_may_be_the_root_the_package_or_an_environment(tmp_path, given):
    root = tmp_path / given if given.startswith("lib") else tmp_path
    make_verl(root)
    found = find_verl(str(tmp_path if given.startswith("lib") else tmp_path / given))
    assert (found.verl.version, found.verl.origin, found.verl.assumed) == ("0.8.0", "path", False)
    assert found.verl.path == str(root / "verl")
    assert found.root.is_file("verl/trainer/config/ppo_trainer.yaml")
    assert found.root.join("verl/trainer/config").shown("ppo_trainer.yaml") == "verl/trainer/config/ppo_trainer.yaml"


def test_a_wheel_is_read_in_memory(tmp_path):
    wheel = make_wheel(make_verl(tmp_path / "src"), tmp_path / "verl-0.8.0-py3-none-any.whl")
    found = find_verl(str(wheel))
    assert (found.verl.version, found.verl.origin) == ("0.8.0", "path")
    config = found.root.join("verl/trainer").join("config")
    assert config.read("ppo_trainer.yaml") == b"trainer: {logger: [console]}\n"
    assert config.names("") == ["model", "ppo_trainer.yaml"]
    assert config.is_folder("model")
    assert not config.is_file("model")
    assert not found.root.is_file("verl/trainer/main_ppo.py")
    assert config.shown("model/hf_model.yaml") == "verl/trainer/config/model/hf_model.yaml"
    with pytest.raises(BadInput, match="no such file"):
        config.read("nope.yaml")


def test_the_version_comes_from_the_metadata_when_there_is_no_version_file(tmp_path):
    make_verl(tmp_path)
    (tmp_path / "verl/version/version").unlink()
    (tmp_path / "verl-0.7.1.dist-info").mkdir()
    (tmp_path / "verl-0.7.1.dist-info/METADATA").write_text("Name: verl\nVersion: 0.7.1\n")
    assert find_verl(str(tmp_path)).verl.version == "0.7.1"
    (tmp_path / "verl-0.7.1.dist-info/METADATA").unlink()
    assert find_verl(str(tmp_path)).verl.assumed


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("x", None, "no verl there"), ("v.whl", b"not a zip", "not a readable wheel"), ("none.whl", None, "not a readable wheel")],
)
def test_a_path_without_verl_is_bad_input(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message):
        find_verl(str(tmp_path / name))


def test_a_wheel_of_something_else_is_bad_input(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/other.py").write_text("")
    with pytest.raises(BadInput, match="give a wheel of verl"):
        find_verl(str(make_wheel(tmp_path / "src", tmp_path / "other.whl")))


def test_a_checkout_in_the_jobs_folder_comes_before_what_is_installed(tmp_path):
    make_verl(tmp_path, "0.10.0.dev")
    found = find_verl(directory=str(tmp_path))
    assert (found.verl.origin, found.verl.release) == ("path", (0, 10, 0))


def test_a_folder_that_only_holds_a_clone_is_not_imported_by_python(tmp_path, verl_root):
    make_verl(tmp_path / "verl")
    assert find_verl(directory=str(tmp_path)).verl.origin == "installed"


def test_another_python_and_its_editable_installs(tmp_path):
    packages = tmp_path / "env/lib/python3.10/site-packages"
    make_verl(packages, "0.6.1")
    assert find_verl(python=str(tmp_path / "env/bin/python")).verl.version == "0.6.1"
    checkout = make_verl(tmp_path / "my checkout", "0.5.0")
    record = tmp_path / "env2/lib/python3.12/site-packages/verl-0.5.0.dist-info/direct_url.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"url": checkout.as_uri(), "dir_info": {"editable": True}}))
    found = find_verl(python=str(tmp_path / "env2/bin/python3"))
    assert (found.verl.version, found.verl.origin) == ("0.5.0", "installed")


def test_the_given_version_decides_when_it_is_not_the_one_found(tmp_path):
    make_verl(tmp_path, "0.8.0")
    same = find_verl(version="0.8.0", directory=str(tmp_path))
    other = find_verl(version="0.6.1", directory=str(tmp_path))
    assert (same.verl.origin, other.verl.origin, other.verl.version, other.root) == ("path", "built-in", "0.6.1", None)
    assert not other.verl.assumed


def test_without_verl_the_latest_version_is_assumed(monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if "editable" not in str(finder)])
    sys.path_importer_cache.clear()
    found = find_verl()
    assert (found.verl.version, found.verl.origin, found.verl.assumed) == (LATEST_VERSION, "built-in", True)


def test_the_installed_verl_is_found_without_importing_it(verl_root):
    code = (
        "import sys; from verl_doctor.job.verl_source import find_verl; found = find_verl()\n"
        "assert found.verl.origin == 'installed', found.verl\n"
        "assert not {'verl', 'torch', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")


@pytest.mark.parametrize(
    ("entry", "module", "kind"),
    [
        ("verl.trainer.main_ppo", "verl.trainer.main_ppo", "ppo"),
        ("verl/trainer/main_ppo.py", "verl.trainer.main_ppo", "ppo"),
        ("/x/verl/verl/trainer/sft_trainer.py", "verl.trainer.sft_trainer", "sft"),
        ("verl.trainer.sft_trainer_ray", "verl.trainer.sft_trainer_ray", "sft_ray"),
        ("recipe.fully_async_policy.fully_async_main", "recipe.fully_async_policy.fully_async_main", "fully_async"),
        ("recipe.dapo.main_dapo", "recipe.dapo.main_dapo", "recipe"),
        ("train.py", "train", "recipe"),
    ],
)
def test_kinds_of_entries(entry, module, kind):
    assert (module_of(entry), trainer_kind(entry)) == (module, kind)


def test_verls_own_entry_points_are_known_by_table(tmp_path):
    root = find_verl(str(make_verl(tmp_path))).root
    entry = find_entry("verl.trainer.main_ppo", root, [])
    assert (entry.config_path, entry.config_name) == ("config", "ppo_trainer")
    assert entry.folder.join("config").is_file("ppo_trainer.yaml")
    assert find_entry("verl.trainer.fsdp_sft_trainer", root, []) is None
    assert find_entry("verl.trainer.main_ppo", None, []) is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import hydra\n@hydra.main(config_path='conf', config_name='mine')\ndef main(c): ...\n", ("conf", "mine")),
        ("from hydra import main\n@main(config_path='../conf', config_name='mine')\ndef run(c): ...\n", ("../conf", "mine")),
        ("import hydra\n@hydra.main(config_path=None, config_name='mine')\ndef main(c): ...\n", (None, "mine")),
        ("import hydra\n@hydra.main(config_path=WHERE, config_name='mine')\ndef main(c): ...\n", None),
        ("from verl.trainer.main_ppo import main\nmain()\n", None),
        ("def broken(:\n", None),
    ],
)  # fmt: skip
def test_other_modules_are_read_not_run(tmp_path, source, expected):
    module = tmp_path / "recipe/mine/main_mine.py"
    module.parent.mkdir(parents=True)
    module.write_text(source + "open(__file__ + '.ran', 'w')\n")
    for entry in ("recipe.mine.main_mine", "recipe/mine/main_mine.py"):
        found = find_entry(entry, None, [str(tmp_path)])
        assert (None if found is None else (found.config_path, found.config_name)) == expected
    assert os.listdir(module.parent) == ["main_mine.py"]
