"""The JSON report holds to its published schema, whatever the strings are."""

import json
from pathlib import Path

import jsonschema
import pytest

from verl_doctor.report import FactTiming, Fix, Location, Message, Report, Result, Severity, summarise
from verl_doctor.writers import json as json_writer

SCHEMA = json.loads((Path(json_writer.__file__).parents[1] / "report.schema.json").read_text(encoding="utf-8"))


def report(text="x", **details):
    result = Result(
        code="DEMO001",
        slug="demo-one",
        severity=Severity.WARNING,
        state="fail",
        job=text,
        message=Message("{x}", {"x": text}),
        target=text,
        source=text,
        location=Location("run.sh", 2, 3),
        evidence={"k": text, "list": [1, None, text]},
        fix=Fix(Message("do {x}", {"x": text}), [text]),
        **details,
    )
    return Report(
        tool_version="1",
        started="2026-01-01T00:00:00+00:00",
        duration_s=0.12345,
        jobs=[{"name": text}],
        notices=[Message("n {x}", {"x": text})],
        summary=summarise([result]),
        results=[result],
        facts=[FactTiming(name="job", state="gathered", duration_s=0.1)],
    )


@pytest.mark.parametrize("text", ["x", "任务", "\x1b[31m\x00\n\r", "\udc80\udcff", "]]>::error::", "a" * 1_000_000, '"\\'])
def test_any_text_gives_a_document_that_holds_to_the_schema(text):
    written = json_writer.write(report(text))
    document = json.loads(written.encode("utf-8"))
    jsonschema.validate(document, SCHEMA)
    assert document["results"][0]["location"] == {"file": "run.sh", "line": 2, "column": 3}
    assert document["summary"]["warnings"] == 1


def test_messages_are_texts_and_the_fix_has_its_commands():
    result = json.loads(json_writer.write(report("wandb")))["results"][0]
    assert result["message"] == "wandb"
    assert result["fix"] == {"text": "do wandb", "commands": ["wandb"]}
    assert len(result["fingerprint"]) == 16


def test_no_credential_is_written():
    token = "0123456789abcdef0123456789abcdef01234567"
    assert token not in json_writer.write(report(token))
