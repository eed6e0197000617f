"""Time to a verdict on a broken network, side by side in one run: `verl-doctor check logger` against the clients' own ways.

    python benchmarks/network.py --other /path/to/venv/bin [--bound 60]

`--other` names the folder of an environment with wandb, mlflow, swanlab and verl, which is also the job's. The faults are
staged on loopback: a port without a server, a name that does not exist, a server whose queue of connections is full (so that
packets are dropped as by a firewall), and a certificate of an unknown authority. Each client runs as a whole process with its
defaults and is ended at the bound. A client stands for its tracker's first step in verl: `wandb login --verify`,
`mlflow.set_experiment`, `swanlab login`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from staged import Authority, Server, answer

AT_ONCE = 4
WANDB_KEY, SWANLAB_KEY = "a" * 40, "k" * 21
MLFLOW = "import mlflow, sys; mlflow.set_tracking_uri(sys.argv[1]); mlflow.set_experiment('p')"
LAYERS = {"refused": "tcp", "unknown name": "dns", "black hole": "tcp", "unknown authority": "tls"}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True)
    parser.add_argument("--bound", type=float, default=60.0, help="seconds after which a client is ended")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        faults = stage(Path(folder), stack)
        cases = [(fault, tracker) for fault in faults for tracker in ("wandb", "mlflow", "swanlab")]
        ours = [check(arguments.other, Path(folder), tracker, faults[fault]) for fault, tracker in cases]
        with ThreadPoolExecutor(AT_ONCE) as pool:  # they wait more than they work
            theirs = list(
                pool.map(lambda case: client(arguments, Path(folder), case[1], faults[case[0]]), cases),
            )
    print(f"{'fault':<18} {'tracker':<8} {'ours, s':>8} {'verdict':<24} {'theirs, s':>9} {'times':>7}  what it says last")
    for (fault, tracker), (seconds, codes), (other, said) in zip(cases, ours, theirs, strict=True):
        ended = other >= arguments.bound
        shown = f">{arguments.bound:.0f}" if ended else f"{other:.1f}"
        factor = f"{'>' if ended else ''}{other / seconds:.0f}x"
        right = codes if LAYERS[fault] in codes else f"{codes} WRONG"
        print(f"{fault:<18} {tracker:<8} {seconds:>8.2f} {right:<24} {shown:>9} {factor:>7}  {said[:90]}")


def stage(folder: Path, stack: contextlib.ExitStack) -> dict[str, str]:
    """The addresses of the faults; `stack` ends what serves them."""
    reserved = stack.enter_context(socket.socket())
    reserved.bind(("127.0.0.1", 0))
    full = stack.enter_context(socket.socket())
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    for _ in range(4):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(full.getsockname())
    secured = Server(answer(), context=Authority(folder).server())
    stack.callback(secured.close)
    return {
        "refused": f"http://127.0.0.1:{reserved.getsockname()[1]}",
        "unknown name": "http://trackers.invalid",
        "black hole": f"http://127.0.0.1:{full.getsockname()[1]}",
        "unknown authority": f"https://127.0.0.1:{secured.port}",
    }


def environment(folder: Path, tracker: str, url: str) -> dict[str, str]:
    """What a job has in its environment for this tracker at this address; a home of its own, no proxy."""
    home = tempfile.mkdtemp(dir=folder)
    return {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "RAY_ADDRESS": "local"} | {
        "wandb": {"WANDB_BASE_URL": url, "WANDB_API_KEY": WANDB_KEY, "WANDB_ERROR_REPORTING": "false"},
        "mlflow": {"MLFLOW_TRACKING_URI": url, "MLFLOW_DISABLE_TELEMETRY": "true"},
        "swanlab": {"SWANLAB_API_HOST": url, "SWANLAB_API_KEY": SWANLAB_KEY},
    }[tracker]


def check(other: Path, folder: Path, tracker: str, url: str) -> tuple[float, str]:
    """Seconds of our check, and the code and the layer of what it found about the way to the server."""
    doctor = str(Path(sys.executable).parent / "verl-doctor")
    job = ["--", str(other / "python"), "-m", "verl.trainer.main_ppo", f"trainer.logger=[{tracker}]"]
    variables = environment(folder, tracker, url)
    begun = time.monotonic()
    done = subprocess.run(
        [doctor, "check", "logger", "--format", "json", *job],
        capture_output=True,
        text=True,
        env=variables,
        cwd=variables["HOME"],
        check=False,
    )
    seconds = time.monotonic() - begun
    return seconds, ", ".join(dict.fromkeys(_layers(json.loads(done.stdout)))) or "nothing found"


def _layers(report: dict[str, list[dict[str, object]]]) -> Iterator[str]:
    for result in report["results"]:
        evidence = result["evidence"]
        if result["state"] == "fail" and isinstance(evidence, dict) and "layer" in evidence:
            yield f"{result['code']} {evidence['layer']} {evidence.get('cause', '')}".strip()


def client(arguments: argparse.Namespace, folder: Path, tracker: str, url: str) -> tuple[float, str]:
    """Seconds of the client's own way, at most the bound, and the last line that it says."""
    other: Path = arguments.other
    command = {
        "wandb": [str(other / "wandb"), "login", "--verify"],
        "mlflow": [str(other / "python"), "-c", MLFLOW, url],
        "swanlab": [str(other / "swanlab"), "login", "-k", SWANLAB_KEY, "-h", url],
    }[tracker]
    variables = environment(folder, tracker, url)
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=variables,
            cwd=variables["HOME"],
            start_new_session=True,
        )
        try:
            process.wait(arguments.bound)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        seconds = time.monotonic() - begun
        output.seek(0)
        lines = [line.strip() for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    return seconds, lines[-1] if lines else ""


if __name__ == "__main__":
    main()
