"""`verl-doctor check`: judge a job before it starts."""

from __future__ import annotations

from typing import Any

import click

from verl_doctor.cli import fail
from verl_doctor.cli.options import (
    OVERRIDE,
    check_options,
    configuration_options,
    diagnosis_options,
    launch_requests,
    write_report,
)


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
@configuration_options
@check_options
@click.option("--live", is_flag=True, help="Also make one short run at each tracker, read it back and delete it.")
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

    selectors = [word for word in words if not OVERRIDE.match(word)]
    overrides = [word for word in words if OVERRIDE.match(word)]
    try:
        requests = launch_requests(overrides, ctx.meta["launch"], options)
        report = diagnose(requests, selectors, **diagnosis_options(options))
    except (BadInput, NotAVerlLaunch, UnknownSelector) as error:
        fail(str(error))
    write_report(report, options)
    ctx.exit(report.exit_status)
