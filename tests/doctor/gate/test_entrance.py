"""What the front doors and the hook decide, and the environment that they give back."""

import pytest

from verl_doctor.gate.entrance import find_program, may_start_verl, restored

ROOT = b"/cache/gate-1"


@pytest.mark.parametrize(
    "words",
    [
        "-m verl.trainer.main_ppo",
        "-m verl.trainer.main_ppo trainer.logger=[wandb]",
        "-u -m recipe.dapo.main_dapo",
        "-m verl.experimental.fully_async_policy.fully_async_main",
        "-m cProfile -m verl.trainer.main_ppo",
        "verl/trainer/main_ppo.py",
        "/opt/verl/verl/trainer/fsdp_sft_trainer.py",
        "main_ppo.py",
        "job submit -- bash -c 'cd x; python3 -m verl.trainer.main_ppo'",
        "train.py trainer.logger=[wandb] +data.train_files=x",
        "train.py actor_rollout_ref.model.path=x ++algorithm.adv_estimator=grpo",
        "--standalone -m verl.trainer.sft_trainer",
    ],
)
def test_what_may_be_a_launch_is_looked_at(words):
    assert may_start_verl(words.split())


@pytest.mark.parametrize(
    "words",
    [
        "",
        "-c pass",
        "-m pip install verl==0.9.1",
        "-m http.server",
        "examples/data_preprocess/gsm8k.py --local_dir /data/verl",
        "-m verl.model_merger merge --backend fsdp",
        "train.py trainer.epochs=3",
        "train.py --trainer.logger=x --data.path=y",
        "-m verl_doctor check -- python3 -m verl.trainer.main_ppo",
        "/usr/bin/verl-doctor check trainer.logger=[wandb] data.train_files=x",
    ],
)
def test_what_cannot_be_a_launch_is_let_through_at_once(words):
    assert not may_start_verl(words.split())


@pytest.mark.parametrize(
    ("hook", "before", "line", "after"),
    [
        ("unset", None, "{}", None),
        ("unset", None, "{}:/more", ":/more"),
        ("unset", None, "/more:{}", "/more:"),
        ("unset", None, "/anew", "/anew"),
        ("unset", None, None, None),
        ("unset", None, "", ""),
        ("empty", "", "{}", ""),
        ("empty", "", "/more:{}", "/more:"),
        ("first", "/one", "{}", "/one"),
        ("first", "/one", "/more:{}:/last", "/more:/one:/last"),
        ("first", "/one::/two:", "{}", "/one::/two:"),
        ("first", ":", "{}", ":"),
        ("first", "/one", "{0}:{0}", "/one:/one"),
    ],
)
def test_pythonpath_is_what_the_script_would_have_made_of_it(hook, before, line, after):
    """`line` is what the script sets, `{}` being the variable."""
    gated = f"{ROOT.decode()}/hook/{hook}" + (f":{before}" if before else "")
    environment = {} if line is None else {b"PYTHONPATH": line.format(gated).encode()}
    assert restored(environment, ROOT).get(b"PYTHONPATH") == (None if after is None else after.encode())


@pytest.mark.parametrize(
    ("path", "after"),
    [
        ("{}:/usr/bin:/bin", "/usr/bin:/bin"),
        ("/opt/bin:{}:/usr/bin", "/opt/bin:/usr/bin"),
        ("{}:", ""),
        ("/usr/bin", "/usr/bin"),
        ("{}::/bin:", ":/bin:"),
        ("{}er:/bin", "{}er:/bin"),
    ],
)
def test_path_loses_the_doors_alone(path, after):
    doors = ROOT.decode() + "/bin"
    assert restored({b"PATH": path.format(doors).encode()}, ROOT)[b"PATH"].decode() == after.format(doors)


def test_the_variables_of_the_gate_are_gone_and_all_others_stay():
    environment = {b"VERL_DOCTOR_GATE": b"{}", b"VERL_DOCTOR_SEEN": b"1", b"VERL_DOCTOR_LANG": b"zh", b"\xff": b"\xfe\n"}
    assert restored(environment, ROOT) == {b"VERL_DOCTOR_LANG": b"zh", b"\xff": b"\xfe\n"}


def test_the_program_is_the_next_one_in_path(tmp_path):
    folders = [tmp_path / name for name in ("doors", "folder", "data", "real")]
    for folder in folders:
        folder.mkdir()
    (tmp_path / "doors" / "ray").touch(mode=0o755)
    (tmp_path / "folder" / "ray").mkdir()
    (tmp_path / "data" / "ray").touch(mode=0o644)
    (tmp_path / "real" / "ray").touch(mode=0o755)
    environment = {b"PATH": ":".join(map(str, [tmp_path / "missing", *folders])).encode()}
    found = find_program(b"ray", environment, str(tmp_path / "doors").encode())
    assert found == str(tmp_path / "real" / "ray").encode()
    assert find_program(b"ray", {}) == b""
