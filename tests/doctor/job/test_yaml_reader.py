"""YAML is read as OmegaConf reads it, within limits, and every refusal names the file, the line and the remedy."""

import importlib.util
import time
from pathlib import Path

import pytest
import yaml
from omegaconf._utils import get_yaml_loader

from verl_doctor.errors import BadInput
from verl_doctor.job.yaml_reader import MAX_BYTES, parse_yaml

TEXTS = [
    "a: 1e5\nb: 2025_1\nc: 2001-01-01\nd: yes\ne: 0o17\nf: 1_0.5\ng: .5\nh: 12:30:45\ni: ~\nj: '1'\nk: 0x1F\nl: 1.e3\n",
    "a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  k: 2\n",
    "- 1\n- a\n",
    "",
    "a: |\n  text\n  more\nb: >-\n  folded\n  text\n",
    "a: [1, 2, {b: c}]\n",
    "? a\n: b\n",
    "a: '中文'\nb: \"\\u4e2d\"\n",
    "\ufeffa: 1\n",
    "a: b: c\n".replace("b: c", "'b: c'"),
    "a: -.inf\nb: .nan\n",
    "1: a\ntrue: b\n",
]


EXPLODING = b"x0: &x0 [1, 2]\n" + b"".join(
    b"x%d: &x%d [%s]\n" % (n, n, b", ".join([b"*x%d" % (n - 1)] * 9)) for n in range(1, 9)
)
"""Small until its aliases are expanded."""


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right or left != left


@pytest.mark.parametrize("text", TEXTS)
def test_reads_what_omegaconf_reads(text):
    assert same(parse_yaml(text.encode(), "f.yaml").data, yaml.load(text.removeprefix("\ufeff"), Loader=get_yaml_loader()))


def test_reads_verls_own_files_as_omegaconf_does():
    spec = importlib.util.find_spec("verl")
    if spec is None:
        pytest.skip("verl is not installed: pip install --no-deps verl==0.9.1")
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("config/**/*.yaml"))
    assert len(files) > 20
    for file in files[:: max(1, len(files) // 12)]:
        text = file.read_bytes()
        assert same(parse_yaml(text, file.name).data, yaml.load(text.decode(), Loader=get_yaml_loader())), file


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (b"a: 1\nb: 2\na: 3\n", 3, "duplicate key a"),
        (b"a: [1\n", 2, "not valid YAML"),
        (b"a: 1\nb: \xff\n", 2, "not UTF-8"),
        (b"x: 1\na: !!python/object:os.system x\n", 2, "remove the tag"),
        (b"a: &a\n  b: *a\n", 1, "alias refers to the value that holds it"),
        (b"[" * 100_000, 1, "nested too deeply"),
        (b"a: " + b"{a: " * 70 + b"1" + b"}" * 70, 1, "nested deeper"),
        (b"\n".join(b" " * n + b"a:" for n in range(3000)), None, "nested too deeply"),
        (EXPLODING, None, "aliases"),
        (b"a: " + b"9" * 5000, None, "cannot be read"),
        (b"a: \x07", None, "not valid YAML"),
        (b"x" * (MAX_BYTES + 1), None, "5 MB"),
    ],
)  # fmt: skip
def test_refusals_are_one_line_and_quick(text, line, message):
    begun = time.process_time()
    with pytest.raises(BadInput, match=message) as refused:
        parse_yaml(text, "job.yaml")
    assert time.process_time() - begun < 2
    assert str(refused.value).startswith(f"job.yaml:{line}:" if line else "job.yaml:")
    assert "\n" not in str(refused.value)


def test_lines_of_keys():
    document = parse_yaml(b"trainer:\n  logger:\n    - a\n  nested: {x: 1,\n    y: 2}\n  empty: {}\nz: 1\n", "f.yaml")
    assert document.line_of(("trainer", "logger")) == 2
    assert document.line_of(("trainer", "nested", "y")) == 5
    assert document.line_of(("trainer", "nope")) is None
    assert document.line_of(("z", "below")) is None
    assert dict(document.leaf_lines()) == {
        ("trainer", "logger"): 2,
        ("trainer", "nested", "x"): 4,
        ("trainer", "nested", "y"): 5,
        ("trainer", "empty"): 6,
        ("z",): 7,
    }
