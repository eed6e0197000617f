"""`verl-doctor run` with real scripts: a launch that passes starts as if nobody had looked, one that fails does not start."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GOOD = "python3 -m verl.trainer.main_ppo trainer.logger=[console] trainer.total_epochs=1"
BAD = "python3 -m verl.trainer.main_ppo trainer.logger=[wandbb] trainer.total_epochs=1"
STAND_IN = """\
import json, os, signal, sys, time

def read(path):
    with open(path, "rb") as file:
        return file.read()

status = dict(line.split(":", 1) for line in read("/proc/self/status").decode().splitlines())
seen = {
    "words": read("/proc/self/cmdline").hex(),
    "orig_argv": sys.orig_argv,
    "environment": sorted(entry.hex() for entry in read("/proc/self/environ").split(b"\\0")),
    "os.environ": sorted((name.hex(), value.hex()) for name, value in os.environb.items()),
    "path": sys.path,
    "executable": sys.executable,
    "prefix": sys.prefix,
    "name": read("/proc/self/comm").decode(),
    "directory": os.getcwd(),
    "terminal": [os.isatty(number) for number in range(3)],
    "files": [os.readlink(f"/proc/self/fd/{name}").split(":")[0] for name in sorted(os.listdir("/proc/self/fd"))[:3]],
    "count of files": len(os.listdir("/proc/self/fd")),
    "leads its group": os.getpgrp() == os.getpid(),
    "group of its parent": os.getpgrp() == os.getpgid(os.getppid()),
    "session of its parent": os.getsid(0) == os.getsid(os.getppid()),
    "flags": str(sys.flags),
    "signals": [status[name].strip() for name in ("SigIgn", "SigBlk", "SigCgt")],
    "modules": sorted(name for name in sys.modules if "custom" in name),
}
place = os.environ["DUMPS"]
with open(f"{place}/{len(os.listdir(place))}.json", "w") as file:
    json.dump({**seen, "pid": os.getpid()}, file)
print("started", flush=True)
if os.environ.get("BEHAVE") == "read":
    print(sys.stdin.read().upper(), end="")
if os.environ.get("BEHAVE") == "wait":
    time.sleep(60)
