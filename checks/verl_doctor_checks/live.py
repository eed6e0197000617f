"""What a real run at each tracker showed (`verl-doctor check --live`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from verl_doctor.api import Finding, Severity, Undetermined, check, finding
from verl_doctor_checks.facts.live import RoundTrip

TAGS = {"live", "logger", "network", "wandb", "swanlab", "mlflow", "tensorboard", "trackio"}
SLOW_S = 30.0

STAGES = {
    "init": "a run at {tracker} could not be started, after {seconds} s: {error}",
    "log": "a run at {tracker} started, and logging to it failed after {seconds} s: {error}",
    "finish": "a run at {tracker} could not be brought to its end, after {seconds} s: {error}",
    "read": "a run at {tracker} ended well, and reading it back failed after {seconds} s: {error}",
}
DONE = [{"tracker": "wandb", "where": "the run ada/p/1 at https://api.wandb.ai", "seconds": 1.2}, {"tracker": "file"}]
LOST = {"key": "指标", "step": 2, "sent": "2.5"}


def _trip(tracker: str, **fields: Any) -> dict[str, Any]:
    return {"tracker": tracker, "where": f"the run r at {tracker}", "seconds": 1.0} | fields


@check(
    "LIVE001",
    "live-run-failed",
    tags=TAGS,
    good=[{"live_round_trips": DONE}, {"live_round_trips": []}, {"live_round_trips": [_trip("mlflow", differences=[LOST])]}],
    bad=[
        {"live_round_trips": [*DONE, _trip("mlflow", state="failed", stage="log", reason="MlflowException: no such run")]},
        {"live_round_trips": [_trip("wandb", state="failed", stage="init", reason="CommError: permission denied")]},
        {"live_round_trips": [_trip("swanlab", state="failed", stage="read", reason="ApiError: 500")]},
        {"live_round_trips": [_trip("swanlab", state="failed", stage="finish", reason="it did not come to an end in time")]},
    ],
)
def live_run_failed(live_round_trips: list[RoundTrip]) -> Iterator[Finding]:
    """A short run at a tracker, made in the job's Python with the job's environment, failed.

    The client itself refused or broke off in one of four stages: the start of a run, logging, its end, or reading it back.
    The job meets the same at the same place, except that it reads nothing back: that stage alone is a warning.

    Fix: see the client's own error; `--live` alone repeats the attempt after a change.

    See: verl 0.9.1 verl/utils/tracking.py, whose calls are made
    """
    for trip in live_round_trips:
        if trip.state == "failed":
            yield finding(
                STAGES[trip.stage],
                target=trip.tracker,
                fix="See what the client says; run `verl-doctor check live --live` again after a change",
                severity=Severity.WARNING if trip.stage == "read" else None,
                evidence={"where": trip.where},
                tracker=trip.tracker,
                seconds=f"{trip.duration:.0f}",
                error=trip.reason,
            )
    not_tried = [f"{trip.tracker}: {trip.reason}" for trip in live_round_trips if trip.state == "not-tried"]
    if not_tried:
        raise Undetermined(f"no run was made at {'; '.join(not_tried)}")


@check(
    "LIVE002",
    "live-values-changed",
    tags=TAGS,
    good=[
        {"live_round_trips": DONE},
        {"live_round_trips": [_trip("wandb", state="failed", stage="init", reason="CommError: no")]},
    ],
    bad=[
        {"live_round_trips": [_trip("mlflow", differences=[LOST])]},
        {"live_round_trips": [_trip("swanlab", differences=[LOST | {"read": "7.0"}, LOST])]},
    ],
)
def live_values_changed(live_round_trips: list[RoundTrip]) -> Iterator[Finding]:
    """Values that were logged came back changed, or not at all.

    Three steps were logged with keys as verl has them (`@`, parentheses, Chinese) and with a NaN. What trackers are known to do
    is allowed for: MLflow's names are those that verl's adapter makes, wandb and trackio keep NaN as a text, the file logger as
    null, SwanLab's interface leaves it out, TensorBoard keeps 32 bits.

    Fix: upgrade the tracker's client or its server; keep the file logger beside it until the values come back.

    See: verl 0.9.1 verl/utils/tracking.py, `_MlflowLoggingAdapter`
    """
    for trip in live_round_trips:
        if trip.state == "done" and trip.differences:
            first = trip.differences[0]
            lost = sum(not difference.read for difference in trip.differences)
            yield finding(
                'of what was logged to {tracker}, {lost} values are lost and {changed} changed: "{key}" at step {step} was '
                "{sent} and is {read}"
                if first.read
                else 'of what was logged to {tracker}, {lost} values are lost and {changed} changed: "{key}" at step {step} '
                "({sent}) is not there",
                target=trip.tracker,
                fix="Upgrade the client or the server of {tracker}, and log to a file as well until the values come back",
                evidence={
                    "where": trip.where,
                    "differences": [f"{d.key} at {d.step}: {d.sent} -> {d.read or 'nothing'}" for d in trip.differences],
                },
                tracker=trip.tracker,
                lost=lost,
                changed=len(trip.differences) - lost,
                key=first.key,
                step=first.step,
                sent=first.sent,
                read=first.read,
            )


@check(
    "LIVE003",
    "live-run-left-behind",
    severity=Severity.INFO,
    tags=TAGS,
    good=[{"live_round_trips": DONE}],
    bad=[
        {"live_round_trips": [_trip("mlflow", left="the run 1f in the experiment p, marked as deleted")]},
        {"live_round_trips": [_trip("wandb", state="failed", stage="read", reason="x", left="the run ada/p/1")]},
    ],
)
def live_run_left_behind(live_round_trips: list[RoundTrip]) -> Iterator[Finding]:
    """The run that `--live` made could not be removed without a trace.

    MLflow only marks what is deleted, until `mlflow gc` is run beside its store; at other trackers deleting may have failed.

    Fix: delete it by hand where it matters; its name begins with `verl-doctor-live-`.

    See: mlflow 3.17.2 store/tracking/sqlalchemy_store.py, `delete_run`
    """
    for trip in live_round_trips:
        if trip.left:
            yield finding(
                "the attempt at {tracker} leaves something behind: {left}",
                target=trip.tracker,
                fix="Delete it by hand if it is in the way (MLflow: `mlflow gc`)",
                tracker=trip.tracker,
                left=trip.left,
            )


@check(
    "LIVE004",
    "live-slow-until-readable",
    severity=Severity.WARNING,
    tags=TAGS,
    good=[
        {"live_round_trips": DONE},
        {"live_round_trips": [_trip("wandb", seconds=SLOW_S)]},
        {"live_round_trips": [_trip("wandb", seconds=None, differences=[LOST])]},
    ],
    bad=[{"live_round_trips": [_trip("wandb", seconds=41.0)]}],
)
def live_slow_until_readable(live_round_trips: list[RoundTrip]) -> Iterator[Finding]:
    """It took more than 30 seconds until what was logged could be read.

    The end of a run waits until the client has sent everything, and so does whoever reads the run. A slow server, a proxy or a
    loaded database makes each step of the job wait in the same way where the client does not log in the background.

    Fix: look at the server's load and at the way to it; the times of each layer stand in `verl-doctor check network -v`.

    See: verl 0.9.1 verl/utils/tracking.py: MLflow is written to within the training loop
    """
    for trip in live_round_trips:
        if trip.seconds is not None and trip.seconds > SLOW_S:
            yield finding(
                "it took {seconds} s until what was logged to {tracker} could be read",
                target=trip.tracker,
                fix="Look at the load of its server and at the way to it: `verl-doctor check network -v`",
                evidence={"where": trip.where},
                tracker=trip.tracker,
                seconds=f"{trip.seconds:.0f}",
            )
