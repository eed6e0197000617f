"""`verl-doctor check` as a user runs it: the installed program, its output and its exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "verl_doctor"]
CANARY = "canary0f1e2d3c4b5a69788796a5b4c3d2e1f0"


def doctor(*arguments, env=None, cwd=None, text=True):
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd or "/nonexistent"), "LANG": "C.UTF-8"} | (env or {})
    return subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=text, timeout=60, env=environment, cwd=cwd, check=False
    )


def codes(done):
    return {result["code"] for result in json.loads(done.stdout)["results"] if result["state"] == "fail"}


def test_a_healthy_job_passes(tmp_path):
    done = doctor("check", "logger", "trainer.logger=[console,file]", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "0 errors" in done.stdout


def test_a_wrong_name_fails_with_its_place_and_fix(tmp_path):
    done = doctor("check", "--", "python3", "-m", "verl.trainer.main_ppo", "trainer.logger=[console,wandbb]", cwd=tmp_path)
    assert done.returncode == 1
    assert "VERL001" in done.stdout
    assert '"wandbb"' in done.stdout
    assert "wandb" in done.stdout
    assert "trainer.logger" in done.stdout
    assert done.stderr == ""


def test_json_is_one_document_and_the_status_is_the_same(tmp_path):
    arguments = ["check", "trainer.logger=[console,wandbb]"]
    text, document = doctor(*arguments, cwd=tmp_path), doctor(*arguments, "--format", "json", cwd=tmp_path)
    assert text.returncode == document.returncode == json.loads(document.stdout)["exit_status"] == 1
    assert "VERL001" in codes(document)


def test_chinese_by_option_and_by_locale(tmp_path):
    for done in (
        doctor("check", "trainer.logger=[wandbb]", "--lang", "zh", cwd=tmp_path),
        doctor("check", "trainer.logger=[wandbb]", env={"LANG": "zh_CN.UTF-8"}, cwd=tmp_path),
    ):
        assert "错误" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "wandbb"], "did you mean 'wandb'"),
        (["check", "--skip", "wandbb"], "did you mean 'wandb'"),
        (["check", "--"], "no launch command after '--'"),
        (["check", "--", "ls", "-l"], "ls"),
        (["check", "--config", "no-such.yaml"], "no-such.yaml"),
        (["check", "--env-file", "no-such.env"], "no-such.env"),
        (["check", "--env", "NOVALUE"], "NOVALUE"),
        (["check", "--verl", "/nonexistent/verl"], "/nonexistent/verl"),
        (["check", "--budget", "0"], "budget"),
        (["check", "--no-such-option"], "--no-such-option"),
        (["explain", "wandb-key-mising"], "did you mean WANDB001"),
        (["list", "wandbb"], "no topic"),
        (["chekc"], "chekc"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments, said, tmp_path):
    done = doctor(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


ALIAS_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]" for i in range(12)
)


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x01\x02\xff\xfe binary",
        b"trainer: {logger: [console",
        b"trainer:\n  logger: \xff\xfe",
        b"!!python/object/apply:os.system ['touch executed']",
        b"a: &a [*a]",
        ALIAS_BOMB.encode(),
        b"[" * 20_000,
        b"- just\n- a list\n",
        b"just a string",
        b"x" * 6_000_000,
        b"trainer:\n  logger: a\n  logger: b\n",
    ],
    ids=["binary", "unclosed", "not-utf8", "object", "recursive", "aliases", "deep", "list", "scalar", "huge", "twice"],
)
def test_a_hostile_yaml_is_one_line_and_status_2(content, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    done = doctor("check", "--config", str(path), cwd=tmp_path)
    assert done.returncode == 2
    assert "job.yaml" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "executed").exists()


def test_a_directory_and_an_unreadable_path_as_config(tmp_path):
    for path in (str(tmp_path), "/proc/self/mem", "\udcff.yaml"):
        done = doctor("check", "--config", path, cwd=tmp_path)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_arguments_that_are_no_utf8_are_taken(tmp_path):
    done = doctor("check", b"trainer.experiment_name=\xff\xfe", b"trainer.logger=[console,\xff]", cwd=tmp_path, text=False)
    assert done.returncode in {0, 1}
    assert b"Traceback" not in done.stderr


def test_ten_thousand_overrides_are_refused_or_judged_soon(tmp_path):
    done = doctor("check", *[f"+trainer.x{i}={i}" for i in range(10_000)], cwd=tmp_path)
    assert done.returncode in {0, 1, 2}
    assert "Traceback" not in done.stderr


def test_oc_env_is_evaluated_in_the_jobs_environment_and_nothing_is_executed(tmp_path):
    done = doctor(
        "check", "VERL001", "trainer.logger=[${oc.env:LOGGER}]", "--env", "LOGGER=wandbb", "--format", "json", cwd=tmp_path
    )
    assert "VERL001" in codes(done)


def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    done = subprocess.run(
        f"{sys.executable} -m verl_doctor list | head -1", shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr


SECRET_INPUTS = {
    "override": (["trainer.logger=[wandb]", f"+trainer.wandb_api_key={CANARY}"], {}),
    "unknown key": ([f"trainer.api_key={CANARY}"], {}),
    "broken override": ([f"trainer.api_key=[{CANARY}"], {}),
    "runtime env": ([f"+ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY={CANARY}"], {}),
    "environment": (["trainer.logger=[wandb,swanlab,mlflow]"], {"WANDB_API_KEY": CANARY, "SWANLAB_API_KEY": CANARY}),
    "uri": (["trainer.logger=[mlflow]"], {"MLFLOW_TRACKING_URI": f"postgresql://user:{CANARY}@db/mlflow"}),
    "broken uri": (["trainer.logger=[mlflow]"], {"MLFLOW_TRACKING_URI": f"htp//user:{CANARY}@db"}),
    "proxy": ([f"+trainer.wandb_proxy=user:{CANARY}@proxy:3128"], {"HTTPS_PROXY": f"http://u:{CANARY}@p:1"}),
    "env option": (["--env", f"WANDB_API_KEY={CANARY}"], {}),
    "bad env option": (["--env", f"bad name: WANDB_API_KEY={CANARY}"], {}),
    "command": (["--", "env", f"WANDB_API_KEY={CANARY}", "python3", "-m", "verl.trainer.main_ppo"], {}),
    "no launch": (["--", "env", f"WANDB_API_KEY={CANARY}", "ls"], {}),
    "ray json": (
        ["--", "ray", "job", "submit", "--runtime-env-json", json.dumps({"env_vars": {"WANDB_API_KEY": CANARY}}), "--",
         "python3", "-m", "verl.trainer.main_ppo"], {}),
    "broken ray json": (
        ["--", "ray", "job", "submit", "--runtime-env-json", '{"env_vars": {"WANDB_API_KEY": "' + CANARY, "--", "python3", "-m",
         "verl.trainer.main_ppo"], {}),
    "resolver": (["trainer.experiment_name=${oc.env:WANDB_API_KEY}"], {"WANDB_API_KEY": CANARY}),
    "base url": (["trainer.logger=[wandb]"], {"WANDB_BASE_URL": f"https://u:{CANARY}@host"}),
}  # fmt: skip


@pytest.mark.parametrize("where", SECRET_INPUTS)
@pytest.mark.parametrize("shown", [["-vv"], ["--format", "json"], ["--lang", "zh", "-v"]], ids=["text", "json", "zh"])
def test_a_credential_appears_in_no_output(where, shown, tmp_path):
    arguments, environment = SECRET_INPUTS[where]
    done = doctor("check", *shown, *arguments, env=environment, cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert CANARY not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["job.yaml", "job.env", "runtime.yaml", "netrc"])
def test_a_credential_in_a_file_appears_in_no_output(name, tmp_path):
    (tmp_path / "job.yaml").write_text(f"trainer:\n  logger: [wandb]\n  wandb_api_key: {CANARY}\n")
    (tmp_path / "job.env").write_text(f"WANDB_API_KEY={CANARY}\nexport BROKEN {CANARY}\n")
    (tmp_path / "runtime.yaml").write_text(f"env_vars:\n  WANDB_API_KEY: {CANARY}\n")
    (tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {CANARY} broken\n")
    launch = ["--", "ray", "job", "submit", "--runtime-env", "runtime.yaml", "--", "python3", "-m", "verl.trainer.main_ppo"]
    arguments = {
        "job.yaml": ["--config", "job.yaml"],
        "job.env": ["--env-file", "job.env"],
        "runtime.yaml": launch,
        "netrc": [],
    }
    for shown in (["-vv"], ["--format", "json"]):
        done = doctor("check", *shown, *arguments[name], cwd=tmp_path)
        assert "Traceback" not in done.stderr
        assert CANARY not in done.stdout + done.stderr


def test_nothing_is_left_behind(tmp_path):
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir()
    work.mkdir()
    for arguments in (
        ["check", "trainer.logger=[console,wandb,mlflow,swanlab,tensorboard,file,trackio]"],
        ["check", "--format", "json"],
    ):
        doctor(*arguments, env={"HOME": str(home)}, cwd=work)
    assert list(home.rglob("*")) == []
    assert list(work.rglob("*")) == []


def test_the_example_of_the_readme_is_healthy_with_one_warning(tmp_path):
    example = Path(__file__).parents[3] / "examples" / "grpo_gsm8k.sh"
    elsewhere = {"PATH": "/nonexistent"}  # the python3 of the script is not the one of this test
    done = doctor("check", "logger", "--script", str(example), "--format", "json", env=elsewhere, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert [r["code"] for r in report["results"] if r["state"] == "fail" and r["severity"] == "warning"] == ["VERL015"]
