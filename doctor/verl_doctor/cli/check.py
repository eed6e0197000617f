"""`verl-doctor check`: judge a job before it starts."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

from verl_doctor.cli import fail
from verl_doctor.cli.options import check_options, diagnosis_options, job_environment, write_report

if TYPE_CHECKING:
    from verl_doctor.job.model import Request

_OVERRIDE = re.compile(r"^[^\s=]+=|^~")


class LaunchCommand(click.Command):
    """Keeps the words after `--` apart, in `ctx.meta["launch"]`: click would mix them with the others."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split at the first `--`; raises UsageError when nothing follows it."""
        ctx.meta["launch"] = []
        if "--" in args:
            split = args.index("--")
            args, ctx.meta["launch"] = args[:split], args[split + 1 :]
            if not ctx.meta["launch"]:
                raise click.UsageError("there is no launch command after '--'")
        return super().parse_args(ctx, args)


@click.command("check", cls=LaunchCommand, options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[SELECTOR...] [OVERRIDE...] [-- LAUNCH COMMAND...]")
@click.option(
    "--config", "config_file", metavar="FILE", default="", help="A YAML: full, partial, or Hydra's .hydra/config.yaml."
)
@click.option("--config-path", metavar="DIR", default="", help="As given to verl.")
@click.option("--config-name", metavar="NAME", default="", help="As given to verl.")
@click.option("--config-dir", metavar="DIR", default="", help="As given to verl.")
@check_options
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Say what will fail, lie or lose data in the experiment tracking of a verl job.

    SELECTOR is a topic (logger, names, secrets, ...), a backend (wandb, mlflow, ...), a code or its name; all by default.
    OVERRIDE is a Hydra override as verl takes it, for example trainer.logger=[console,wandb].
    """
    from verl_doctor.diagnosis import diagnose
    from verl_doctor.errors import BadInput
    from verl_doctor.job.command import NotAVerlLaunch
    from verl_doctor.planner import UnknownSelector

    selectors = [word for word in words if not _OVERRIDE.match(word)]
    overrides = [word for word in words if _OVERRIDE.match(word)]
    try:
        report = diagnose([_request(overrides, ctx.meta["launch"], options)], selectors, **diagnosis_options(options))
    except (BadInput, NotAVerlLaunch, UnknownSelector) as error:
        fail(str(error))
    write_report(report, options)
    ctx.exit(report.exit_status)


def _request(overrides: list[str], launch: list[str], options: dict[str, Any]) -> Request:
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
