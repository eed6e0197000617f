"""How far a request got, as plain data: apart from the probe, so that reading a result imports neither TLS nor HTTP."""

from __future__ import annotations

from typing import Literal

import msgspec

from verl_doctor.network.x509 import PeerCertificate

Layer = Literal["route", "dns", "tcp", "proxy", "tls", "http"]
Cause = Literal[
    "ok",
    "route-refused", "unsupported-proxy", "unsendable",
    "dns-failed", "dns-timeout",
    "refused", "unreachable", "no-answer",
    "proxy-login", "proxy-denied", "proxy-error", "proxy-silent", "proxy-closed", "not-a-proxy",
    "ca-missing", "unknown-ca", "expired", "not-yet-valid", "wrong-host", "certificate-refused",
    "tls-on-plain-port", "plain-on-tls-port", "tls-closed", "tls-failed", "tls-timeout",
    "closed", "silent", "garbage", "redirect-loop", "redirect-elsewhere",
]  # fmt: skip


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """How far a request got. `cause` is `ok` when an HTTP answer came, whatever its status.

    `at` and `address` are the machine at which it ended; times are milliseconds by layer; `clock_offset_s` is by how many
    seconds the server's clock is ahead of this one; `excerpt` is the beginning of an answer that is not JSON, scrubbed.
    """

    layer: Layer
    cause: Cause
    at: Literal["server", "proxy"] = "server"
    address: str = ""
    reason: str = ""
    status: int | None = None
    excerpt: str = ""
    location: str = ""
    server: str = ""
    content_type: str = ""
    certificate: PeerCertificate | None = None
    clock_offset_s: float | None = None
    milliseconds: dict[str, float] = {}