sys.exit(int(os.environ.get("STATUS", "0")))
"""


class Bench:
    """A directory with a stand-in for verl, a PATH of its own, and the same script with and without the doctor."""

    def __init__(self, folder):
        self.folder = folder
        self.work = folder / "work"
        self.bin = folder / "bin"
        self.dumps = folder / "dumps"
        for path in (self.work / "verl" / "trainer", self.bin, self.dumps, folder / "home"):
            path.mkdir(parents=True)
        (self.work / "verl" / "__init__.py").touch()
        (self.work / "verl" / "trainer" / "__init__.py").touch()
        for name in ("main_ppo", "sft_trainer"):
            (self.work / "verl" / "trainer" / f"{name}.py").write_text(STAND_IN)
        (self.bin / "python3").symlink_to(sys.executable)
        self.environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "DUMPS": str(self.dumps),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def program(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def command(self, script, *options):
        (self.work / "run.sh").write_bytes(script if isinstance(script, bytes) else script.encode())
        return [*self.doctor(*options), "bash", "run.sh"]

    def doctor(self, *options):
        return [sys.executable, "-m", "verl_doctor", "run", "VERL001", "--offline", "-q", *options, "--"]

    def start(self, command, **options):
        environment = self.environment | options.pop("env", {})
        return subprocess.Popen(
            command, cwd=self.work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )

    def finish(self, command, stdin=b"", **options):
        process = self.start(command, stdin=subprocess.PIPE, **options)
        stdout, stderr = process.communicate(stdin, timeout=60)
        return subprocess.CompletedProcess(command, process.returncode, stdout.decode(), stderr.decode())

    def run(self, script, *options, **more):
        return self.finish(self.command(script, *options), **more)

    def seen(self):
        """What the started stand-ins saw, oldest first; forgets it."""
        files = sorted(self.dumps.iterdir(), key=lambda path: int(path.stem))
        found = [json.loads(path.read_text()) for path in files]
        for path in files:
            path.unlink()
        return found

    def wait_for_start(self):
        end = time.monotonic() + 30
        while not list(self.dumps.iterdir()):
            assert time.monotonic() < end
            time.sleep(0.02)

    def same(self, script, **more):
        """Run the script without and with the doctor; what the launches saw is the same. The second run."""
        self.command(script)
        plain = self.finish(["bash", "run.sh"], **more)
        before = self.seen()
        gated = self.run(script, **more)
        after = self.seen()
        assert before, plain.stderr
        for dump in (*before, *after):
            del dump["pid"]
        assert after == before, gated.stderr
        assert (gated.returncode, gated.stdout) == (plain.returncode, plain.stdout)
        return gated


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_a_launch_that_passes_sees_what_it_would_have_seen(bench):
    done = bench.same(f"export A=1\ncd {bench.work}\n{GOOD}\n")
    assert done.returncode == 0
    assert "0 errors" in done.stderr


def test_words_and_environment_go_through_byte_for_byte(bench):
    script = (
        b"export LONG=$(head -c 10000 /dev/zero | tr '\\0' x)\n"
        b"export LINES_=$'a\\nb' QUOTES=\"it's \\\"x\\\"\" BYTES=$'\\xff\\xfe' EMPTY= 'SPACE= x '\n"
        b'function module() { echo "loaded $1"; }; export -f module\n'
        b"unset PWD\n"
        + GOOD.encode()
        + b" trainer.experiment_name=$'a\\nb\\'c\"d \\xff\\xfe' '' '+x= a  b ' '*' '$HOME' \\\\ $'\\t'\n"
    )
    bench.same(script)
    for locale in ({"LANG": "C"}, {"LANG": "C", "LC_ALL": "POSIX"}, {"LANG": ""}):
        bench.same(script, env=locale)
    bench.same(script, env={"not an identifier": "1", "a.b": "2", "PYTHONHASHSEED": "3", "_": "/x"})


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ({}, "export PYTHONPATH=$PYTHONPATH:/more"),
        ({}, "export PYTHONPATH=/anew"),
        ({"PYTHONPATH": ""}, ":"),
        ({"PYTHONPATH": "/one::/two:"}, ":"),
        ({"PYTHONPATH": "/one"}, 'export PYTHONPATH="$PWD:$PYTHONPATH"'),
        ({"PYTHONPATH": "/one"}, "unset PYTHONPATH"),
        ({}, "export PATH=/opt/cuda/bin:$PATH:/more"),
    ],
)
def test_what_a_script_does_to_its_paths_is_kept(bench, before, line):
    bench.same(f"{line}\n{GOOD}\n", env=before)


def test_the_script_itself_is_started_in_place(bench):
    process = bench.start(bench.command("echo $$; ps -o pid= --ppid $$ 2>/dev/null | wc -l\n"))
    assert int(process.communicate(timeout=60)[0].split()[0]) == process.pid


@pytest.mark.parametrize("status", [0, 7])
def test_the_status_of_the_launch_is_the_status(bench, status):
    assert bench.same(f"{GOOD}\nexit $?\n", env={"STATUS": str(status)}).returncode == status
    assert bench.same(f"exec {GOOD}\n", env={"STATUS": str(status)}).returncode == status


def test_a_launch_that_fails_does_not_start_and_the_script_sees_its_status(bench):
    done = bench.run(f"{BAD}\necho status $?\n{GOOD}\n")
    assert done.stdout == "status 1\nstarted\n"
    assert "1 error," in done.stderr
    assert len(bench.seen()) == 1


def test_set_e_ends_the_script_at_a_launch_that_fails(bench):
    done = bench.run(f"set -e\necho before\n{BAD}\necho after\n")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert bench.seen() == []


def test_several_launches_are_each_checked(bench):
    done = bench.run(f"{GOOD}\n{BAD}\n{GOOD}\n")
    assert done.returncode == 0
    assert done.stdout == "started\nstarted\n"
    assert done.stderr.count("checks passed") == 3


def test_the_report_is_on_stderr_and_names_the_code(bench):
    command = [word for word in bench.command(BAD) if word != "-q"]
    done = bench.finish(command)
    assert done.returncode == 1
    assert "VERL001" in done.stderr
    assert "wandbb" in done.stderr
    assert done.stdout == ""


def test_dry_run_starts_no_launch_and_reports_on_stdout(bench):
    for launch, status in ((GOOD, 0), (BAD, 1)):
        done = bench.run(f"echo first\n{launch}\n", "--dry-run")
        assert done.returncode == status
        assert done.stdout.startswith("first\n")
        assert ("1 error," if status else "0 errors,") in done.stdout
        assert done.stderr == ""
    done = bench.finish([*bench.doctor("--dry-run", "--on-findings", "warn"), *BAD.split()])
    assert done.returncode == 1
    assert bench.seen() == []


def test_warn_starts_all_the_same(bench):
    done = bench.run(f"{BAD}\n", "--on-findings", "warn", env={"STATUS": "7"})
    assert (done.returncode, done.stdout) == (7, "started\n")
    assert "1 error," in done.stderr


def test_an_input_that_cannot_be_read_is_status_2(bench):
    bench.program("ray", '#!/bin/sh\necho "ray $*"\n')
    done = bench.run(f"ray job submit --runtime-env no-such.yaml -- {GOOD}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_into_the_launch_and_out_of_it(bench):
    assert bench.same(f"echo one | {GOOD} | tee log.txt\n", env={"BEHAVE": "read"}).stdout == "started\nONE\n"
    assert (bench.work / "log.txt").read_text() == "started\nONE\n"
    done = bench.run(f"set -o pipefail\n{BAD} 2>&1 | tee log.txt\n")
    assert done.returncode == 1
    assert "1 error," in (bench.work / "log.txt").read_text()


def test_stdin_of_the_command_is_the_stdin_of_the_launch(bench):
    done = bench.same(GOOD, stdin=b"from outside", env={"BEHAVE": "read"})
    assert "FROM OUTSIDE" in done.stdout


def in_a_terminal(bench, command):
    """The output on a terminal that the command controls."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        command, cwd=bench.work, env=bench.environment, stdin=child, stdout=child, stderr=child, start_new_session=True
    )
    os.close(child)
    output = b""
    while process.poll() is None or select.select([parent], [], [], 0)[0]:
        if select.select([parent], [], [], 0.05)[0]:
            try:
                output += os.read(parent, 65536)
            except OSError:  # the other end is closed
                break
    os.close(parent)
    return process.wait(), output.decode()


