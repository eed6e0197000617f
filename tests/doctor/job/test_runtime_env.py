from __future__ import annotations

import json
from pathlib import Path

import pytest

from verl_doctor.errors import BadInput
from verl_doctor.job.runtime_env import read_runtime_env_file, read_runtime_env_json
from verl_doctor.report import Location
from verl_doctor.secrets import Secret

KEY = "0f1e2d3c" * 5


def write(folder: Path, text: str | bytes, name: str = "env.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_reads_what_ray_reads(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "working_dir: ./\nexcludes: ['/.git/']\nenv_vars:\n"
        f"  # comment\n  TORCH_NCCL_AVOID_RECORD_STREAMS: '1'\n  WANDB_API_KEY: {KEY}\n  'WANDB_MODE': \"offline\"\n",
    )
    found = read_runtime_env_file(str(path))
    assert found.working_dir == "./"
    assert list(found.variables) == ["TORCH_NCCL_AVOID_RECORD_STREAMS", "WANDB_API_KEY", "WANDB_MODE"]
    assert found.variables["WANDB_MODE"].value == "offline"
    assert found.variables["WANDB_MODE"].source.location == Location(str(path), 7)
    assert isinstance(found.variables["WANDB_API_KEY"].value, Secret)
    assert KEY not in repr(found)


def test_relative_path_is_relative_to_the_directory(tmp_path: Path) -> None:
    write(tmp_path, "env_vars: {A: b}")
    found = read_runtime_env_file("env.yaml", str(tmp_path))
    assert found.variables["A"].source.location == Location("env.yaml", 1)


@pytest.mark.parametrize("value", ["${HOME}/x", "$HOME", "a:${PATH}", "${undefined}"])
def test_what_the_node_expands_is_unknown(value: str) -> None:
    found = read_runtime_env_json(json.dumps({"env_vars": {"A": value, "B": "100$", "C": "a$ b"}}))
    assert "what the node has" in found.variables["A"].unknown
    assert not found.variables["B"].unknown
    assert not found.variables["C"].unknown


@pytest.mark.parametrize("text", ["", "# nothing\n", "env_vars:\n", "env_vars: {}\n", "{}", "pip: []"])
def test_nothing_given(tmp_path: Path, text: str) -> None:
    found = read_runtime_env_file(str(write(tmp_path, text)))
    assert (found.variables, found.installs) == ({}, [])


def test_packages_of_its_own(tmp_path: Path) -> None:
    assert read_runtime_env_file(str(write(tmp_path, "pip: [wandb]\nimage_uri: x\n"))).installs == ["pip", "image_uri"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("env_vars:\n  A: 1\n", "line 2: 'A' in 'env_vars' is int"),
        ("env_vars:\n  A: 'x'\n  B: true\n", "line 3: 'B' in 'env_vars' is bool"),
        ("env_vars:\n  A:\n", "line 2: 'A' in 'env_vars' is NoneType"),
        ("env_vars:\n  1: x\n", "line 2: '1'"),
        ("env_vars:\n  A: [x]\n", "is list"),
        ("env_vars: [A]\n", "'env_vars' is list"),
        ("- a\n", "holds list"),
        ("text", "holds str"),
        ("env_vars:\n  A: 'x\n", "is not YAML"),
        ("a: b: c\n", "line 1, is not YAML"),
        ("a: !!python/object/apply:os.system [true]\n", "is not YAML"),
        ("a: *nothing\n", "is not YAML"),
        ("[" * 100_000, "nested too deeply"),
        (b"a: \xff\n", "line 1: not UTF-8"),
        (b"a: 1\n\x00", "is not YAML"),
        ("a: " + "x" * 1_000_001, "larger than 1 MB"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_files_are_named_with_their_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        read_runtime_env_file("env.yaml", str(tmp_path))
    message = str(caught.value)
    assert says in message
    assert path.name in message
    assert "\n" not in message


def test_aliases_that_multiply_do_no_harm(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    found = read_runtime_env_file(str(write(tmp_path, "\n".join([*lines, "env_vars: {A: b}"]))))
    assert found.variables["A"].value == "b"


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_unreadable_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_runtime_env_file(name, str(tmp_path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[]", "holds list"),
        ('{"env_vars": {"A": 1}}', "'A' in 'env_vars' is int"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": "' + "x" * 1_000_001 + '"}', "larger than 1 MB"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_json(text: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_runtime_env_json(text)
    assert says in str(caught.value)


def test_messages_hold_no_value(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_runtime_env_json('{"env_vars": {"WANDB_API_KEY": ["' + KEY + '"]}}')
    assert KEY not in str(caught.value)
    with pytest.raises(BadInput) as caught:
        read_runtime_env_file(str(write(tmp_path, f"env_vars:\n  WANDB_API_KEY: {KEY}: {KEY}\n")))
    assert KEY not in str(caught.value)
