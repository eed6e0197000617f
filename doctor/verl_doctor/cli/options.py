"""The options that `check`, `run` and `show` share, and what they mean."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from verl_doctor.catalog import BUILT_IN_PACKAGE
from verl_doctor.language import LANGUAGES, preferred_language

if TYPE_CHECKING:
    from verl_doctor.job.model import Request, Variable
    from verl_doctor.report import Report

_Decorated = Callable[..., Any]

OVERRIDE = re.compile(r"^[^\s=]+=|^~")
"""An override among other words of the command line."""

BUDGET_S = 15.0
LIVE_S = 95.0
"""Seconds for all facts, and how much more when the trackers are written to."""


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    """Seconds, from `90`, `90s`, `2m` or `1h`; raises BadParameter for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value)
    if match is None:
        raise click.BadParameter(f"'{value}' is no duration: write 60s or 2m")
    return float(match[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


_CONFIGURATION_OPTIONS = (
    click.option(
        "--config", "config_file", metavar="FILE", default="", help="A YAML: full, partial, or Hydra's .hydra/config.yaml."
    ),
    click.option(
        "--script", metavar="FILE", default="", help="A launch script: read, never executed; its arguments stand after '--'."
    ),
    click.option("--config-path", metavar="DIR", default="", help="As given to verl."),
    click.option("--config-name", metavar="NAME", default="", help="As given to verl."),
    click.option("--config-dir", metavar="DIR", default="", help="As given to verl."),
)
_JOB_OPTIONS = (
    click.option(
        "--verl", "verl_path", metavar="PATH", default="", help="A verl checkout or wheel (default: the installed one)."
    ),
    click.option("--verl-version", metavar="X.Y.Z", default="", help="When there is no verl to read: which one is meant."),
    click.option("--env", "assignments", metavar="NAME=VALUE", multiple=True, help="A variable of the job's environment."),
    click.option("--env-file", metavar="FILE", default="", help="A file of such variables."),
)
_CHECK_OPTIONS = (
    click.option("--skip", metavar="SELECTOR", multiple=True, help="Leave these checks out."),
    click.option("--fail-on", type=click.Choice(["error", "warning", "info"]), default="error", show_default=True),
    click.option("--allow-incomplete", is_flag=True, help="Status 0 although a check could not look."),
    click.option("--offline", is_flag=True, help="Ask nothing of the network; say what was left out for it."),
    click.option(
        "--budget", type=click.FloatRange(min=0.1), help="Seconds for all facts (default: 15, more with --timeout or --live)."
    ),
    click.option(
        "--timeout",
        "probe_timeout",
        type=click.FloatRange(min=0.1, max=600),
        metavar="SECONDS",
        default=5.0,
        show_default=True,
        help="For one look at a server.",
    ),
    click.option(
        "--wait",
        metavar="DURATION",
        callback=_seconds,
        default="0s",
        help="Look again every 5 s until the servers answer as they should, for at most so long (60s, 2m).",
    ),
    click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True),
    click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the report (default: from the locale)."),
    click.option("-v", "--verbose", count=True, help="Evidence and what could not be decided; -vv: facts and their times."),
    click.option("-q", "--quiet", is_flag=True, help="The counts alone."),
)


def configuration_options(function: _Decorated) -> _Decorated:
    """Add the options that name a configuration to look at."""
    return _add(_CONFIGURATION_OPTIONS, function)


def job_options(function: _Decorated) -> _Decorated:
    """Add the options that say which verl and which environment the job has."""
    return _add(_JOB_OPTIONS, function)


def check_options(function: _Decorated) -> _Decorated:
    """Add the options that say what is checked, how, and how it is shown."""
    return _add(_JOB_OPTIONS + _CHECK_OPTIONS, function)


def _add(options: tuple[Callable[[_Decorated], _Decorated], ...], function: _Decorated) -> _Decorated:
    for option in reversed(options):
        function = option(function)
    return function


def diagnosis_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options as `diagnose` takes them."""
    from verl_doctor.report import Severity

    return {
        "skip": options["skip"],
        "fail_on": Severity(options["fail_on"]),
        "allow_incomplete": options["allow_incomplete"],
        "offline": options["offline"],
        "budget": options["budget"] or _budget(options),
        "probe_timeout": options["probe_timeout"],
        "wait": options["wait"],
        "live": options.get("live", False),
        "notice": lambda text: click.echo(f"verl-doctor: {text}", err=True),
    }


def _budget(options: dict[str, Any]) -> float:
    """Seconds that let every fact have its own time."""
    probe_timeout: float = options["probe_timeout"]
    return max(BUDGET_S, probe_timeout + 10) + (LIVE_S if options.get("live") else 0)


def job_environment(options: dict[str, Any]) -> dict[str, Variable]:
    """The shell's variables, then those of `--env-file`, then those of `--env`; raises BadInput."""
    from verl_doctor.job.environment import read_assignment, read_env_file, shell_environment

    environment = shell_environment()
    if options["env_file"]:
        environment |= {variable.name: variable for variable in read_env_file(options["env_file"])}
    return environment | {variable.name: variable for variable in map(read_assignment, options["assignments"])}


def launch_requests(overrides: Sequence[str], launch: Sequence[str], options: dict[str, Any]) -> list[Request]:
    """The jobs that the words and options of the command line stand for: one, or the launches of a script.

    Raises BadInput and NotAVerlLaunch.
    """
    from verl_doctor.job.launch_script import requests_of_script

    if options["script"]:
        return requests_of_script(options["script"], [*launch, *overrides], launch_request([], [], options))
    return [launch_request(overrides, launch, options)]


def launch_request(overrides: Sequence[str], launch: Sequence[str], options: dict[str, Any]) -> Request:
    """The job that the words and options of the command line stand for, whatever the script; raises BadInput."""
    from verl_doctor.job.model import Argument, Request

    return Request(
        command=[Argument(word) for word in launch],
        overrides=[Argument(word) for word in overrides],
        environment=job_environment(options),
        directory=os.getcwd(),
        config_file=options["config_file"],
        config_path=options["config_path"],
        config_name=options["config_name"],
        config_dir=options["config_dir"],
        verl_path=options["verl_path"],
        verl_version=options["verl_version"],
    )


def write_report(report: Report, options: dict[str, Any], stream: Any = None) -> None:
    """Write the report in the format and language that were asked for, to `stream` (default: stdout)."""
    stream = stream or sys.stdout
    if options["output_format"] == "json":
        from verl_doctor.writers import json as json_writer

        stream.write(json_writer.write(report))
        return
    from rich.console import Console

    from verl_doctor.translation import Translator
    from verl_doctor.writers import text

    language = options["lang"] or preferred_language(os.environ)
    verbosity = -1 if options["quiet"] else options["verbose"]
    console = Console(file=stream, highlight=False, emoji=False)
    text.write(report, console, Translator(language, BUILT_IN_PACKAGE), verbosity)