def test_a_terminal_stays_a_terminal(bench):
    command = bench.command(GOOD)
    in_a_terminal(bench, ["bash", "run.sh"])
    before = bench.seen()[0]
    status, output = in_a_terminal(bench, command)
    after = bench.seen()[0]
    assert status == 0
    assert "started" in output
    assert before.pop("pid") != after.pop("pid")
    assert after == before
    assert after["terminal"] == [True, True, True]


def test_a_background_launch_is_the_process_that_the_shell_knows(bench):
    done = bench.run(f"{GOOD} &\njob=$!\nwait $job\necho $job $?\n", env={"STATUS": "5"})
    seen = bench.seen()[0]
    assert done.stdout == f"started\n{seen['pid']} 5\n"
    bench.same(f"{GOOD} &\nwait $!\n")
    bench.same(f"nohup {GOOD} < /dev/null &\nwait $!\n")


def test_a_signal_reaches_the_launch(bench):
    done = bench.run(
        f"{GOOD} &\njob=$!\nuntil ls {bench.dumps} | grep -q json; do sleep 0.05; done\nkill -TERM $job\nwait $job\necho $?\n",
        env={"BEHAVE": "wait"},
    )
    assert done.stdout == "started\n143\n"


def test_ctrl_c_reaches_the_launch_and_the_script(bench):
    process = bench.start(bench.command(f"{GOOD}\necho not reached\n"), start_new_session=True, env={"BEHAVE": "wait"})
    bench.wait_for_start()
    assert os.getpgid(bench.seen()[0]["pid"]) == process.pid
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in stderr
    assert stdout == b"started\n"
    assert process.returncode == -signal.SIGINT


