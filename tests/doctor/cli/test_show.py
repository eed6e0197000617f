"""`verl-doctor show job` as a user runs it."""

import json
import os
import pty
import subprocess
import sys

import jsonschema
import pytest

from verl_doctor.job.summary import schema
from verl_doctor.translation import read_texts

CANARY = "canary0f1e2d3c4b5a69788796a5b4c3d2e1f0"
LAUNCH = ["python3", "-m", "verl.trainer.main_ppo"]


def show(*arguments, env=None, cwd=None):
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd or "/nonexistent"), "LANG": "C.UTF-8"} | (env or {})
    return subprocess.run(
        [sys.executable, "-m", "verl_doctor", "show", "job", *arguments],
        capture_output=True, text=True, timeout=60, env=environment, cwd=cwd, check=False,
    )  # fmt: skip


def job(*arguments, **more):
    done = show("--format", "json", *arguments, **more)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema())
    return document["jobs"][0]


def named(values, name):
    return next((value for value in values if value["name"] == name), None)


def read(terminal):
    try:
        return terminal.read(65536)
    except OSError:  # the other end is closed
        return b""


def test_a_launch_shows_its_entry_its_values_and_where_they_came_from(tmp_path):
    found = job("--", "env", "WANDB_MODE=offline", *LAUNCH, "trainer.logger=[console,wandb]", cwd=tmp_path)
    assert (found["entry"], found["kind"], found["launchers"]) == ("verl.trainer.main_ppo", "ppo", ["env", "python3"])
    assert found["directory"] == str(tmp_path)
    logger = named(found["settings"], "trainer.logger")
    assert (logger["value"], logger["source_kind"]) == (["console", "wandb"], "override")
    assert named(found["settings"], "trainer.test_freq")["source_kind"] in {"verl-default", "built-in"}
    mode = named(found["environment"], "WANDB_MODE")
    assert (mode["value"], mode["source_kind"]) == ("offline", "command")


def test_overrides_alone_and_a_configuration_file_with_lines(tmp_path):
    (tmp_path / "job.yaml").write_text("trainer:\n  logger: [console]\n  project_name: mine\n")
    found = job("trainer.experiment_name=one", "--config", "job.yaml", cwd=tmp_path)
    assert named(found["settings"], "trainer.experiment_name")["value"] == "one"
    project = named(found["settings"], "trainer.project_name")
    assert project["value"] == "mine"
    assert (project["location"]["file"], project["location"]["line"]) == ("job.yaml", 3)


def test_replaced_and_refused_overrides(tmp_path):
    found = job("trainer.project_name=a", "trainer.project_name=b", "trainer.logger=[console", cwd=tmp_path)
    assert named(found["settings"], "trainer.project_name")["value"] == "b"
    assert [(value["name"], value["value"]) for value in found["shadowed"]] == [("trainer.project_name", "a")]
    assert [refused["override"] for refused in found["refused"]] == ["trainer.logger=[console"]


def test_what_is_unknown_says_why(tmp_path):
    found = job("trainer.experiment_name=${oc.env:NO_SUCH}", cwd=tmp_path)
    name = named(found["settings"], "trainer.experiment_name")
    assert name["value"] is None
    assert "NO_SUCH" in name["unknown"]
    text = show("trainer.experiment_name=${oc.env:NO_SUCH}", cwd=tmp_path).stdout
    assert "Not known" in text
    assert text.count("NO_SUCH") >= 1


def test_variables_that_do_not_get_to_the_logging_process(tmp_path):
    arguments = ["--", "ray", "job", "submit", "--address", "http://head:8265", "--", *LAUNCH]
    environment = {"WANDB_MODE": "offline", "UNRELATED": "1", "https_proxy": "http://p:3128"}
    found = job(*arguments, env=environment, cwd=tmp_path)
    assert {"WANDB_MODE", "https_proxy"} <= {value["name"] for value in found["left_behind"]}
    assert "Ray" in found["unseen"]
    assert named(found["environment"], "WANDB_MODE") is None
    assert named(found["left_behind"], "UNRELATED") is None
    text = show(*arguments, env=environment, cwd=tmp_path).stdout
    assert "Variables of the shell that do not get there" in text
    assert found["unseen"] in text


def test_each_value_is_one_line_in_a_file_and_nothing_is_cut(tmp_path):
    name = "x" * 300
    lines = show(f"trainer.experiment_name={name}", f"trainer.project_name={name}", cwd=tmp_path).stdout.splitlines()
    rows = {line.split()[0]: line.split()[1] for line in lines if line.startswith("trainer.")}
    assert rows["trainer.project_name"] == rows["trainer.experiment_name"] == name
    assert all(line == line.rstrip() for line in lines)


def test_on_a_terminal_it_is_a_table_of_its_width(tmp_path):
    parent, child = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "COLUMNS": "70", "TERM": "xterm"}
    command = [
        sys.executable,
        "-m",
        "verl_doctor",
        "show",
        "job",
        "trainer.logger=[console]",
        "trainer.project_name=" + "x" * 90,
    ]
    process = subprocess.Popen(command, stdout=child, stdin=child, stderr=child, env=environment, cwd=tmp_path)
    os.close(child)
    with open(parent, "rb", buffering=0) as terminal:
        output = b"".join(iter(lambda: read(terminal), b""))
    assert process.wait(timeout=60) == 0
    table = output.decode().split("Configuration that matters")[1].split("Environment of")[0]
    assert table.replace("\r\n", "").count("x") >= 90
    assert "\x1b[" in table


def test_chinese(tmp_path):
    text = show("trainer.logger=[console]", "--lang", "zh", cwd=tmp_path).stdout
    assert read_texts("verl_doctor", "zh", "interface")["Configuration that matters to tracking"] in text
    assert "Configuration that matters" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wandb"], "'wandb' is no override"),
        (["--", "ls", "-l"], "ls"),
        (["--config", "no-such.yaml"], "no-such.yaml"),
        (["--env", "NOVALUE"], "NOVALUE"),
        (["--"], "no launch command"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments, said, tmp_path):
    done = show(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize("shown", [[], ["--format", "json"]], ids=["text", "json"])
def test_a_credential_and_a_control_character_appear_nowhere(shown, tmp_path):
    done = show(
        *shown,
        f"+trainer.wandb_api_key={CANARY}",
        f"+trainer.wandb_proxy=http://user:{CANARY}@proxy:1",
        "trainer.project_name=a\x1b[31mb",
        "--env", f"WANDB_API_KEY={CANARY}",
        "--env", f"MLFLOW_TRACKING_URI=http://u:{CANARY}@host",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    assert "wandb_api_key" in done.stdout
    assert CANARY not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout
