"""Every check is held to its own rows: each good row yields nothing, each bad row yields the code."""

import pytest

from verl_doctor.registry import example_facts, load_built_in

REGISTRY = load_built_in()
ROWS = [
    pytest.param(check, row, expected, id=f"{check.code}-{expected}-{number}")
    for check in REGISTRY.checks.values()
    for expected, rows in (("good", check.good), ("bad", check.bad))
    for number, row in enumerate(rows)
]


@pytest.mark.parametrize(("check", "row", "expected"), ROWS)
def test_row(check, row, expected):
    findings = list(check.function(**example_facts(check, REGISTRY, row)))
    texts = [finding.message.text for finding in findings]
    assert bool(findings) == (expected == "bad"), f"{check.code} {expected} row {row}: {texts}"
    for finding in findings:
        assert finding.message.text.strip()
        assert finding.fix is None or finding.fix.message.text.strip()
