"""What the real verl does with a row must be what the checks say: raises = error, loses = error or warning, works = silent.

Needs verl 0.9.1 and the trackers in this Python or in the one that VERL_DOCTOR_TEST_VERL_PYTHON names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from verl_doctor.job.model import Environment, Job, Packages
from verl_doctor.registry import load_built_in
from verl_doctor.report import Severity

PYTHON = os.environ.get("VERL_DOCTOR_TEST_VERL_PYTHON", sys.executable)
PROBE = "import importlib.metadata as m, sys; import orjson, packaging; print(m.version('verl'))"
REGISTRY = load_built_in()
TOPICS = {"VERL", "FILE", "TB", "TRACKIO"}
REAL = ["wandb", "mlflow", "swanlab", "tensorboard", "trackio", "console", "file", "tracking", "rl_insight"]


def row(logger, project="project", experiment="experiment", **more):
    return {"logger": logger, "project": project, "experiment": experiment, "real": REAL, **more}


ROWS = {
    # what the constructor makes of `trainer.logger`
    "one name as a text": row("console"),
    "a list": row(["console", "file"]),
    "wandb": row(["console", "wandb"]),
    "the alias": row(["tracking"], generations=1),
    "repeated names": row(["console", "console", "file"], tolerated=True),
    "wrong case": row(["Console"]),
    "misspelt": row(["console", "wandbb"]),
    "an empty name": row(""),
    "null": row(None),
    "an empty list": row([]),
    "a list in a text": row("[console,wandb]"),
    "a list in a text with other names": row("console,swanlab"),
    "rl_insight without its variable": row(["rl_insight"], kind="sft", tolerated=True),
    # names and their types
    "wandb and a number as experiment": row(["wandb"], experiment=2025),
    "wandb and a number as project": row(["wandb"], project=2025),
    "wandb and true as experiment": row(["wandb"], experiment=True),
    "swanlab and a number as experiment": row(["swanlab"], experiment=7),
    "swanlab and a number as project": row(["swanlab"], project=7),
    "swanlab and empty names": row(["swanlab"], project="", experiment=""),
    "mlflow and a number as project": row(["mlflow"], project=2025),
    "mlflow and an empty project": row(["mlflow"], project=""),
    "trackio and a number as project": row(["trackio"], project=2025),
    "trackio and a reserved project": row(["trackio"], project="registry-x"),
    "trackio and a reserved ending": row(["trackio"], project="chat_system"),
    "trackio and a project with a dot": row(["trackio"], project="my.model"),
    "file and a number as project": row(["file"], project=2025),
    "file and an underscored number as experiment": row(["file"], experiment=202501011, written="20250101_1"),
    "file and an exponent as experiment": row(["file"], experiment=100000.0, written="1e5."),
    "file and a slash in the experiment": row(["file"], experiment="a/b"),
    "file and a slash in the project": row(["file"], project="a/b"),
    "tensorboard and numbers with generations": row(["tensorboard"], project=7, experiment=8, generations=1),
    "tensorboard and a slash": row(["tensorboard"], experiment="a/b", generations=1),
    # generations
    "generations to console": row(["console"], generations=1),
    "generations to file": row(["console", "file"], generations=1),
    "generations to wandb": row(["wandb"], generations=1),
    "generations to tensorboard": row(["tensorboard"], generations=1),
    "generations to mlflow": row(["mlflow"], generations=1),
    "generations to swanlab": row(["swanlab"], generations=1),
    "generations to trackio": row(["trackio"], generations=1),
    "generations to wandb without a run": row(["wandb"], generations=1, elsewhere=True, kind="fully_async"),
    "generations to swanlab without a run": row(["swanlab"], generations=1, elsewhere=True, kind="fully_async"),
    "generations to trackio without a run": row(["trackio"], generations=1, elsewhere=True, kind="fully_async"),
    "generations to mlflow without a run": row(["mlflow"], generations=1, elsewhere=True, kind="fully_async"),
    # the file logger
    "file over an older file": row(["file"], before={"project/experiment.jsonl": '{"step":1}\n'}),
    "file beside an older file": row(["file"], before={"project/other.jsonl": '{"step":1}\n'}),
    "file at a path": row(["file"], environment={"VERL_FILE_LOGGER_PATH": "@/x.jsonl"}),
    "file in a missing folder": row(["file"], environment={"VERL_FILE_LOGGER_PATH": "@/no/x.jsonl"}),
    "file at an empty path": row(["file"], environment={"VERL_FILE_LOGGER_PATH": ""}),
    "file below a tilde": row(["file"], environment={"VERL_FILE_LOGGER_PATH": "~/x.jsonl"}),
    "file at a folder": row(["file"], environment={"VERL_FILE_LOGGER_PATH": "@"}),
    "file below a missing root": row(["file"], environment={"VERL_FILE_LOGGER_ROOT": "@/no"}),
    # tensorboard and trackio
    "tensorboard with an empty folder name": row(["tensorboard"], environment={"TENSORBOARD_DIR": ""}),
    "tensorboard in a folder": row(["tensorboard"], environment={"TENSORBOARD_DIR": "@/tb"}),
    "trackio server without a token": row(["trackio"], environment={"TRACKIO_SERVER_URL": "http://127.0.0.1:9"}),
    "trackio server without a scheme": row(["trackio"], environment={"TRACKIO_SERVER_URL": "127.0.0.1:9"}),
    # two Tracking objects in one process
    "file twice": row(["file"], times=2, lines={"project/experiment.jsonl": 2}, entry="recipe.async_flow.grpo_main"),
    "swanlab twice": row(["swanlab"], times=2, entry="recipe.async_flow.grpo_main"),
    "mlflow twice": row(["mlflow"], times=2, entry="recipe.async_flow.grpo_main"),
    "wandb twice": row(["wandb"], times=2, entry="recipe.async_flow.grpo_main"),
    "trackio twice": row(["trackio"], times=2, entry="recipe.async_flow.grpo_main"),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    found = subprocess.run([PYTHON, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
    if found.returncode != 0:
        pytest.skip(f"verl is not installed for {PYTHON}: {found.stderr.strip().splitlines()[-1]}")
    if found.stdout.strip() != "0.9.1":
        pytest.skip(f"the rows are about verl 0.9.1, found {found.stdout.strip()}")
    base = tmp_path_factory.mktemp("real")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(base),
        "WANDB_MODE": "offline",
        "SWANLAB_MODE": "offline",
        "HF_HUB_OFFLINE": "1",
        "MLFLOW_TRACKING_URI": f"sqlite:///{base}/mlruns.db",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    folder = base / "rows"
    folder.mkdir()
    done = subprocess.run(
        [PYTHON, str(Path(__file__).with_name("drive_verl.py"))],
        input=json.dumps(list(ROWS.values())),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=120,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(ROWS), done.stderr[-2000:]
    return {name: json.loads(line) for name, line in zip(ROWS, lines, strict=True)}


@pytest.fixture
def verdict(request, tmp_path):
    """The worst severity that the checks give the row, None when they are silent about it (`info` counts as silent)."""
    row = ROWS[request.node.callspec.params["name"]]
    for path, text in row.get("before", {}).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    entry = row.get("entry", "verl.trainer.main_ppo")
    settings = {
        "trainer.logger": row["logger"],
        "trainer.project_name": row["project"],
        "trainer.experiment_name": row["experiment"],
        "trainer.log_val_generations": row.get("generations", 0),
    }
    kind = row.get("kind", "recipe" if entry.startswith("recipe.") else "ppo")
    job = Job.example({**settings, "kind": kind, "entry": entry, "directory": str(tmp_path)})
    variables = {name: value.replace("@", str(tmp_path)) for name, value in row.get("environment", {}).items()}
    variables.setdefault("TRACKIO_DIR", str(tmp_path / "trackio"))
    facts = {"job": job, "environment": Environment.example(variables), "packages": Packages.example({})}
    for name in ("log_file", "event_folder", "trackio_folder"):
        facts[name] = REGISTRY.facts[name].gather(job=facts["job"], environment=facts["environment"])
    found = [
        finding.severity or check.severity
        for check in REGISTRY.checks.values()
        if check.topic in TOPICS and set(check.needs) <= facts.keys()
        for finding in check.function(**{name: facts[name] for name in check.needs})
    ]
    worst = min(found, key=lambda severity: severity.rank, default=None)
    return None if worst is Severity.INFO else worst


@pytest.mark.parametrize("name", ROWS)
def test_the_verdict_is_what_verl_does(name, outcomes, verdict):
    outcome = outcomes[name]
    if "skip" in outcome:
        pytest.skip(outcome["skip"])
    if "raises" in outcome:
        assert verdict is Severity.ERROR, outcome
    elif outcome["loses"]:
        assert verdict in {Severity.ERROR, Severity.WARNING}, outcome
    elif ROWS[name].get("tolerated"):
        assert verdict is Severity.WARNING, outcome
    else:
        assert verdict is None, outcome
