"""One short run at one tracker, in the job's Python; see `ask_python`. Imports nothing of verl-doctor.

The calls are those that verl makes (verl 0.9.1, verl/utils/tracking.py), without verl, whose import takes many seconds.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import json
import math
import os
import re
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_BLOCK = 32768
_PAUSE_S = 0.5
_LOCAL_S = 10.0
"""Seconds until files must hold everything: wandb's core may still write when `finish` is over."""
_CLEANING_S = 8.0
"""Seconds that are kept back for deleting what was made."""

TEMPORARY = "a temporary folder"
"""Where a run is that leaves nothing behind."""

Values = dict[str, dict[int, float]]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Make a run, read it back, delete it. `error` is empty when that went well, else `stage` is where it broke off.

    `read` are the values by key and step under the names that were sent, `seconds` the time from the last step until all of
    them could be read, `left` what stays behind. `request` has `limit` (seconds), `steps`, `tracker` and what that one needs.
    """
    end = time.monotonic() + request["limit"]
    state: dict[str, Any] = {"error": "", "stage": "init", "where": "", "left": "", "read": {}, "seconds": None}
    tracker = _TRACKERS[request["tracker"]](request)
    watch = threading.Timer(request["limit"], _give_up, [state])
    watch.daemon = True
    watch.start()
    try:
        _travel(tracker, request["steps"], state, end - _CLEANING_S)
    except BaseException as error:  # noqa: BLE001 - clients end with SystemExit and KeyboardInterrupt too
        state["error"] = f"{type(error).__name__}: {error}"[:2000] or type(error).__name__
    try:
        state["left"] = tracker.remove()
    except Exception as error:  # noqa: BLE001 - what cannot be deleted is told
        state["left"] = f"{tracker.where or tracker.name} ({type(error).__name__}: {error})"[:500]
    state["where"] = tracker.where
    watch.cancel()
    return state


def _travel(tracker: _Tracker, steps: dict[str, dict[str, float]], state: dict[str, Any], end: float) -> None:
    tracker.begin()
    state["where"], state["left"] = tracker.where, tracker.where
    state["stage"] = "log"
    for step, data in steps.items():
        tracker.log(dict(data), int(step))
    begun = time.monotonic()
    state["stage"] = "finish"
    tracker.finish()
    state["stage"] = "read"
    keys = list(next(iter(steps.values())))
    while True:
        found = tracker.read([tracker.name_of(key) for key in keys])
        state["read"] = {key: found.get(tracker.name_of(key), {}) for key in keys}
        sent = ((step, key) for step, data in steps.items() for key, value in data.items() if not math.isnan(value))
        if all(int(step) in state["read"][key] for step, key in sent):
            state["seconds"] = time.monotonic() - begun
            return
        if time.monotonic() > (min(end, begun + _LOCAL_S) if tracker.is_local else end):
            return
        time.sleep(_PAUSE_S)


def _give_up(state: dict[str, Any]) -> None:
    """Answer in place of a client that hangs, whatever it hangs in."""
    state["error"] = "it did not come to an end in time"
    with os.fdopen(int(sys.argv[3]), "w", encoding="utf-8") as pipe:
        pipe.write(json.dumps(state))
    os._exit(1)


class _Tracker:
    """What every tracker does. `where` says in words where the run is, empty before there is one."""

    is_local = True

    def __init__(self, request: dict[str, Any]) -> None:
        self.project: str = request["project"]
        self.name: str = request["name"]
        self.folder: str = request["folder"]
        self.request = request
        self.where = ""

    def begin(self) -> None:
        raise NotImplementedError

    def log(self, data: dict[str, float], step: int) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def read(self, names: list[str]) -> Values:
        raise NotImplementedError

    def name_of(self, key: str) -> str:
        """The name under which a key is kept."""
        return key

    def remove(self) -> str:
        """Delete the run; what stays all the same, in words. Files in `folder` are removed by whoever made that."""
        return ""


class _Wandb(_Tracker):
    def begin(self) -> None:
        self.wandb: Any = importlib.import_module("wandb")
        proxy = self.request["wandb_proxy"]
        settings = self.wandb.Settings(https_proxy=proxy) if proxy else None
        entity = os.environ.get("WANDB_ENTITY")
        self.run = self.wandb.init(
            project=self.project, name=self.name, entity=entity, config={"live": True}, settings=settings
        )
        self.is_local = bool(getattr(self.run, "offline", False))
        self.path = f"{self.run.entity}/{self.run.project}/{self.run.id}"
        self.where = TEMPORARY if self.is_local else f"the run {self.path} at {self.run.settings.base_url}"

    def log(self, data: dict[str, float], step: int) -> None:
        self.wandb.log(data=data, step=step)

    def finish(self) -> None:
        self.wandb.finish(exit_code=0)

    def read(self, names: list[str]) -> Values:
        rows = self._rows_of_file() if self.is_local else self.wandb.Api().run(self.path).scan_history()
        found: Values = {}
        for row in rows:
            for name in names:
                if name in row and "_step" in row:
                    found.setdefault(name, {})[int(row["_step"])] = float(row[name])
        return found

    def _rows_of_file(self) -> Iterator[dict[str, Any]]:
        proto: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
        for payload in _records(_only(f"{self.folder}/**/*.wandb")):
            record = proto.Record()
            record.ParseFromString(payload)
            if record.HasField("history"):
                items = record.history.item
                yield {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}

    def remove(self) -> str:
        if self.is_local or not self.where:
            return ""
        run = self.wandb.Api().run(self.path)
        if run.name != self.name:
            return self.where
        run.delete()
        return ""


class _Swanlab(_Tracker):
    def begin(self) -> None:
        self.swanlab: Any = importlib.import_module("swanlab")
        key, mode = os.environ.get("SWANLAB_API_KEY"), os.environ.get("SWANLAB_MODE", "cloud")
        if key:
            self.swanlab.login(key)
        self.run = self.swanlab.init(
            project=self.project, experiment_name=self.name, config={"FRAMEWORK": "verl"}, logdir=self.folder, mode=mode
        )
        self.is_local = mode not in {"cloud", "online"}
        self.path = "" if self.is_local else self.run.path.replace("@", "").strip("/")
        self.where = TEMPORARY if self.is_local else f"the experiment {self.path}"

    def log(self, data: dict[str, float], step: int) -> None:
        self.swanlab.log(data=data, step=step)

    def finish(self) -> None:
        self.swanlab.finish()

    def read(self, names: list[str]) -> Values:
        found: Values = {}
        if self.is_local:
            proto: Any = importlib.import_module("swanlab.proto.swanlab.record.v1.record_pb2")
            for payload in _records(_only(f"{self.folder}/**/*.swanlab")):
                record = proto.Record()
                record.ParseFromString(payload)
                if record.HasField("scalar"):
                    found.setdefault(record.scalar.key, {})[int(record.scalar.step)] = float(record.scalar.value.number)
            return found
        for metric in self.swanlab.Api().run(self.path).metrics(names, all=True)["list"]:
            found[metric["key"]] = {int(point["step"]): float(point["value"]) for point in metric["metrics"]}
        return found

    def remove(self) -> str:
        if self.is_local or not self.where:
            return ""
        run = self.swanlab.Api().run(self.path)
        # A run that is not found has an empty id, and the request to delete that would name no run.
        return "" if run.run_id and run.name == self.name and run.delete(commit=True) else self.where


class _Mlflow(_Tracker):
    """An experiment of its own where the project has none: a deleted experiment keeps its name, which would stop the job."""

    is_local = False

    def begin(self) -> None:
        self.mlflow: Any = importlib.import_module("mlflow")
        self.mlflow.set_tracking_uri(self.request["address"])
        self.client = self.mlflow.MlflowClient()
        found = self.client.get_experiment_by_name(self.project)
        self.made = found is None or found.lifecycle_stage != "active"
        self.experiment = self.client.create_experiment(self.name) if self.made else found.experiment_id
        self.where = f"the experiment {self.name}" if self.made else f'the experiment "{self.project}"'
        self.run = self.mlflow.start_run(experiment_id=self.experiment, run_name=self.name).info.run_id
        self.where = f"the run {self.run} in {self.where}"
        self.mlflow.log_params({"live": "true"})

    def log(self, data: dict[str, float], step: int) -> None:
        self.mlflow.log_metrics(metrics={self.name_of(key): value for key, value in data.items()}, step=step)

    def name_of(self, key: str) -> str:
        """As verl's adapter renames it."""
        return re.sub(r"[^/\w.\- :]", "_", re.sub(r"/+", "/", key.replace("@", "_at_")))

    def finish(self) -> None:
        self.mlflow.end_run()

    def read(self, names: list[str]) -> Values:
        return {name: {p.step: float(p.value) for p in self.client.get_metric_history(self.run, name)} for name in names}

    def remove(self) -> str:
        if not self.where:
            return ""
        if self.mlflow.active_run() is not None:
            self.mlflow.end_run("FAILED")
        if "run" in vars(self):
            self.client.delete_run(self.run)
        if self.made:
            self.client.delete_experiment(self.experiment)
        return TEMPORARY if self.request["temporary"] else f"{self.where}, marked as deleted"