def test_a_direct_launch_needs_no_doors(bench):
    plain = bench.finish(GOOD.split(), env={"STATUS": "7"})
    before = bench.seen()
    done = bench.finish([*bench.doctor(), *GOOD.split()], env={"STATUS": "7"})
    after = bench.seen()
    del before[0]["pid"], after[0]["pid"]
    assert after == before
    assert done.returncode == plain.returncode == 7
    assert not (bench.folder / "cache").exists()
    assert bench.finish([*bench.doctor(), "nohup", *BAD.split()]).returncode == 1
    assert bench.seen() == []


def test_a_shell_line_is_checked_after_the_shell_has_done_its_work(bench):
    done = bench.finish([*bench.doctor(), "bash", "-c", BAD.replace("wandbb", "$NAME")], env={"NAME": "console"})
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert bench.finish([*bench.doctor(), "bash", "-c", f"NAME=wandbb; {BAD.replace('wandbb', '$NAME')}"]).returncode == 1


def test_a_python_that_is_called_by_its_path(bench):
    python = str(bench.bin / "python3")
    assert bench.same(f"{GOOD.replace('python3', python)}\n").returncode == 0
    assert bench.run(f"{BAD.replace('python3', python)}\n").returncode == 1
    assert bench.run(f"{BAD.replace('python3', sys.executable)}\n").returncode == 1
    assert bench.seen() == []


def test_an_environment_that_the_script_activates(bench):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bench.work / "venv"], check=True)
    activate = "source venv/bin/activate\n"
    done = bench.same(f"{activate}{GOOD}\n")
    assert done.returncode == 0
    bench.run(f"{activate}{GOOD}\n")
    assert bench.seen()[0]["prefix"] == str(bench.work / "venv")
    assert bench.run(f"{activate}{BAD}\n").returncode == 1
    assert bench.seen() == []


def test_an_environment_that_is_active_stays_active_for_other_programs(bench):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bench.work / "venv"], check=True)
    path = f"{bench.work / 'venv' / 'bin'}:{bench.environment['PATH']}"
    script = "python3 -c 'import sys; print(sys.prefix, sys.executable, [p for p in sys.path if \"verl-doctor\" in p])'\n"
    done = bench.run(script, env={"PATH": path})
    assert done.stdout.split() == [str(bench.work / "venv"), str(bench.work / "venv" / "bin" / "python3"), "[]"]


def test_a_script_that_takes_path_away_is_covered_by_the_hook_and_the_other_way_round(bench):
    assert bench.run(f"export PATH={bench.bin}:/usr/bin\n{BAD}\n").returncode == 1
    assert bench.run(f"unset PATH\n{BAD.replace('python3', str(bench.bin / 'python3'))}\n").returncode == 1
    assert bench.run(f"export PYTHONPATH=/anew\n{BAD}\n").returncode == 1
    assert bench.run(f"{BAD.replace('python3', 'python3 -E')}\n").returncode == 1
    assert bench.seen() == []
    bench.same(f"export PATH={bench.bin}:/usr/bin\n{GOOD}\n")


