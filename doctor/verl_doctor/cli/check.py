"""`verl-doctor check`: judge a job before it starts."""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import datetime, timezone
from typing import Any

import click

from verl_doctor import __version__
from verl_doctor.catalog import BUILT_IN_PACKAGE
from verl_doctor.cli import fail
from verl_doctor.language import LANGUAGES, preferred_language

_OVERRIDE = re.compile(r"^(\+{0,2}|~)[^\s=]+=|^~")


class _CheckCommand(click.Command):
    """Keeps the words after `--` apart: click would mix them with the others."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            split = args.index("--")
            args, ctx.meta["launch"] = args[:split], args[split + 1 :]
            if not ctx.meta["launch"]:
                raise click.UsageError("there is no launch command after '--'")
        return super().parse_args(ctx, args)


@click.command("check", cls=_CheckCommand, options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[SELECTOR...] [OVERRIDE...] [-- LAUNCH COMMAND...]")
@click.option(
    "--config", "config_file", metavar="FILE", default="", help="A YAML: full, partial, or Hydra's .hydra/config.yaml."
)
@click.option("--config-path", metavar="DIR", default="", help="As given to verl.")
@click.option("--config-name", metavar="NAME", default="", help="As given to verl.")
@click.option("--config-dir", metavar="DIR", default="", help="As given to verl.")
@click.option("--verl", "verl_path", metavar="PATH", default="", help="A verl checkout or wheel (default: the installed one).")
@click.option("--verl-version", metavar="X.Y.Z", default="", help="When there is no verl to read: which one is meant.")
@click.option("--env", "assignments", metavar="NAME=VALUE", multiple=True, help="A variable of the job's environment.")
@click.option("--env-file", metavar="FILE", default="", help="A file of such variables.")
@click.option("--skip", "skipped", metavar="SELECTOR", multiple=True, help="Leave these checks out.")
@click.option("--fail-on", type=click.Choice(["error", "warning", "info"]), default="error", show_default=True)
@click.option("--allow-incomplete", is_flag=True, help="Status 0 although a check could not look.")
@click.option("--offline", is_flag=True, help="Ask nothing of the network; say what was left out for it.")
@click.option(
    "--budget", type=click.FloatRange(min=0.1), default=15.0, show_default=True, help="Seconds for all facts together."
)
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the report (default: from the locale).")
@click.option("-v", "--verbose", count=True, help="Evidence and what could not be decided; -vv: facts and their times.")
@click.option("-q", "--quiet", is_flag=True, help="The counts alone.")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], **options: Any) -> None:
    """Say what will fail, lie or lose data in the experiment tracking of a verl job.

    SELECTOR is a topic (logger, names, secrets, ...), a backend (wandb, mlflow, ...), a code or its name; all by default.
    OVERRIDE is a Hydra override as verl takes it, for example trainer.logger=[console,wandb].
    """
    from verl_doctor.errors import BadInput
    from verl_doctor.job.command import NotAVerlLaunch
    from verl_doctor.planner import UnknownSelector

    selectors = [word for word in words if not _OVERRIDE.match(word)]
    overrides = [word for word in words if _OVERRIDE.match(word)]
    try:
        report = _diagnose(selectors, overrides, ctx.meta.get("launch", []), options)
    except (BadInput, NotAVerlLaunch, UnknownSelector) as error:
        fail(str(error))
    _write(report, options)
    ctx.exit(report.exit_status)


def _diagnose(selectors: list[str], overrides: list[str], launch: list[str], options: dict[str, Any]) -> Any:
    from verl_doctor.job.resolve import resolve_job
    from verl_doctor.planner import plan
    from verl_doctor.registry import load_built_in
    from verl_doctor.report import Report, Severity, exit_status, sort_results, summarise
    from verl_doctor.runner import run

    begun = time.monotonic()
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    chosen = plan(load_built_in(), selectors, options["skipped"], given=("request", "job"))
    request = _request(overrides, launch, options)
    job = resolve_job(request)
    results, timings = run(
        chosen,
        {"request": request, "job": job},
        job=job.name,
        budget=options["budget"],
        offline=options["offline"],
        notice=lambda text: click.echo(f"verl-doctor: {text}", err=True),
    )
    return Report(
        tool_version=__version__,
        started=started,
        duration_s=time.monotonic() - begun,
        exit_status=exit_status(results, fail_on=Severity(options["fail_on"]), allow_incomplete=options["allow_incomplete"]),
        jobs=[_describe(job)],
        notices=_notices(job),
        summary=summarise(results),
        results=sort_results(results),
        facts=timings,
    )


def _request(overrides: list[str], launch: list[str], options: dict[str, Any]) -> Any:
    from verl_doctor.job.environment import read_assignment, read_env_file, shell_environment
    from verl_doctor.job.model import Argument, Request

    environment = shell_environment()
    if options["env_file"]:
        environment |= {variable.name: variable for variable in read_env_file(options["env_file"])}
    environment |= {variable.name: variable for variable in map(read_assignment, options["assignments"])}
    return Request(
        command=[Argument(word) for word in launch],
        overrides=[Argument(word) for word in overrides],
        environment=environment,
        directory=os.getcwd(),
        **{name: options[name] for name in ("config_file", "config_path", "config_name", "config_dir")},
        verl_path=options["verl_path"],
        verl_version=options["verl_version"],
    )


def _describe(job: Any) -> dict[str, Any]:
    origin = {"installed": "installed", "path": job.verl.path, "built-in": "built-in knowledge"}[job.verl.origin]
    return {
        "name": job.name,
        "entry": job.entry,
        "kind": job.kind,
        "verl": f"verl {job.verl.version} ({origin})",
        "verl_version": job.verl.version,
        "verl_origin": job.verl.origin,
        "exact": job.exact,
        "config_name": job.config_name,
    }


def _notices(job: Any) -> list[Any]:
    from verl_doctor.report import Message

    if job.exact:
        return []
    return [
        Message(
            "no verl was found: judged by what is known of verl {version}; a key that verl does not have goes unnoticed (--verl PATH)",
            {"version": job.verl.version},
        )
    ]


def _write(report: Any, options: dict[str, Any]) -> None:
    if options["output_format"] == "json":
        from verl_doctor.writers import json as json_writer

        sys.stdout.write(json_writer.write(report))
        return
    from rich.console import Console

    from verl_doctor.translation import Translator
    from verl_doctor.writers import text

    language = options["lang"] or preferred_language(os.environ)
    verbosity = -1 if options["quiet"] else options["verbose"]
    text.write(report, Console(highlight=False, emoji=False), Translator(language, BUILT_IN_PACKAGE), verbosity)