class _Tensorboard(_Tracker):
    def begin(self) -> None:
        writer: Any = importlib.import_module("torch.utils.tensorboard")
        self.writer = writer.SummaryWriter(self.folder)
        self.where = TEMPORARY

    def log(self, data: dict[str, float], step: int) -> None:
        for key, value in data.items():
            self.writer.add_scalar(key, value, step)

    def finish(self) -> None:
        self.writer.close()

    def read(self, names: list[str]) -> Values:
        reader: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
        events = reader.EventAccumulator(self.folder)
        events.Reload()
        tags = events.Tags()["scalars"]
        return {name: {event.step: float(event.value) for event in events.Scalars(name)} for name in names if name in tags}


class _Trackio(_Tracker):
    def begin(self) -> None:
        self.trackio: Any = importlib.import_module("trackio")
        self.trackio.init(project=self.project, name=self.name, config={"live": True})
        self.where = TEMPORARY

    def log(self, data: dict[str, float], step: int) -> None:
        self.trackio.log(data, step=step)

    def finish(self) -> None:
        self.trackio.finish()

    def read(self, names: list[str]) -> Values:
        found: Values = {}
        with contextlib.closing(sqlite3.connect(_only(f"{self.folder}/**/*.db"))) as database:
            for step, text in database.execute("SELECT step, metrics FROM metrics"):
                for key, value in json.loads(text).items():
                    if key in names:
                        found.setdefault(key, {})[step] = float(value)  # NaN is kept as the text "NaN"
        return found