def test_a_launcher_in_python(bench):
    (bench.work / "launch.py").write_text(
        "import subprocess, sys\n"
        "command = [sys.argv[1], *sys.argv[2].split()[1:]]\n"
        "sys.exit(subprocess.run(command).returncode)\n"
    )
    for python in ("python3", sys.executable):
        assert bench.run(f"python3 launch.py {python} '{BAD}'\n").returncode == 1
        assert bench.run(f"{sys.executable} launch.py {python} '{BAD}'\n").returncode == 1
        assert bench.finish([*bench.doctor(), "python3", "launch.py", python, BAD]).returncode == 1
        assert bench.seen() == []
        assert bench.finish([*bench.doctor(), "python3", "launch.py", python, GOOD]).returncode == 0
        assert len(bench.seen()) == 1


def test_uv_run(bench):
    bench.program("uv", '#!/bin/sh\nshift\nexec "$@"\n')
    assert bench.same(f"uv run {GOOD}\n").stderr.count("checks passed") == 1
    done = bench.run(f"uv run {BAD}\n")
    assert done.returncode == 1
    assert done.stderr.count("checks passed") == 1
    assert bench.seen() == []


def test_ray_job_submit(bench):
    bench.program("ray", '#!/bin/sh\necho "ray $1 $2 ${PYTHONPATH-unset} ${VERL_DOCTOR_GATE-unset}"; exit 4\n')
    done = bench.run(f"ray job submit --address http://head:8265 -- {GOOD}\n", "--allow-incomplete")
    assert (done.returncode, done.stdout) == (4, "ray job submit unset unset\n")
    done = bench.run(f"ray job submit --address http://head:8265 -- {BAD}\n")
    assert (done.returncode, done.stdout) == (1, "")
    done = bench.run("ray start --head\n")
    assert (done.returncode, done.stdout, done.stderr) == (4, "ray start --head unset unset\n", "")


def test_a_program_that_is_no_python_starts_as_ever(bench):
    """Also one without a first line, and with the signals that Python ignores."""
    bench.program("uv", "echo $0 $@; exit 3\n")
    bench.program(
        "ray", "#!/bin/sh\ntr '\\0' '|' < /proc/$$/cmdline; env | grep -v '^_='; grep SigIgn /proc/$$/status; exit 3\n"
    )
    script = f"ray status 'a b'\nray job submit -- {GOOD}\nuv sync\nuv run {GOOD}\nfalse\n"
    bench.command(script)
    plain = bench.finish(["bash", "run.sh"])
    done = bench.run(script, "--allow-incomplete")
    assert "SigIgn" in plain.stdout
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)


def test_ray_that_is_a_python_program_outside_path(bench):
    bench.program(
        "ray", f"#!{sys.executable}\nimport os, sys\nprint(sys.argv[1:3], 'gate' in repr(os.environ).lower(), sys.path[1:2])\n"
    )
    hidden = bench.folder / "elsewhere"
    hidden.mkdir()
    (bench.bin / "ray").rename(hidden / "ray")
    done = bench.run(f"{hidden}/ray start --head\n")
    assert done.stdout.startswith("['start', '--head'] False")
    assert bench.run(f"{hidden}/ray job submit -- {BAD}\n").returncode == 1
    done = bench.run(f"{hidden}/ray job submit -- {GOOD}\n", "--allow-incomplete")
    assert done.stdout.startswith("['job', 'submit'] False")


@pytest.mark.parametrize(
    "text",
    ['#!/bin/sh\nshift\nexec python3 "$@"\n', "#!{python}\nimport os, sys\nos.execvp('python3', ['python3', *sys.argv[2:]])\n"],
)
def test_torchrun(bench, text):
    bench.program("torchrun", text.format(python=sys.executable))
    launch = "torchrun --standalone -m verl.trainer.sft_trainer trainer.logger=[console] data.train_files=x"
    done = bench.same(f"{launch}\n")
    assert done.stderr.count("checks passed") == 1
    assert bench.run(launch.replace("[console]", "[wandbb]")).returncode == 1
    assert bench.seen() == []


