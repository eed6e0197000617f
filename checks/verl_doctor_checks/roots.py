"""From what happened on the way to each tracker's server to root causes: what several trackers suffer from is one cause."""

from __future__ import annotations

from collections.abc import Iterable

from verl_doctor.api import Undetermined
from verl_doctor.network.result import ProbeResult
from verl_doctor_checks.facts.reached import Reach

PROXY_DEAD, PROXY_LOGIN, PROXY_REFUSES = "NET001", "NET002", "NET003"
NO_NAME, REFUSED, NO_ANSWER = "NET004", "NET005", "NET006"
UNKNOWN_CA, BAD_CERTIFICATE, TLS_MIX = "NET007", "NET008", "NET009"
WRONG_SERVICE, CA_MISSING, IGNORED = "NET010", "NET011", "NET012"
PROXY_INVALID, BROKEN = "NET014", "NET015"

OWN_CODE = {"swanlab": "SWANLAB003", "mlflow": "MLFLOW050"}
"""Trackers that have a code of their own for a server that only they cannot reach: it says what that costs."""

NAMES = {"wandb": "W&B", "swanlab": "SwanLab", "mlflow": "MLflow"}

_OF_THE_WAY = {
    "unknown-ca": UNKNOWN_CA,
    "expired": BAD_CERTIFICATE,
    "not-yet-valid": BAD_CERTIFICATE,
    "wrong-host": BAD_CERTIFICATE,
    "certificate-refused": BAD_CERTIFICATE,
    "tls-on-plain-port": TLS_MIX,
    "plain-on-tls-port": TLS_MIX,
    "ca-missing": CA_MISSING,
    "route-refused": PROXY_INVALID,
    "proxy-login": PROXY_LOGIN,
    "proxy-denied": PROXY_REFUSES,
    "proxy-error": PROXY_REFUSES,
}
_OF_A_PROXY = {
    "dns-failed", "dns-timeout", "refused", "unreachable", "no-answer", "proxy-silent", "proxy-closed", "not-a-proxy",
    "tls-closed", "tls-failed", "tls-timeout", "silent", "closed", "garbage",
}  # fmt: skip
_OF_A_SERVER = {
    "dns-failed": NO_NAME,
    "dns-timeout": NO_NAME,
    "refused": REFUSED,
    "unreachable": NO_ANSWER,
    "no-answer": NO_ANSWER,
    "tls-closed": BROKEN,
    "tls-failed": BROKEN,
    "tls-timeout": BROKEN,
    "closed": BROKEN,
    "silent": BROKEN,
    "garbage": BROKEN,
}


class Root:
    """One cause and every tracker that suffers from it. `code` is the code that reports it."""

    def __init__(self, code: str, seen: list[tuple[Reach, ProbeResult]]) -> None:
        self.reaches = [reach for reach, _ in seen]
        self.first, self.probe = seen[0]
        reaches, tracker = self.reaches, self.first.tracker
        alone = len(reaches) == 1 and tracker in OWN_CODE and code in {NO_NAME, REFUSED, NO_ANSWER, BROKEN}
        self.code = OWN_CODE[tracker] if alone else code

    @property
    def trackers(self) -> str:
        """Their names, as people write them."""
        return ", ".join(NAMES[reach.tracker] for reach in self.reaches)

    @property
    def servers(self) -> str:
        """Their servers with ports, each once."""
        return ", ".join(dict.fromkeys(reach.server for reach in self.reaches))

    @property
    def hosts(self) -> str:
        """Their servers as NO_PROXY wants them: without port."""
        return ",".join(dict.fromkeys(reach.server.rpartition(":")[0] for reach in self.reaches))


def roots(reaches: Iterable[Reach], code: str) -> list[Root]:
    """The root causes that this code reports. Raises Undetermined when there is none and a way could not be looked at."""
    groups: dict[tuple[str, ...], list[tuple[Reach, ProbeResult]]] = {}
    unlooked = ""
    for reach in reaches:
        if reach.state == "unknown":
            unlooked = unlooked or reach.reason
        if reach.probe is not None and (key := _cause(reach, reach.probe)):
            groups.setdefault(key, []).append((reach, reach.probe))
    found = [root for root in (Root(key[0], group) for key, group in groups.items()) if root.code == code]
    if not found and unlooked:
        raise Undetermined(f"the way to the trackers was not tried: {unlooked}")
    return found


def _cause(reach: Reach, probe: ProbeResult) -> tuple[str, ...]:
    """The code of what went wrong and what identifies the one thing that is at fault, empty when nothing did."""
    if reach.page or probe.cause in {"redirect-loop", "redirect-elsewhere"}:
        return _wrong_service(reach, probe)
    if probe.cause in _OF_THE_WAY:
        return _OF_THE_WAY[probe.cause], *_identity(reach, probe)
    if probe.at == "proxy" and probe.cause in _OF_A_PROXY:
        return PROXY_DEAD, probe.address
    code = _OF_A_SERVER.get(probe.cause, "")
    if code and reach.ignored:
        return IGNORED, *reach.ignored
    # Names that cannot be resolved and hosts without a route have one cause for all trackers: this machine's network.
    return (code, "" if code in {NO_NAME, NO_ANSWER} else probe.address) if code else ()


def _wrong_service(reach: Reach, probe: ProbeResult) -> tuple[str, ...]:
    if probe.cause == "redirect-elsewhere" and probe.status in {307, 308}:
        return ()  # clients follow these with the request as it is
    place = probe.location.partition("?")[0] if probe.location else reach.server
    return WRONG_SERVICE, place


def _identity(reach: Reach, probe: ProbeResult) -> tuple[str, ...]:
    if probe.cause == "unknown-ca" and probe.certificate is not None:
        return (probe.certificate.issuer, reach.client)
    if probe.cause in {"ca-missing", "route-refused"}:
        return (reach.trust_variable if probe.cause == "ca-missing" else reach.proxy_variable,)
    if probe.cause == "proxy-error":  # the proxy may be well and the server behind it dead
        return (probe.address, reach.server)
    return (probe.address,)


def was_asked(reach: Reach) -> bool:
    """Whether the server answered. Raises Undetermined when it should have been asked and was not, or did not answer."""
    if reach.state in {"unknown", "not-probed"}:
        raise Undetermined(reach.reason)
    if reach.probe is not None and (reach.probe.cause != "ok" or reach.page):
        raise Undetermined(f"{reach.server} was not reached, so it could not be asked")
    return reach.state == "looked"
