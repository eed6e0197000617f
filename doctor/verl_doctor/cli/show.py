"""`verl-doctor show`: what the doctor knows, without judging it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from verl_doctor import __version__
from verl_doctor.catalog import BUILT_IN_PACKAGE
from verl_doctor.cli import fail
from verl_doctor.cli.check import LaunchCommand
from verl_doctor.cli.options import OVERRIDE, configuration_options, job_options, launch_requests
from verl_doctor.language import LANGUAGES, preferred_language

if TYPE_CHECKING:
    from rich.console import Console

    from verl_doctor.job.summary import JobSummary, Value
    from verl_doctor.translation import Translator


@click.group("show")
def command() -> None:
    """Show what the doctor knows, without judging it."""


@command.command("job", cls=LaunchCommand, options_metavar="[OPTIONS]")
@click.argument("words", nargs=-1, metavar="[OVERRIDE...] [-- LAUNCH COMMAND...]")
@configuration_options
@job_options
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the text (default: from the locale).")
@click.pass_context
def show_job(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> None:
    """Show the job as the logging process will see it: entry, configuration, environment, and where each value came from.

    What matters to experiment tracking is shown, credentials are redacted, and what cannot be known says why.
    """
    from verl_doctor.errors import BadInput
    from verl_doctor.job.command import NotAVerlLaunch
    from verl_doctor.job.summary import summarise

    stray = next((word for word in words if not OVERRIDE.match(word)), None)
    if stray is not None:
        raise click.UsageError(f"'{stray}' is no override (KEY=VALUE); a launch command stands after '--'")
    try:
        summaries = [summarise(request) for request in launch_requests(words, ctx.meta["launch"], options)]
    except (BadInput, NotAVerlLaunch) as error:
        fail(str(error))
    if options["output_format"] == "json":
        _write_json(summaries)
    else:
        _write_text(summaries, options["lang"] or preferred_language(os.environ))


def _write_json(summaries: list[JobSummary]) -> None:
    from verl_doctor.job.summary import SCHEMA_VERSION, JobsDocument
    from verl_doctor.writers.json import encode

    document = JobsDocument(schema_version=SCHEMA_VERSION, tool="verl-doctor", tool_version=__version__, jobs=summaries)
    sys.stdout.write(encode(document))


def _write_text(summaries: list[JobSummary], language: str) -> None:
    from rich.console import Console

    from verl_doctor.translation import Translator

    console = Console(highlight=False, emoji=False)
    for summary in summaries:
        _Page(console, Translator(language, BUILT_IN_PACKAGE)).write(summary)


class _Page:
    def __init__(self, console: Console, translator: Translator) -> None:
        self.console = console
        self.say = translator.interface

    def write(self, summary: JobSummary) -> None:
        self.head(summary)
        self.table(self.say("Configuration that matters to tracking"), summary.settings)
        self.table(self.say("Replaced by a later override of the same key"), summary.shadowed)
        self.lines(
            self.say("Refused by Hydra"),
            [f"{refused.override}: {refused.reason}  ← {_origin(refused)}" for refused in summary.refused],
        )
        self.table(self.say("Environment of the process that logs"), summary.environment)
        self.table(self.say("Variables of the shell that do not get there"), summary.left_behind)
        values = [*summary.settings, *summary.shadowed, *summary.environment]
        unknown = [f"{value.name}: {value.unknown}" for value in values if value.unknown]
        if summary.unseen:
            unknown.append(self.say("variables that are not listed: {reason}", reason=summary.unseen))
        self.lines(self.say("Not known"), unknown)

    def head(self, summary: JobSummary) -> None:
        verl = summary.verl
        self.line(
            self.say("{name}: {entry}, {verl}", name=summary.name, entry=summary.entry, verl=verl),
            style="bold",
        )
        if verl.origin == "installed" and verl.path:
            self.line(self.say("verl is in {path}", path=verl.path))
        if summary.launchers:
            self.line(self.say("started by {launchers}", launchers=", ".join(summary.launchers)))
        self.line(self.say("in {directory}", directory=summary.directory))
        if summary.config_name:
            self.line(self.say("configuration {name}", name=summary.config_name))
        if not summary.exact:
            template = "no verl was found: judged by what is known of verl {version}; unknown keys go unnoticed (--verl PATH)"
            self.line(self.say(template, version=verl.version), style="dim")

    def table(self, title: str, values: list[Value]) -> None:
        if not values:
            return
        self.console.print()
        self.line(title, style="bold")
        rows = [(value.name, _shown(value), f"← {_origin(value)}") for value in values]
        if self.console.is_terminal:
            self.folded(rows)
        else:  # one line each, for grep
            width = max(len(name) for name, _, _ in rows)
            for name, shown, origin in rows:
                self.line(f"{name:<{width}}  {shown}  {origin}")

    def folded(self, rows: list[tuple[str, str, str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for column in range(3):
            table.add_column(overflow="fold", style="dim" if column == 2 else "")
        for row in rows:
            table.add_row(*(Text(_printable(text)) for text in row))
        self.console.print(table)

    def lines(self, title: str, lines: list[str]) -> None:
        if not lines:
            return
        self.console.print()
        self.line(title, style="bold")
        for line in lines:
            self.line(line)

    def line(self, text: str, *, style: str = "") -> None:
        from rich.text import Text

        self.console.print(Text(_printable(text), style=style), soft_wrap=True)


def _printable(text: str) -> str:
    from verl_doctor.writers.text import printable

    return printable(text.replace("\n", "\\n"))


def _shown(value: Value) -> str:
    if value.unknown and value.value is None:
        return "?"
    if isinstance(value.value, str) and value.value:
        return value.value
    return json.dumps(value.value, ensure_ascii=False)


def _origin(value: Any) -> str:
    return f"{value.source} ({value.location})" if value.location else str(value.source)
