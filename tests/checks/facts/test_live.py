"""What is sent and what comes back in a live run, without any tracker's client."""

import math
import sys
import time
from pathlib import Path

import pytest

from verl_doctor.api import Environment, Source, Undetermined, Variable
from verl_doctor.stores.child import ask_python
from verl_doctor_checks.facts import live, live_script

SENT = live.steps()
BACK = {key: {str(step): data[key] for step, data in SENT.items()} for key in SENT[1]}


def without(key, step):
    return BACK | {key: {s: value for s, value in BACK[key].items() if s != step}}


def test_what_comes_back_as_it_was_sent_is_no_difference():
    assert live.differences(SENT, BACK) == []
    assert any(math.isnan(value) for data in SENT.values() for value in data.values())


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (without("指标", "2"), [("指标", 2, "")]),
        (BACK | {"指标": BACK["指标"] | {"3": 7.0}}, [("指标", 3, "7.0")]),
        (BACK | {live.SOMETIMES_NAN: BACK[live.SOMETIMES_NAN] | {"2": 0.0}}, [(live.SOMETIMES_NAN, 2, "0.0")]),
        (BACK | {"指标": BACK["指标"] | {"1": math.nan}}, [("指标", 1, "nan")]),
        (BACK | {"指标": {step: value + 1e-8 for step, value in BACK["指标"].items()}}, []),
        (without(live.SOMETIMES_NAN, "2"), [(live.SOMETIMES_NAN, 2, "")]),
    ],
)
def test_differences(read, expected):
    assert [(d.key, d.step, d.read) for d in live.differences(SENT, read)] == expected


def test_a_tracker_may_leave_nan_out_and_nothing_else():
    assert live.differences(SENT, without(live.SOMETIMES_NAN, "2"), leaves_nan_out=True) == []
    assert live.differences(SENT, without(live.SOMETIMES_NAN, "1"), leaves_nan_out=True)


def test_variables_that_lead_into_a_run_of_the_job_are_left_out():
    names = ("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_DIR", "MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI", "SWANLAB_RUN_ID")
    environment = Environment.example(dict.fromkeys(names, "x") | {"WANDB_API_KEY": "c" * 40, "WANDB_MODE": "offline"})
    assert live.variables(environment) == {"WANDB_API_KEY": "c" * 40, "WANDB_MODE": "offline"}


def test_a_variable_that_decides_and_is_not_known_stops_it():
    source = Source("script", "script")
    unknown = {name: Variable(name, "", source, "a command decides") for name in ("WANDB_MODE", "OTHER")}
    with pytest.raises(Undetermined, match="WANDB_MODE"):
        live.variables(Environment(variables=unknown))
    assert live.variables(Environment(variables={"OTHER": unknown["OTHER"]})) == {}


def ask(folder, module, **more):
    """A run of the file logger with a module of ours in place of orjson."""
    (folder / "orjson.py").write_text("OPT_SERIALIZE_NUMPY = 1\nimport json, time\n" + module)
    question = {"tracker": "file", "project": "p", "name": "n", "folder": str(folder), "steps": SENT, "limit": 20.0} | more
    environment = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return ask_python(sys.executable, Path(live_script.__file__), question, environment=environment, timeout=10)


def test_a_client_that_works(tmp_path):
    found = ask(tmp_path, "def dumps(row, option): return json.dumps(row).replace('NaN', 'null').encode()\n")
    assert (found["error"], found["stage"], found["left"]) == ("", "read", "")
    assert live.differences(SENT, found["read"]) == []
    assert found["seconds"] < 1


def test_a_client_that_hangs_is_left_at_the_stage_where_it_hangs(tmp_path):
    begun = time.monotonic()
    found = ask(tmp_path, "def dumps(row, option): time.sleep(60)\n", limit=0.3)
    assert (found["stage"], found["error"]) == ("log", "it did not come to an end in time")
    assert time.monotonic() - begun < 3


def test_a_client_that_fails_or_exits_says_why(tmp_path):
    found = ask(tmp_path, "def dumps(row, option): raise SystemExit('no more')\n")
    assert (found["stage"], found["error"]) == ("log", "SystemExit: no more")


def test_a_file_that_ends_in_the_middle_of_a_record(tmp_path):
    record = b"\0\0\0\0" + b"\3\0" + b"\1" + b"abc"
    path = tmp_path / "f"
    path.write_bytes(b":W&B\xe1\xbe\0" + record + record[:-1])
    assert list(live_script._records(str(path))) == [b"abc"]


def test_a_record_over_two_blocks(tmp_path):
    block = 32768
    first = block - 7 - 7
    parts = [(2, b"a" * first), (4, b"b" * 10), (1, b"end")]
    data = b"".join(b"\0\0\0\0" + len(part).to_bytes(2, "little") + bytes([kind]) + part for kind, part in parts)
    path = tmp_path / "f"
    path.write_bytes(b"1234567" + data)
    assert list(live_script._records(str(path))) == [b"a" * first + b"b" * 10, b"end"]
