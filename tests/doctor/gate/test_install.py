"""Where the doors are put, and that nobody else can change them."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.gate import install as installation
from verl_doctor.gate.install import gated, install


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    return {b"PATH": os.fsencode(tmp_path / "bin")}


def files(root):
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def test_only_programs_that_exist_get_a_door(cache, path):
    root = install(path)
    assert [door.name for door in (root / "bin").iterdir()] == ["python3"]
    assert root.parent == cache / "verl-doctor"


def test_the_same_doors_are_used_again_and_repaired(cache, path):
    root = install(path)
    before = files(root)
    inode = (root / "bin" / "python3").stat().st_ino
    assert install(path) == root
    assert (root / "bin" / "python3").stat().st_ino == inode
    (root / "bin" / "python3").write_text("#!/bin/sh\necho wrong\n")
    (root / "hook" / "first" / "sitecustomize.py").unlink()
    install(path)
    assert files(root) == before
    assert len(list(root.parent.iterdir())) == 1


def test_others_may_not_enter(cache, path):
    root = install(path)
    assert stat.S_IMODE(root.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "bin" / "python3").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "judge.py").stat().st_mode) == 0o600


def test_a_folder_that_others_can_write_to_is_not_used(cache, path, tmp_path, monkeypatch):
    (cache / "verl-doctor").mkdir(parents=True)
    (cache / "verl-doctor").chmod(0o777)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert install(path).is_relative_to(tmp_path / "home" / ".cache" / "verl-doctor")
    (tmp_path / "home" / ".cache" / "verl-doctor").chmod(0o720)
    (tmp_path / "file").touch()
    monkeypatch.setattr(installation.tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    with pytest.raises(BadInput, match="others can write there"):
        install(path)


def test_a_link_in_place_of_the_folder_is_not_followed(cache, path, tmp_path, monkeypatch):
    (tmp_path / "trap").mkdir(mode=0o700)
    cache.mkdir()
    (cache / "verl-doctor").symlink_to(tmp_path / "trap")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert install(path).is_relative_to(tmp_path / "home")
    assert list((tmp_path / "trap").iterdir()) == []


def test_a_python_whose_path_no_first_line_can_hold(cache, path, tmp_path, monkeypatch):
    folder = tmp_path / ("with blank " + "x" * 120)
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    short = Path(os.path.realpath("/tmp")) / f"verl-doctor-test-{os.getpid()}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(short))
    try:
        root = install(path)
        environment = gated(path, {})
        done = subprocess.run(
            [root / "bin" / "python3", "-c", "print(1)"], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "1\n"
    finally:
        subprocess.run(["rm", "-r", str(short)], check=True)


def test_a_place_with_a_blank_is_refused_when_it_matters(path, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a blank"))
    root = install(path)
    environment = gated(path, {})
    done = subprocess.run([root / "bin" / "python3", "-c", "print(1)"], env=environment, capture_output=True, check=True)
    assert done.stdout == b"1\n"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "another blank" / "python"))
    with pytest.raises(BadInput, match="XDG_CACHE_HOME"):
        install(path)


def test_a_gate_in_a_gate_takes_the_place_of_the_first(cache, path):
    once = gated(path, {"fail_on": "error"})
    twice = gated(once, {"fail_on": "warning"})
    assert twice.keys() == once.keys()
    assert twice[b"PATH"] == once[b"PATH"]
    assert twice[b"PYTHONPATH"] == once[b"PYTHONPATH"]
    assert json.loads(twice[b"VERL_DOCTOR_GATE"])["fail_on"] == "warning"


def test_without_path_there_is_the_hook_alone(cache):
    assert gated({}, {}).keys() == {b"PYTHONPATH", b"VERL_DOCTOR_GATE"}
