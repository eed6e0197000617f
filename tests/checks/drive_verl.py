"""Drives the real `verl.utils.tracking` and reports what becomes of each row; run as a program, never imported.

Reads a JSON list of rows from stdin and writes one JSON object a row to stdout. verl is loaded below stub parents, so that
neither ray nor a GPU is needed. Each row works in a folder of its own.
"""

import contextlib
import importlib.util
import json
import os
import sys
import types

METRIC = {"a/b": 1.0}
SAMPLES = [("question", "answer", 1.0)]
MODULES = {"tracking": "wandb", "console": "torch", "file": "orjson", "rl_insight": "orjson"}


def load():
    root = importlib.util.find_spec("verl").submodule_search_locations[0]
    for name, path in (("verl", root), ("verl.utils", f"{root}/utils")):
        module = types.ModuleType(name)
        module.__path__ = [path]
        sys.modules[name] = module
    import verl.utils.tracking as tracking

    tracking.MLFLOW_SLEEP_SECONDS = 0
    return tracking


def files(base):
    """Every file below the folder of all rows: some trackers stay in the folder in which they were used first."""
    return {os.path.join(folder, name) for folder, _, names in os.walk(base) for name in names}


def missing(names):
    """A module that a row needs and this Python does not have."""
    for name in names:
        module = MODULES.get(name, name)
        if module.isidentifier() and importlib.util.find_spec(module) is None:
            return module
    return ""


def kept_generations(name, found):
    """Whether the tracker's own files hold the samples."""
    if name == "wandb":
        return any("media/table" in path for path in found)
    if name == "tensorboard":
        return sum("events.out.tfevents" in path for path in found) > 1
    if name == "mlflow":
        return any(path.endswith("val_step1.json") for path in found)
    if name == "swanlab":
        return any("/media/" in path for path in found)
    return any("traces" in path for path in found)


def end_of_mlflow_run():
    """A failed row may leave a run open, which the next row would stumble over."""
    if "mlflow" in sys.modules:
        import mlflow

        while mlflow.active_run() is not None:
            mlflow.end_run()


def drive(tracking, row):
    project, experiment, logger = row["project"], row["experiment"], row["logger"]
    trackers = []
    try:
        if not row.get("elsewhere"):
            for _ in range(row.get("times", 1)):
                tracker = tracking.Tracking(project, experiment, logger, config={"trainer": {"logger": logger}})
                trackers.append(tracker)  # the first one must be finished when the second one raises
            for tracker in trackers:
                tracker.log(METRIC, 1)
        if row.get("generations"):
            tracking.ValidationGenerationsLogger(project, experiment).log(logger, SAMPLES, 1)
    except Exception as error:  # noqa: BLE001 - what verl raises is the result
        return {"raises": f"{type(error).__name__}: {error}"[:200]}
    finally:
        for tracker in trackers:
            with contextlib.suppress(Exception):
                tracker.finish()
        end_of_mlflow_run()
    return {"built": [list(tracker.logger) for tracker in trackers]}


def loses(row, outcome, found):
    """What the row wanted and did not get, empty when it got everything."""
    given = [row["logger"]] if isinstance(row["logger"], str) else row["logger"]
    wanted = ["wandb" if name == "tracking" else name for name in given]
    for built in outcome["built"]:
        absent = set(wanted) - set(built)
        if absent or not built:
            return f"no tracker for {sorted(absent) or 'anything'}"
    if row.get("generations"):
        sinks = [name for name in wanted if name not in {"console", "file", "rl_insight"}]
        lost = [name for name in sinks if not kept_generations(name, found) or (row.get("elsewhere") and name == "mlflow")]
        if lost or not sinks:
            return f"generations not kept by {lost or wanted}"
    for path, text in row.get("before", {}).items():
        with open(path, encoding="utf-8") as file:
            if text not in file.read():
                return f"{path} was overwritten"
    for path in row.get("lines", {}):
        with open(path, encoding="utf-8") as file:
            if len(file.read().splitlines()) != row["lines"][path]:
                return f"{path} lost lines"
    written = row.get("written", "")
    return f"no file is called {written}" if written and not any(written in path for path in found) else ""


def report(outcome):
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.stdout.flush()


def main():
    tracking = load()
    base = os.getcwd()
    for number, row in enumerate(json.load(sys.stdin)):
        folder = os.path.join(base, str(number))
        os.makedirs(folder)
        os.chdir(folder)
        names = [row["logger"]] if isinstance(row["logger"], str) else row["logger"] or []
        absent = missing([name for name in names if isinstance(name, str) and name in row["real"]])
        if absent:
            report({"skip": f"{absent} is not installed"})
            continue
        for path, text in row.get("before", {}).items():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        earlier = files(base)
        kept = dict(os.environ)
        os.environ.update({name: value.replace("@", folder) for name, value in row.get("environment", {}).items()})
        os.environ["TRACKIO_DIR"] = os.environ.get("TRACKIO_DIR", os.path.join(folder, "trackio"))
        with contextlib.redirect_stdout(sys.stderr):
            outcome = drive(tracking, row)
        os.environ.clear()
        os.environ.update(kept)
        os.chdir(folder)
        if "built" in outcome:
            outcome["loses"] = loses(row, outcome, files(base) - earlier)
        report(outcome)
    os._exit(0)  # a tracker that was never finished may hang at the interpreter's exit


if __name__ == "__main__":
    main()
