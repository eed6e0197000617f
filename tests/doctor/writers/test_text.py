"""The text report: worst first, nothing that drives the terminal, both languages."""

import io

import pytest
from rich.console import Console

from verl_doctor.report import Fix, Location, Message, Report, Result, Severity, sort_results, summarise
from verl_doctor.translation import Translator
from verl_doctor.writers import text


def finding(**details):
    defaults = {
        "code": "DOCTOR001",
        "slug": "check-crashed",
        "severity": Severity.ERROR,
        "state": "fail",
        "message": Message("the check {code} ({slug}) crashed: {reason}", {"code": "X001", "slug": "x", "reason": "boom"}),
        "target": "trainer.logger",
        "source": "override",
        "location": Location("run.sh", 23),
        "evidence": {"seen": "something"},
        "fix": Fix(Message("do {this}", {"this": "that"}), ["verl-doctor --help"]),
    }
    return Result(**(defaults | details))


def report(*results):
    return Report(
        tool_version="1",
        started="2026-01-01T00:00:00+00:00",
        duration_s=0.1,
        jobs=[{"name": "job", "entry": "verl.trainer.main_ppo", "verl": "verl 0.9.1 (installed)"}],
        summary=summarise(list(results)),
        results=sort_results(list(results)),
    )


def written(*results, language="en", verbosity=0, **console):
    stream = io.StringIO()
    text.write(report(*results), Console(file=stream, **console), Translator(language, "verl_doctor_checks"), verbosity)
    return stream.getvalue()


def test_a_finding_says_what_where_and_what_to_do():
    page = written(finding())
    assert "✗ error DOCTOR001 check-crashed" in page
    assert "the check X001 (x) crashed: boom" in page
    assert "trainer.logger  ← override (run.sh:23)" in page
    assert "fix: do that" in page
    assert "      verl-doctor --help" in page
    assert "1 error, 0 warnings, 0 notes; 0 checks passed." in page
    assert "verl-doctor explain DOCTOR001" in page


def test_worst_first():
    page = written(finding(code="A001", severity=Severity.INFO), finding(code="Z001"))
    assert page.index("Z001") < page.index("A001")


def test_chinese():
    page = written(finding(), language="zh")
    assert "✗ 错误 DOCTOR001" in page
    assert "检查 X001(x)崩溃:boom" in page
    assert "修复:" in page


def test_what_could_not_be_decided_is_counted_and_said_once_for_each_cause():
    unknown = [
        finding(code=code, state="unknown", message=None, fix=None, reason=f"{name} is not known: the cluster is remote")
        for code, name in (("A001", "WANDB_MODE"), ("A002", "WANDB_API_KEY"))
    ]
    page = written(*unknown)
    assert "2 could not be decided (-v says why)" in page
    assert "? not decided: the cluster is remote (A001, A002)" in page
    assert "? unknown A002 check-crashed: WANDB_API_KEY is not known: the cluster is remote" in written(*unknown, verbosity=1)


def test_evidence_with_v_and_counts_alone_with_q():
    assert "seen: something" in written(finding(), verbosity=1)
    assert "seen" not in written(finding())
    assert written(finding(), verbosity=-1) == "1 error, 0 warnings, 0 notes; 0 checks passed.\n"


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "\x1b]8;;http://evil\x07", "a\u202eb", "\x00", "\r\r"])
def test_control_characters_are_shown_not_sent(hostile):
    page = written(finding(target=hostile, message=Message("{x}", {"x": hostile})))
    assert hostile not in page
    assert "\\x" in page


@pytest.mark.parametrize("markup", ["[bold]x[/bold]", "[red", ":smile:", "[link=http://x]"])
def test_markup_of_the_terminal_library_is_plain_text(markup):
    assert markup in written(finding(message=Message("{x}", {"x": markup})))


def test_no_colour_when_piped_and_width_of_chinese_is_kept_on_a_terminal():
    assert "\x1b[" not in written(finding())
    long = Message("{x}", {"x": "任务的实验跟踪记录会丢失" * 10})
    lines = written(finding(message=long), force_terminal=True, width=40, color_system=None).splitlines()
    assert all(len(line.encode("gb18030")) <= 40 for line in lines if "跟踪" in line)


def test_a_credential_in_a_value_is_not_written():
    token = "0123456789abcdef0123456789abcdef01234567"
    assert token not in written(finding(message=Message("{x}", {"x": token}), target=token, evidence={"k": token}), verbosity=2)


def test_many_findings_of_one_code_are_folded_unless_asked_for():
    findings = [finding(target=f"key.{number}") for number in range(9)]
    page = written(*findings)
    assert page.count("✗ error DOCTOR001") == 3
    assert "and 6 more of DOCTOR001: key.3, key.4, key.5, key.6, key.7, key.8" in page
    assert written(*findings, verbosity=1).count("✗ error DOCTOR001") == 9
    assert written(*findings[:4]).count("✗ error DOCTOR001") == 4


def test_what_was_left_out_for_one_reason_is_one_line():
    reasons = ("needs wandb_viewer: --offline was given", "needs reachability: needs wandb_viewer: --offline was given")
    page = written(*[finding(code=f"A00{n}", state="skip", message=None, fix=None, reason=r) for n, r in enumerate(reasons)])
    assert page.count("? not decided") == 1
    assert "? not decided: --offline was given (A000, A001)" in page
