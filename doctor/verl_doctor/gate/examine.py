"""Looks at one command before it starts: whether it is a launch of verl, and what is wrong with it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verl_doctor.errors import BadInput
from verl_doctor.secrets import scrub

if TYPE_CHECKING:
    from verl_doctor.job.launch import Launch
    from verl_doctor.report import Report

_PRINTS_ONLY = frozenset(
    ("--help", "-h", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc")
)
"""Options with which Hydra prints something and starts nothing (hydra-core 1.3.2, _internal/utils.py)."""

_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))


def examine(
    words: Sequence[str], environment: dict[bytes, bytes], options: dict[str, Any], *, in_shells: bool = True
) -> int | None:
    """Check a command and write the report. None when it is no launch of verl, else the exit status of the report.

    `environment` becomes that of this process. A launch inside a shell of this machine (`bash -c '...'`) does not count unless
    `in_shells`: what the shell makes of it is seen at the doors. 2: an input cannot be read. 3: a check could not look, or the
    doctor itself failed.
    """
    os.environb.clear()
    os.environb.update(environment)
    try:
        launch = _find_launch(words)
        if launch is None or (_runs_in_a_shell(launch) and not in_shells):
            return None
        report = _diagnose(words, options)
    except BadInput as error:
        say(str(error))
        return 2
    except Exception as error:  # noqa: BLE001 - a fault of the doctor must not look like a finding
        say(f"the launch could not be checked: {type(error).__name__}: {error}")
        return 0 if options["allow_incomplete"] else 3
    _write(report, options)
    return report.exit_status


def may_start(status: int, options: dict[str, Any]) -> bool:
    """Whether the launch starts after a report with this exit status."""
    return not options["dry_run"] and (status == 0 or options["on_findings"] == "warn")


def say(text: str) -> None:
    """One line on stderr without credentials."""
    with contextlib.suppress(OSError):
        print(f"verl-doctor: {scrub(' '.join(text.split()))}", file=sys.stderr, flush=True)  # noqa: T201 - the interface


def _find_launch(words: Sequence[str]) -> Launch | None:
    from verl_doctor.job.command import NotAVerlLaunch, parse_command
    from verl_doctor.job.model import Argument

    try:
        launch = parse_command([Argument(word) for word in words], os.getcwd())
    except NotAVerlLaunch:
        return None
    return None if any(argument.text in _PRINTS_ONLY for argument in launch.arguments) else launch


def _runs_in_a_shell(launch: Launch) -> bool:
    return not launch.drops_environment and not _SHELLS.isdisjoint(launch.launchers)


def _diagnose(words: Sequence[str], options: dict[str, Any]) -> Report:
    from verl_doctor.cli.options import diagnosis_options
    from verl_doctor.diagnosis import diagnose
    from verl_doctor.job.environment import shell_environment
    from verl_doctor.job.model import Argument, Request

    request = Request(
        command=[Argument(word) for word in words],
        environment=shell_environment(),
        directory=os.getcwd(),
        verl_path=options["verl_path"],
        verl_version=options["verl_version"],
    )
    return diagnose([request], options["selectors"], **diagnosis_options(options))


def _write(report: Report, options: dict[str, Any]) -> None:
    from verl_doctor.cli.options import write_report

    stream = sys.stdout if options["dry_run"] else sys.stderr
    if stream is None:  # the caller has closed it
        return
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    with contextlib.suppress(BrokenPipeError):  # nobody reads it: the verdict stands
        write_report(report, options, stream)
        stream.flush()
