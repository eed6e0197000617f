"""What `verl-doctor run` costs: a Python that is no launch, and a launch of verl, with and without the gate, side by side.

    python benchmarks/gate.py [--rounds 15]

Wall milliseconds of one command. A script repeats the command, so that the start of the doctor counts once, in a line of its
own; the variants take turns, so that a machine whose speed drifts treats them alike.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEATS = 5
NO_LAUNCH = "python3 -c pass"
LAUNCH = "python3 -m verl.trainer.main_ppo trainer.logger=[console] trainer.project_name=demo trainer.experiment_name=one"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        environment = _prepare(Path(folder))
        commands = _commands(Path(folder))
        figures: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(rounds + 1):
            for name, (command, repeats) in commands.items():
                spent = _measure(command, folder, environment)
                if turn:  # the first turn warms the page cache and installs the doors
                    figures[name].append(spent / repeats)
    _print(figures)


def _prepare(folder: Path) -> dict[str, str]:
    """A stand-in for verl that does nothing, and a PATH without wrappers."""
    (folder / "verl" / "trainer").mkdir(parents=True)
    for name in ("verl/__init__.py", "verl/trainer/__init__.py", "verl/trainer/main_ppo.py"):
        (folder / name).touch()
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(sys.executable)
    return {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}


def _commands(folder: Path) -> dict[str, tuple[list[str], int]]:
    doctor = [sys.executable, "-m", "verl_doctor", "run", "-q", "--"]
    commands: dict[str, tuple[list[str], int]] = {"bash, nothing": (["bash", "-c", ":"], 1)}
    commands["bash, nothing, gated"] = ([*doctor, "bash", "-c", ":"], 1)
    absolute = str(folder / "bin" / "python3")
    for name, line in {
        "python, no launch": NO_LAUNCH,
        "python by its path, no launch": NO_LAUNCH.replace("python3", absolute),
        "launch": LAUNCH,
        "launch by the path of python": LAUNCH.replace("python3", absolute),
    }.items():
        script = folder / f"{name.replace(' ', '-')}.sh"
        script.write_text(f"{line}\n" * REPEATS, encoding="utf-8")
        commands[name] = (["bash", str(script)], REPEATS)
        commands[f"{name}, gated"] = ([*doctor, "bash", str(script)], REPEATS)
    return commands


def _measure(command: list[str], folder: str, environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begun) * 1000


def _print(figures: dict[str, list[float]]) -> None:
    start = statistics.median(figures["bash, nothing, gated"]) - statistics.median(figures["bash, nothing"])
    print(f"start of the doctor, once a command: {start:.0f} ms; taken off below")
    print(f"{'one command':<32} {'plain ms':>9} {'gated ms':>9} {'more ms':>8}")
    for name in [name for name in figures if f"{name}, gated" in figures][1:]:
        plain = statistics.median(figures[name])
        gated = statistics.median(figures[f"{name}, gated"]) - start / REPEATS
        print(f"{name:<32} {plain:>9.1f} {gated:>9.1f} {gated - plain:>8.1f}")


if __name__ == "__main__":
    main()