def test_what_is_no_launch_is_left_alone(bench):
    script = (
        "python3 -c 'import sys; print(sys.argv[1:])' verl.trainer.main_ppo 'a b' ''\n"
        "python3 -c 'import os, sys; sys.exit(\"VERL_DOCTOR_SEEN\" in os.environ)' -- verl.trainer; echo $?\n"
        "echo 'print(1)' | python3 -\n"
        "python3 - <<< 'print(2)' verl.trainer.main_ppo\n"
        f"{GOOD} --help\n"
        "python3 no-such-file.py; echo $?\n"
        "yes | head -1\n"
    )
    bench.command(script)
    plain = bench.finish(["bash", "run.sh"])
    done = bench.run(script)
    assert done.stdout == plain.stdout
    assert "checks passed" not in done.stderr


def test_the_doctor_inside_a_script_is_the_doctor(bench):
    check = f"{sys.executable} -m verl_doctor check VERL001 --offline -q -- {BAD}"
    bench.program("verl-doctor", f"#!{sys.executable}\nfrom verl_doctor.cli import main\nmain()\n")
    done = bench.run(f"{check}\nverl-doctor check VERL001 --offline -q -- {BAD}\n")
    assert done.stdout.count("1 error,") == 2
    assert done.stderr == ""
    again = f"verl-doctor run VERL001 --offline -q -- bash -c '{GOOD}'"
    assert bench.run(f"{again}\n").stdout == "started\n"
    assert b"VERL_DOCTOR_GATE".hex() not in json.dumps(bench.seen())


def test_the_next_sitecustomize_still_runs(bench):
    (bench.work / "site").mkdir()
    (bench.work / "site" / "sitecustomize.py").write_text("import sys\nsys.mine = __name__\n")
    environment = {"PYTHONPATH": str(bench.work / "site")}
    done = bench.run("python3 -c 'import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)'\n", env=environment)
    assert done.stdout.split() == ["sitecustomize", str(bench.work / "site" / "sitecustomize.py")]
    bench.same(GOOD, env=environment)


def test_modules_in_the_current_directory_are_found_as_before(bench):
    (bench.work / "scripts").mkdir()
    (bench.work / "scripts" / "prepare.py").write_text("import beside\nprint(beside.__name__)\n")
    (bench.work / "beside.py").touch()
    assert bench.run("export PYTHONPATH=$PYTHONPATH:/more\npython3 scripts/prepare.py\n").stdout == "beside\n"


def test_nothing_grows_and_nothing_is_left_in_the_working_directory(bench):
    def files():
        return {path for path in bench.folder.rglob("*") if "__pycache__" not in path.parts and path.suffix != ".json"}

    bench.run(f"{GOOD}\n{BAD}\npython3 -c pass\n")
    before = files()
    bench.run(f"{GOOD}\n{BAD}\npython3 -c pass\n", "--dry-run")
    assert files() == before
    assert {path.name for path in bench.work.iterdir()} == {"run.sh", "verl"}
    assert list((bench.folder / "home").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no command"),
        (["--"], "no launch command"),
        (["--env", "A=1", "--", "true"], "--env"),
        (["wandbb", "--", "true"], "wandb"),
        (["--skip", "wandbb", "--", "true"], "wandb"),
        (["--verl", "/nonexistent", "--", "true"], "/nonexistent"),
        (["--on-findings", "x", "--", "true"], "--on-findings"),
        (["--", "no-such-command"], "no-such-command"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(bench, arguments, said):
    done = bench.finish([sys.executable, "-m", "verl_doctor", "run", *arguments])
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_interpreters_of_every_version(bench):
    """The hook runs in the job's Python, which may be older or newer than the doctor's."""
    found = [path for version in ("3.10", "3.12", "3.13", "3.14") if (path := _interpreter(version))]
    for python in found:
        bench.same(f"{GOOD.replace('python3', python)}\n")
        assert bench.run(f"{BAD.replace('python3', python)}\n").returncode == 1
    assert bench.seen() == []


def _interpreter(version):
    for folder in sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*"), reverse=True):
        if (folder / "bin" / "python3").exists():
            return str(folder / "bin" / "python3")
    found = shutil.which(f"python{version}")
    return found if found and "shims" not in found else None