class _File(_Tracker):
    def begin(self) -> None:
        self.orjson: Any = importlib.import_module("orjson")
        self.where = TEMPORARY
        self.path = f"{self.folder}/{self.name}.jsonl"
        self.file = open(self.path, "wb", buffering=0)  # noqa: SIM115 - open over several steps, as verl has it

    def log(self, data: dict[str, float], step: int) -> None:
        row = {"step": step, "data": data}
        self.file.write(self.orjson.dumps(row, option=self.orjson.OPT_SERIALIZE_NUMPY) + b"\n")

    def finish(self) -> None:
        self.file.close()

    def read(self, names: list[str]) -> Values:
        found: Values = {}
        with open(self.path, encoding="utf-8") as file:
            for row in map(json.loads, file):
                for key, value in row["data"].items():
                    found.setdefault(key, {})[row["step"]] = math.nan if value is None else value  # orjson writes NaN as null
        return {name: found[name] for name in names if name in found}


_TRACKERS: dict[str, type[_Tracker]] = {
    "wandb": _Wandb,
    "swanlab": _Swanlab,
    "mlflow": _Mlflow,
    "tensorboard": _Tensorboard,
    "trackio": _Trackio,
    "file": _File,
}


def _only(pattern: str) -> str:
    """The one file of a pattern. Raises LookupError."""
    found = {os.path.realpath(path) for path in glob.glob(pattern, recursive=True)}  # wandb also makes a link to its folder
    if len(found) != 1:
        raise LookupError(f"there are {len(found)} files {os.path.basename(pattern)} where one was expected")
    return found.pop()


def _records(path: str) -> Iterator[bytes]:
    """The records of a file in blocks like those of LevelDB's log, which wandb and SwanLab write behind 7 bytes of theirs."""
    with open(path, "rb") as file:
        data = file.read()
    place, parts = 7, b""
    while place + 7 <= len(data):
        if _BLOCK - place % _BLOCK < 7:
            place += _BLOCK - place % _BLOCK
            continue
        length, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        if place + 7 + length > len(data):
            return  # the rest is still being written
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in {1, 4}:
            yield parts
            parts = b""
