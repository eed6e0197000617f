"""Runs a script of ours in the job's Python, which has packages that ours lacks: no terminal, one answer, a hard deadline."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LIMIT_BYTES = 4 * 1024 * 1024
_START = (
    "import sys\n"
    "sys.path = [p for p in sys.path if p]\n"  # a netrc.py in the working directory must not be taken for the module
    "import json, os\n"
    "scope = {'__name__': 'child'}\n"
    "exec(compile(open(sys.argv[1], encoding='utf-8').read(), sys.argv[1], 'exec'), scope)\n"
    "with os.fdopen(int(sys.argv[2]), encoding='utf-8') as pipe: request = json.load(pipe)\n"
    "answer = json.dumps(scope['answer'](request))\n"
    "with os.fdopen(int(sys.argv[3]), 'w', encoding='utf-8') as pipe: pipe.write(answer)\n"
)


class NoAnswer(Exception):
    """The child gave no answer; the message says why."""


def ask_python(
    python: str, script: Path, request: Any, *, environment: Mapping[str, str], timeout: float, directory: str = "/"
) -> Any:
    """What `answer(request)` of a script returns in another Python. `timeout` is seconds, starting the Python included.

    Request and answer are plain data and travel through pipes, so that nothing in them is seen in the list of processes.
    Whatever the child started is killed with it. Raises NoAnswer.
    """
    end = time.monotonic() + timeout
    request_out, request_in = os.pipe()
    answer_out, answer_in = os.pipe()
    try:
        child = subprocess.Popen(  # noqa: S603 - a fixed program text for the job's own Python
            [python, "-c", _START, str(script), str(request_out), str(answer_in)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            cwd=directory,
            pass_fds=(request_out, answer_in),
            start_new_session=True,
        )
    except OSError as error:
        for descriptor in (request_out, request_in, answer_out, answer_in):
            os.close(descriptor)
        raise NoAnswer(f"{python} cannot be started: {error.strerror}") from None
    os.close(request_out)
    os.close(answer_in)
    try:
        _send(request_in, json.dumps(request).encode())
        text = _receive(answer_out, end)
    finally:
        os.close(answer_out)
        _end(child)
    if not text:
        raise NoAnswer("it ended without an answer")
    return json.loads(text)


def _send(descriptor: int, data: bytes) -> None:
    try:
        with os.fdopen(descriptor, "wb") as pipe:
            pipe.write(data)
    except BrokenPipeError:
        return  # it died before it read: the missing answer says so


def _receive(descriptor: int, end: float) -> bytes:
    """All that comes until the other end is closed. Raises NoAnswer at the deadline, and for too much."""
    received = bytearray()
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise NoAnswer("no answer in time")
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return bytes(received)
        received += chunk
        if len(received) > _LIMIT_BYTES:
            raise NoAnswer("the answer is too long")


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
