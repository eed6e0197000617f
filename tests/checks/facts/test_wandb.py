import os
import re
from pathlib import Path

import pytest

from verl_doctor.api import Environment, Job, Variable
from verl_doctor_checks.facts.wandb import WandbFiles, WandbLogin, wandb_files, wandb_login

KEY = "k" * 40


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def job_in(directory):
    return Job.example({"directory": str(directory)})


def environment_of(home, **variables):
    return Environment.example({"HOME": str(home)} | variables)


def write(path, text, mode=0o600):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_the_netrc_of_the_home_is_read_without_keeping_the_key(home, tmp_path):
    path = write(home / ".netrc", f"machine api.wandb.ai\n  login user\n  password {KEY}\n")
    login = wandb_login(job_in(tmp_path), environment_of(home))
    assert (login.path, list(login.keys), login.problem, login.readable_by_others) == (str(path), ["api.wandb.ai"], "", False)
    assert login.keys["api.wandb.ai"].length == 40
    assert KEY not in repr(login)


def test_the_other_name_of_netrc_and_the_variable(home, tmp_path):
    write(home / "_netrc", f"machine a login u password {KEY}\n")
    assert list(wandb_login(job_in(tmp_path), environment_of(home)).keys) == ["a"]
    write(home / ".netrc", f"machine b login u password {KEY}\n")
    assert list(wandb_login(job_in(tmp_path), environment_of(home)).keys) == ["b"]
    write(tmp_path / "work" / "c", f"machine c login u password {KEY}\n")
    assert list(wandb_login(job_in(tmp_path / "work"), environment_of(home, NETRC="c")).keys) == ["c"]
    write(home / "d", f"machine d login u password {KEY}\n")
    assert list(wandb_login(job_in(tmp_path), environment_of(home, NETRC="~/d")).keys) == ["d"]


def test_no_netrc(home, tmp_path):
    assert wandb_login(job_in(tmp_path), environment_of(home)) == WandbLogin()


def test_a_syntax_error_is_told_by_line_and_never_quotes_the_file(home, tmp_path):
    write(home / ".netrc", f"machine api.wandb.ai\n  login user\n  password {KEY}\n  {KEY}x\n")
    login = wandb_login(job_in(tmp_path), environment_of(home))
    assert re.fullmatch(r"syntax error on line \d+", login.problem)
    assert not login.keys
    assert KEY not in repr(login)


def test_a_file_that_others_may_read(home, tmp_path):
    write(home / ".netrc", f"machine api.wandb.ai login user password {KEY}\n", mode=0o644)
    assert wandb_login(job_in(tmp_path), environment_of(home)).readable_by_others


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_something_else_than_a_file_does_not_hang(home, tmp_path, make):
    make(home / ".netrc")
    assert wandb_login(job_in(tmp_path), environment_of(home)).problem == "it is not a regular file"


def test_a_huge_file_and_a_binary_one_are_left_alone(home, tmp_path):
    write(home / ".netrc", "#" * 300_000)
    assert wandb_login(job_in(tmp_path), environment_of(home)).problem == "it is too large to be what it should be"
    (home / ".netrc").write_bytes(b"\xff\xfe\x00")
    assert wandb_login(job_in(tmp_path), environment_of(home)).problem == "it is not UTF-8 text"


def test_nothing_is_looked_at_when_the_loggers_run_elsewhere(home, tmp_path):
    write(home / ".netrc", f"machine api.wandb.ai login user password {KEY}\n")
    environment = environment_of(home, unseen="the cluster runs elsewhere")
    assert wandb_login(job_in(tmp_path), environment) == WandbLogin(unseen="the cluster runs elsewhere")
    assert wandb_files(job_in(tmp_path), environment) == WandbFiles(unseen="the cluster runs elsewhere")


def test_a_home_that_is_not_known(tmp_path):
    environment = Environment.example({})
    source = Environment.example({"HOME": "x"}).variables["HOME"].source
    environment.variables["HOME"] = Variable("HOME", "", source, "it is set by a command")
    assert wandb_login(job_in(tmp_path), environment).unseen == "HOME is not known: it is set by a command"


def test_settings_files_come_weakest_first(home, tmp_path):
    user = write(home / ".config/wandb/settings", f"[default]\nbase_url = https://w.example.com\napi_key = {KEY}\n")
    here = write(tmp_path / "work/wandb/settings", "[default]\nMode = offline\n\n[other]\nmode = online\n")
    files = wandb_files(job_in(tmp_path / "work"), environment_of(home))
    assert [file.path for file in files.settings] == [str(user), str(here)]
    assert files.settings[1].values == {"mode": "offline"}
    assert files.settings[0].values["base_url"] == "https://w.example.com"
    assert KEY not in repr(files)


def test_the_folders_that_variables_name(home, tmp_path):
    config = write(tmp_path / "config/settings", "[default]\nentity = a\n")
    hidden = write(tmp_path / "runs/.wandb/settings", "[default]\nmode = offline\n")
    write(tmp_path / "runs/wandb/settings", "[default]\nmode = online\n")
    files = wandb_files(job_in(tmp_path), environment_of(home, WANDB_CONFIG_DIR="config", WANDB_DIR="runs"))
    assert [file.path for file in files.settings] == [str(config), str(hidden)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mode = offline\n", "missing section header error"),
        ("[default]\nmode = a\nmode = b\n", "duplicate option error"),
        (f"[default]\n{KEY}\n", "parsing error"),
        ("[default]\nhttps_proxy = http://u:50%x@p\n", "interpolation syntax error"),
    ],
)
def test_a_settings_file_that_cannot_be_read(home, tmp_path, text, problem):
    write(tmp_path / "wandb/settings", text)
    files = wandb_files(job_in(tmp_path), environment_of(home))
    assert [(file.values, file.problem) for file in files.settings] == [({}, problem)]
    assert KEY not in repr(files)


def test_a_module_that_hides_wandb(home, tmp_path):
    (tmp_path / "wandb").mkdir()
    assert wandb_files(job_in(tmp_path), environment_of(home)).hidden_by == ""
    write(tmp_path / "wandb/__init__.py", "")
    assert wandb_files(job_in(tmp_path), environment_of(home)).hidden_by == str(tmp_path / "wandb/__init__.py")
    write(tmp_path / "wandb.py", "")
    assert wandb_files(job_in(tmp_path), environment_of(home)).hidden_by == str(tmp_path / "wandb.py")
    (tmp_path / "wandb/sdk").mkdir()
    assert wandb_files(job_in(tmp_path), environment_of(home)).hidden_by == "", "a checkout of wandb itself"


def test_what_variables_point_to(home, tmp_path):
    token = write(tmp_path / "token", "x")
    live = environment_of(home, WANDB_IDENTITY_TOKEN_FILE="token", WANDB_SERVICE=f"3-1-unix-{token}")
    files = wandb_files(job_in(tmp_path), live)
    assert (files.identity_token_missing, files.service_socket_gone) == (False, False)
    dead = environment_of(home, WANDB_IDENTITY_TOKEN_FILE="no-token", WANDB_SERVICE="3-1-unix-/no/such")
    files = wandb_files(job_in(tmp_path), dead)
    assert (files.identity_token_missing, files.service_socket_gone) == (True, True)
    files = wandb_files(job_in(tmp_path), environment_of(home, WANDB_SERVICE="3-1-tcp-localhost-5"))
    assert (files.identity_token_missing, files.service_socket_gone) == (False, False)
