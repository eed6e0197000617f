"""The command line. One module a command; a command's module is imported only when it is used, so that help stays quick."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import NoReturn

import click

from verl_doctor import __version__

COMMANDS = {
    "check": "Say what will fail, lie or lose data in the tracking of a verl job, before it starts.",
    "run": "Check the launch that a command makes, then let it start if nothing fails.",
    "prepare": "Make what a job needs before it starts: folders, MLflow's tables and its experiment.",
    "show": "Show the job as the logging process will see it.",
    "explain": "Explain a code: what it means, why it matters, how to fix it.",
    "list": "List every code.",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"verl_doctor.cli.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="verl-doctor", message="%(prog)s %(version)s")
def cli() -> None:
    """Finds what would make the experiment tracking of a verl job fail, lie or lose data.

    Exit status: 0 nothing found that fails, 1 findings, 2 wrong usage or unreadable input, 3 a check could not look,
    130 interrupted.
    """


def main() -> None:
    """The `verl-doctor` program."""
    gc.disable()  # a command lives for a moment: looking for cycles cost a tenth of its time
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets an escape instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        # Outside its standalone mode click returns the status of `ctx.exit` instead of raising.
        sys.exit(cli.main(prog_name="verl-doctor", standalone_mode=False))
    except click.exceptions.Abort:
        sys.exit(130)
    except click.UsageError as error:
        if error.ctx is not None and error.message == error.ctx.get_help():  # a command without its words: show its help
            sys.stderr.write(error.message + "\n")
            sys.exit(2)
        fail(error.format_message())
    except click.ClickException as error:
        fail(error.format_message())
    except BrokenPipeError:
        # The reader went away, as in `verl-doctor list | head`. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)


def fail(message: str) -> NoReturn:
    """End with status 2 and one line that holds no credential and no control character."""
    from verl_doctor.secrets import scrub

    line = scrub(" ".join(message.split()))
    sys.stderr.write(f"verl-doctor: {line}\n")
    sys.exit(2)
