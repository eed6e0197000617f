"""Results in order, counted, and turned into an exit status."""

import pytest

from verl_doctor.report import Location, Message, Result, Severity, exit_status, sort_results, summarise


def result(code="DEMO001", severity=Severity.ERROR, state="fail", **details):
    return Result(code=code, slug=code.lower(), severity=severity, state=state, **details)


@pytest.mark.parametrize(
    ("results", "options", "status"),
    [
        ([], {}, 0),
        ([result(state="pass")], {}, 0),
        ([result()], {}, 1),
        ([result(severity=Severity.WARNING)], {}, 0),
        ([result(severity=Severity.WARNING)], {"fail_on": Severity.WARNING}, 1),
        ([result(state="skip", essential=True)], {}, 3),
        ([result(state="skip", essential=True)], {"allow_incomplete": True}, 0),
        ([result(state="skip", essential=True, severity=Severity.WARNING)], {}, 0),
        ([result(state="skip")], {}, 0),
        ([result(state="unknown")], {}, 0),
        ([result(state="unknown", essential=True)], {}, 3),
        ([result(state="crash")], {}, 3),
        ([result(), result(state="crash")], {}, 1),
    ],
)
def test_exit_status(results, options, status):
    assert exit_status(results, **options) == status


def test_worst_first_then_code_then_place():
    rows = [
        result("B001", Severity.INFO),
        result("A001", Severity.WARNING, location=Location("run.sh", 9)),
        result("A001", Severity.WARNING, location=Location("run.sh", 2)),
        result("Z001", Severity.ERROR),
        result("A000", state="pass"),
    ]
    assert [(row.code, row.location and row.location.line) for row in sort_results(rows)] == [
        ("Z001", None),
        ("A001", 2),
        ("A001", 9),
        ("B001", None),
        ("A000", None),
    ]


def test_counts():
    summary = summarise(
        [result(), result(severity=Severity.INFO), result(state="pass"), result(state="unknown"), result(state="crash")]
    )
    assert (summary.errors, summary.warnings, summary.infos, summary.passed, summary.unknown, summary.crashed) == (
        1,
        0,
        1,
        1,
        1,
        1,
    )


def test_the_fingerprint_survives_a_moved_line_and_another_value():
    first = result(message=Message("{n} too large", {"n": 1}), target="trainer.x", location=Location("run.sh", 1))
    moved = result(message=Message("{n} too large", {"n": 2}), target="trainer.x", location=Location("run.sh", 7))
    other = result(message=Message("{n} too large", {"n": 1}), target="trainer.y")
    assert first.fingerprint == moved.fingerprint != other.fingerprint
