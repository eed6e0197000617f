"""`verl-doctor prepare`: make what a job needs before it starts."""

from __future__ import annotations

import os
from typing import Any

import click

from verl_doctor.catalog import BUILT_IN_PACKAGE
from verl_doctor.cli import fail
from verl_doctor.cli.check import LaunchCommand
from verl_doctor.cli.options import OVERRIDE, configuration_options, job_options, launch_requests
from verl_doctor.language import LANGUAGES, preferred_language


@click.command("prepare", cls=LaunchCommand, options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[OVERRIDE...] [-- LAUNCH COMMAND...]")
@configuration_options
@job_options
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the text (default: from the locale).")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Make what the job needs before it starts: the folders that it names, MLflow's tables and its experiment.

    MLflow's tables are made by the MLflow of the job's own Python, by one process at a time: many workers that open a new store
    at once break it. What is there already stays as it is, so that this may stand in every launch script.

    Exit status: 0 all is ready, 1 something could not be made, 2 wrong usage or unreadable input.
    """
    from verl_doctor.errors import BadInput
    from verl_doctor.job.command import NotAVerlLaunch
    from verl_doctor.prepare import preparation_for

    stray = next((word for word in words if not OVERRIDE.match(word)), None)
    if stray is not None:
        raise click.UsageError(f"'{stray}' is no override (KEY=VALUE); a launch command stands after '--'")
    page = _Page(options["lang"] or preferred_language(os.environ), dry_run=options["dry_run"])
    try:
        for request in launch_requests(words, ctx.meta["launch"], options):
            page.write(preparation_for(request))
    except (BadInput, NotAVerlLaunch) as error:
        fail(str(error))
    page.end()
    ctx.exit(1 if page.failures else 0)


class _Page:
    def __init__(self, language: str, *, dry_run: bool) -> None:
        from verl_doctor.translation import Translator

        self.say = Translator(language, BUILT_IN_PACKAGE).interface
        self.dry_run = dry_run
        self.lines: set[str] = set()
        self.failures = 0

    def write(self, preparation: Any) -> None:
        """Do the steps, or say them; the launches of one script often need the same."""
        from verl_doctor.prepare import CannotPrepare

        for step in preparation.steps:
            if self.dry_run:
                self.line(self.say("would {step}", step=self.say(step.planned.template, **step.planned.values)))
                continue
            try:
                if step.action():
                    self.line(self.say(step.done.template, **step.done.values))
            except CannotPrepare as error:
                self.failures += 1
                self.line(self.say("failed: {reason}", reason=str(error)))
        for refusal in preparation.refusals:
            self.failures += 1
            self.line(self.say(refusal.template, **refusal.values))

    def line(self, text: str) -> None:
        from verl_doctor.writers.text import printable

        if text not in self.lines:
            self.lines.add(text)
            click.echo(printable(text.replace("\n", "\\n")))

    def end(self) -> None:
        if not self.lines:
            self.line(self.say("there is nothing to prepare"))
