"""Scripts in another Python: what goes in and out, and what becomes of those that misbehave."""

import os
import sys
import time
from pathlib import Path

import pytest

from verl_doctor.stores.child import NoAnswer, ask_python


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write


def ask(path, request=None, *, timeout=10, **environment):
    return ask_python(sys.executable, path, request, environment={"PATH": os.environ["PATH"]} | environment, timeout=timeout)


def test_request_and_answer(script):
    path = script("def answer(request): return {'twice': request['text'] * 2}")
    assert ask(path, {"text": "字 " * 50_000}) == {"twice": "字 " * 100_000}


def test_what_the_script_prints_is_not_taken_for_the_answer(script):
    path = script("import sys\ndef answer(request):\n    print('noise')\n    sys.stderr.write('noise')\n    return 1")
    assert ask(path) == 1


def test_the_child_has_no_terminal_and_only_the_given_environment(script):
    path = script("import os, sys\ndef answer(request): return [sys.stdin.read(), sorted(os.environ)]")
    text, names = ask(path, GIVEN="1")
    assert text == ""
    assert set(names) - {"LC_CTYPE"} == {"GIVEN", "PATH"}


def test_modules_of_the_working_directory_are_not_imported(script, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit")
    path = script("import json\ndef answer(request): return json.__file__")
    found = ask_python(sys.executable, path, None, environment={}, timeout=10, directory=str(tmp_path))
    assert not found.startswith(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "def answer(request): raise ValueError",
        "def answer(request): return object()",
        "import os\ndef answer(request): os._exit(0)",
        "import os\ndef answer(request): os.kill(os.getpid(), 9)",
        "this is no Python",
    ],
)
def test_no_answer(script, text):
    with pytest.raises(NoAnswer):
        ask(script(text))


def test_a_python_that_is_not_there(script):
    with pytest.raises(NoAnswer, match="cannot be started"):
        ask_python("/no/python", script("def answer(request): return 1"), None, environment={}, timeout=5)


def test_a_child_that_hangs_is_ended_with_its_own_children(script, tmp_path):
    path = script(
        f"import os, subprocess, time\ndef answer(request):\n    p = subprocess.Popen(['sleep', '100'])\n"
        f"    open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n    time.sleep(100)"
    )
    begun = time.monotonic()
    with pytest.raises(NoAnswer, match="in time"):
        ask(path, timeout=2)
    assert time.monotonic() - begun < 5
    pid = (tmp_path / "pid").read_text()
    for _ in range(50):
        if not is_running(pid):
            break
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] not in "ZX"
    except FileNotFoundError:
        return False


def test_an_endless_answer_is_cut(script):
    path = script("def answer(request): return 'x' * 50_000_000")
    with pytest.raises(NoAnswer, match="too long"):
        ask(path)


def test_no_descriptor_is_left_open(script):
    before = sorted(os.listdir("/proc/self/fd"))
    ask(script("def answer(request): return 1"))
    with pytest.raises(NoAnswer):
        ask_python("/no/python", script(""), None, environment={}, timeout=5)
    assert sorted(os.listdir("/proc/self/fd")) == before
