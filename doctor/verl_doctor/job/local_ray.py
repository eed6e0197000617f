"""The Ray node that runs on this machine, looked at from outside: no import of ray, no connection.

`ray start` writes the address of the cluster to `<temp>/ray/ray_current_cluster`, and ray.init() joins it from there
(ray 2.60.0, _private/services.py, canonicalize_bootstrap_address; _common/utils.py, get_default_system_temp_dir).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec

from verl_doctor.job.model import Source, Variable
from verl_doctor.job.variables import make_variable

PROC = "/proc"
_MAX_ADDRESS_BYTES = 1000
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, nothing is bound


class Raylet(msgspec.Struct, kw_only=True):
    """A raylet on this machine. `is_head`: this node is the head. `environment` is None when it may not be read."""

    pid: int
    address: str
    python: str
    is_head: bool
    environment: dict[str, Variable] | None = None


def current_cluster(environment: Mapping[str, str], temp_dir: str = "") -> str:
    """The address of the cluster that was started last on this machine, empty when there is none.

    `temp_dir` is the `_temp_dir` of ray.init(), if given.
    """
    system_temp = environment.get("RAY_TMPDIR") or environment.get("TMPDIR") or "/tmp"  # noqa: S108 - Ray's own rule
    path = os.path.join(temp_dir or os.path.join(system_temp, "ray"), "ray_current_cluster")
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_ADDRESS_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def find_raylet(address: str) -> Raylet | None:
    """The raylet of this cluster on this machine, with its environment when it may be read."""
    for pid, words in _raylets():
        cluster = _option(words, "--gcs-address")
        if _same(cluster, address):
            return Raylet(
                pid=pid,
                address=cluster,
                python=_option(words, "--python_worker_command").split(" ", 1)[0],
                is_head=_option(words, "--node_ip_address") == cluster.rpartition(":")[0],
                environment=_environment(pid),
            )
    return None


def _same(address: str, wanted: str) -> bool:
    if address == wanted:
        return True
    host, _, port = wanted.rpartition(":")
    return host in _LOCAL_HOSTS and port == address.rpartition(":")[2]


def _raylets() -> Iterator[tuple[int, list[str]]]:
    """Process numbers and command lines of the raylets that can be seen."""
    if not os.path.isdir(PROC):
        return
    for name in os.listdir(PROC):
        if not name.isdigit():
            continue
        try:
            with open(f"{PROC}/{name}/comm", "rb") as file:
                if file.read(64).strip() != b"raylet":
                    continue
            with open(f"{PROC}/{name}/cmdline", "rb") as file:
                words = file.read().decode("utf-8", "surrogateescape").split("\0")
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
        yield int(name), words


def _option(words: list[str], name: str) -> str:
    return next((word[len(name) + 1 :] for word in words if word.startswith(name + "=")), "")


def _environment(pid: int) -> dict[str, Variable] | None:
    try:
        with open(f"{PROC}/{pid}/environ", "rb") as file:
            content = file.read()
    except OSError:
        return None
    source = Source("shell", "environment of the running Ray node")
    variables: dict[str, Variable] = {}
    for entry in content.decode("utf-8", "surrogateescape").split("\0"):
        name, equals, value = entry.partition("=")
        if equals and name:
            variables[name] = make_variable(name, value, source)
    return variables
