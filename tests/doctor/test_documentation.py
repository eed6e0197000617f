"""What is generated from the checks is up to date."""

from pathlib import Path

import pytest

from verl_doctor.documentation import REGENERATE, generate

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted(generate(ROOT)), ids=lambda path: path.name)
def test_generated_file_is_current(path):
    assert path.exists(), f"{path.name} is missing: run `{REGENERATE}`"
    assert path.read_text(encoding="utf-8") == generate(ROOT)[path], f"{path.name} is out of date: run `{REGENERATE}`"
