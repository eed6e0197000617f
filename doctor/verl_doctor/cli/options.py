"""The options that `check` and `run` share, and what they mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from verl_doctor.catalog import BUILT_IN_PACKAGE
from verl_doctor.language import LANGUAGES, preferred_language

if TYPE_CHECKING:
    from verl_doctor.job.model import Variable
    from verl_doctor.report import Report

_Decorated = Callable[..., Any]

_OPTIONS = (
    click.option(
        "--verl", "verl_path", metavar="PATH", default="", help="A verl checkout or wheel (default: the installed one)."
    ),
    click.option("--verl-version", metavar="X.Y.Z", default="", help="When there is no verl to read: which one is meant."),
    click.option("--env", "assignments", metavar="NAME=VALUE", multiple=True, help="A variable of the job's environment."),
    click.option("--env-file", metavar="FILE", default="", help="A file of such variables."),
    click.option("--skip", metavar="SELECTOR", multiple=True, help="Leave these checks out."),
    click.option("--fail-on", type=click.Choice(["error", "warning", "info"]), default="error", show_default=True),
    click.option("--allow-incomplete", is_flag=True, help="Status 0 although a check could not look."),
    click.option("--offline", is_flag=True, help="Ask nothing of the network; say what was left out for it."),
    click.option("--budget", type=click.FloatRange(min=0.1), default=15.0, show_default=True, help="Seconds for all facts."),
    click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True),
    click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the report (default: from the locale)."),
    click.option("-v", "--verbose", count=True, help="Evidence and what could not be decided; -vv: facts and their times."),
    click.option("-q", "--quiet", is_flag=True, help="The counts alone."),
)


def check_options(function: _Decorated) -> _Decorated:
    """Add the options that say what is checked, how, and how it is shown."""
    for option in reversed(_OPTIONS):
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
        "budget": options["budget"],
        "notice": lambda text: click.echo(f"verl-doctor: {text}", err=True),
    }


def job_environment(options: dict[str, Any]) -> dict[str, Variable]:
    """The shell's variables, then those of `--env-file`, then those of `--env`; raises BadInput."""
    from verl_doctor.job.environment import read_assignment, read_env_file, shell_environment

    environment = shell_environment()
    if options["env_file"]:
        environment |= {variable.name: variable for variable in read_env_file(options["env_file"])}
    return environment | {variable.name: variable for variable in map(read_assignment, options["assignments"])}


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
