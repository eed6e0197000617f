"""`--wait` and `--timeout` as a user gives them."""

import os
import subprocess
import sys
import time

import pytest


def doctor(folder, *arguments, **variables):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"} | variables
    command = [sys.executable, "-m", "verl_doctor", "check", "network", "trainer.logger=[mlflow]", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=folder, check=False)


def test_the_notice_goes_to_stderr(tmp_path, closed_port):
    done = doctor(tmp_path, "--wait", "1s", MLFLOW_TRACKING_URI=f"http://127.0.0.1:{closed_port}")
    assert done.returncode == 1
    assert "verl-doctor: waiting for MLFLOW" in done.stderr
    assert "waiting" not in done.stdout


def test_a_short_timeout_for_each_server(tmp_path, black_hole):
    begun = time.monotonic()
    done = doctor(tmp_path, "--timeout", "0.5", MLFLOW_TRACKING_URI=f"http://127.0.0.1:{black_hole}")
    assert done.returncode == 1
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize("arguments", [("--wait", "soon"), ("--wait", "5d"), ("--timeout", "0"), ("--timeout", "long")])
def test_wrong_values_are_one_line_and_status_2(arguments, tmp_path):
    done = doctor(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
