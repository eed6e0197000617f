"""What the look at the servers of the trackers found, as plain data for checks."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from verl_doctor.network.result import ProbeResult

State = Literal["looked", "not-needed", "unknown", "not-probed"]


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The way to the server of one tracker, and how far a request got on it.

    `state`: `not-needed` when the job talks to no server, `unknown` and `not-probed` with a reason when it was not tried.
    `near_entry` is the entry of NO_PROXY that would exempt the server for another client, and does not for this one.
    `page`: something answered that is not the tracker's service.
    """

    tracker: str
    state: State = "not-needed"
    reason: str = ""
    url: str = ""
    server: str = ""
    client: str = ""
    proxy: str = ""
    proxy_variable: str = ""
    ignored: tuple[str, ...] = ()
    near_entry: str = ""
    trust_variable: str = ""
    page: bool = False
    probe: ProbeResult | None = None


class WandbViewer(msgspec.Struct, frozen=True, kw_only=True):
    """What the W&B server says of the key. `verdict` is empty when it was not asked or did not say.

    `teams` are the entities that the key may log to; `server_version` that of a server of one's own, when it tells.
    """

    reach: Reach
    verdict: Literal["", "accepted", "refused", "no-account", "forbidden", "trouble"] = ""
    status: int | None = None
    key_from: str = ""
    teams: tuple[str, ...] = ()
    public: bool = False
    server_version: str = ""


class SwanlabAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What the SwanLab server says of the key. `online`: the run itself goes to the cloud, not only the login."""

    reach: Reach
    verdict: Literal["", "accepted", "refused", "forbidden", "trouble"] = ""
    status: int | None = None
    key_from: str = ""
    online: bool = True


class MlflowServer(msgspec.Struct, frozen=True, kw_only=True):
    """What the MLflow server says. `stall_s` is how long one request of MLflow's client blocks on what was found, in seconds.

    `credentials`: where those that the client sends come from, empty for none. `artifact_folder_missing`: artifacts go to a
    folder, as the client sees it, and it does not exist here.
    """

    reach: Reach
    verdict: Literal["", "ready", "unauthorized", "forbidden", "host-refused", "wrong-service", "wrong-path", "trouble"] = ""
    status: int | None = None
    credentials: str = ""
    experiment: Literal["", "exists", "absent", "deleted"] = ""
    artifact_location: str = ""
    artifact_folder_missing: bool = False
    run: Literal["", "exists", "missing", "deleted"] = ""
    server_version: str = ""
    stall_s: float = 0.0


def _reach(plain: dict[str, Any]) -> Reach:
    """A row's way: looked at, unless it says otherwise."""
    fields = {"state": "looked", "server": "server.example.com:443", "url": "https://server.example.com"} | plain
    if fields["state"] == "looked":
        fields["probe"] = {"layer": "http", "cause": "ok", "status": 200} | fields.get("probe", {})
    return msgspec.convert(fields, Reach)


def example_reachability(plain: list[dict[str, Any]] | None) -> list[Reach]:
    """The ways to several servers, for a row."""
    return [_reach(row) for row in plain or []]


def _example(kind: Any, tracker: str, plain: dict[str, Any] | None) -> Any:
    if plain is None:
        return kind(reach=Reach(tracker=tracker))
    fields = dict(plain)
    reach = _reach({"tracker": tracker} | fields.pop("reach", {}))
    return msgspec.structs.replace(msgspec.convert({"reach": {"tracker": tracker}} | fields, kind), reach=reach)


def example_viewer(plain: dict[str, Any] | None) -> WandbViewer:
    """For a row: nothing was asked when it says nothing."""
    found: WandbViewer = _example(WandbViewer, "wandb", plain)
    return found


def example_access(plain: dict[str, Any] | None) -> SwanlabAccess:
    """For a row: nothing was asked when it says nothing."""
    found: SwanlabAccess = _example(SwanlabAccess, "swanlab", plain)
    return found


def example_server(plain: dict[str, Any] | None) -> MlflowServer:
    """For a row: nothing was asked when it says nothing."""
    found: MlflowServer = _example(MlflowServer, "mlflow", plain)
    return found
