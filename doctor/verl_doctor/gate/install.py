"""Puts the doors where they can be found, and makes the environment that leads to them.

A command that is started with exec leaves nobody to clean up after it, so the doors are not made for each run: they stay in
the user's cache folder, named by their content, and the next run uses the same ones. Not in /tmp or XDG_RUNTIME_DIR: those
are emptied after some days or at logout, while a shell that runs for weeks has remembered the path of a door.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from verl_doctor.errors import BadInput
from verl_doctor.gate.entrance import GATE, find_program, restored

PROGRAMS = (
    "python", "python3", "python3.10", "python3.11", "python3.12", "python3.13",
    "torchrun", "ray", "uv", "accelerate", "deepspeed",
)  # fmt: skip
_JUDGE = """\
import json, os, sys
sys.path += json.loads(os.environ["VERL_DOCTOR_GATE"])["path"]
from verl_doctor.gate.judge import main
main()
"""
_MAX_SHEBANG = 120
"""Linux before 5.1 reads 127 bytes of the first line of a script."""


def install(environment: Mapping[bytes, bytes]) -> Path:
    """The folder of the doors, made when it is not there; only programs that PATH has get one. Raises BadInput."""
    names = [name for name in PROGRAMS if find_program(name.encode(), dict(environment))]
    text = importlib.resources.files("verl_doctor.gate").joinpath("entrance.py").read_text(encoding="utf-8")
    key = hashlib.blake2b("\0".join([text, _JUDGE, sys.executable, *names]).encode(), digest_size=8).hexdigest()
    root = _private_folder() / f"gate-{key}"
    call = f"({os.fsencode(root)!r}, {os.fsencode(sys.executable)!r})\n"
    shebang = f"#!{_interpreter(root)} -ISB\n"
    for name in names:
        _write(root / "bin" / name, f"{shebang}{text}\n\ndoor{call}", 0o700)
    for before in ("unset", "empty", "first"):
        _write(root / "hook" / before / "sitecustomize.py", f"{text}\n\nhook{call}", 0o600)
    _write(root / "judge.py", _JUDGE, 0o600)
    return root


def gated(environment: Mapping[bytes, bytes], options: Mapping[str, Any]) -> dict[bytes, bytes]:
    """The environment with the doors in it; installs them. `options` are for the judge. Raises BadInput."""
    result = dict(environment)
    if GATE in result:
        result = restored(result, os.fsencode(json.loads(result[GATE])["root"]))
    root = install(result)
    folder = os.fsencode(root)
    if result.get(b"PATH"):
        result[b"PATH"] = folder + b"/bin:" + result[b"PATH"]
    before = result.get(b"PYTHONPATH")
    if before:
        result[b"PYTHONPATH"] = folder + b"/hook/first:" + before
    else:
        result[b"PYTHONPATH"] = folder + (b"/hook/unset" if before is None else b"/hook/empty")
    passed = {**options, "root": str(root), "path": [entry for entry in sys.path if os.path.isabs(entry)]}
    result[GATE] = json.dumps(passed).encode()
    return result


def _interpreter(root: Path) -> Path:
    """What the first line of a door names: a link to this Python when its own path cannot stand there."""
    python = Path(sys.executable)
    if _fits(python):
        return python
    link = root / "interpreter"
    if not _fits(link):
        raise BadInput(f"the front doors cannot be in '{root}': the path is too long or holds a blank; set XDG_CACHE_HOME")
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(python)
    return link


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= _MAX_SHEBANG and not any(character.isspace() for character in str(path))


def _private_folder() -> Path:
    """A folder that is this user's alone and from which programs can be started."""
    reasons = []
    for folder in _candidates():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.lstat()
            noexec = os.statvfs(folder).f_flag & os.ST_NOEXEC
        except OSError as error:
            reasons.append(f"'{folder}': {error.strerror}")
            continue
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            reasons.append(f"'{folder}': others can write there")
        elif noexec or not os.access(folder, os.W_OK | os.X_OK):
            reasons.append(f"'{folder}': programs there cannot be written or started")
        else:
            return folder
    raise BadInput(f"there is no folder for the front doors ({'; '.join(reasons)}); set XDG_CACHE_HOME to one of your own")


def _candidates() -> Iterator[Path]:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(cache):
        yield Path(cache) / "verl-doctor"
    home = os.path.expanduser("~")
    if os.path.isabs(home) and os.path.isdir(home):
        yield Path(home) / ".cache" / "verl-doctor"
    yield Path(tempfile.gettempdir()) / f"verl-doctor-{os.getuid()}"


def _write(path: Path, text: str, mode: int) -> None:
    """Make the file unless it is there with this content; another run may do the same at the same time."""
    content = text.encode("utf-8")
    try:
        if path.read_bytes() == content and stat.S_IMODE(path.stat().st_mode) == mode:
            return
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.chmod(name, mode)
    os.replace(name, path)
