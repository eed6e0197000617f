"""`verl-doctor run`: check the launches that a command makes, when it makes them."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

import click

from verl_doctor.cli import fail
from verl_doctor.cli.check import LaunchCommand
from verl_doctor.cli.options import check_options


@click.command("run", cls=LaunchCommand, options_metavar="[OPTIONS]")
@click.argument("selectors", nargs=-1, metavar="[SELECTOR...] -- COMMAND...")
@click.option("--dry-run", is_flag=True, help="Never start the launch: report on stdout, end with the status of the report.")
@click.option(
    "--on-findings",
    type=click.Choice(["stop", "warn"]),
    default="stop",
    show_default=True,
    help="Whether a launch that fails the check starts all the same.",
)
@check_options
@click.pass_context
def command(ctx: click.Context, /, selectors: tuple[str, ...], **options: Any) -> None:
    """Start COMMAND, for example `bash run.sh`, and check each launch of verl in it at the moment when it would start.

    The check sees the true words, environment and directory. A launch that passes starts unchanged and in place; one that fails
    does not start, and its exit status is 1 (2 when an input cannot be read, 3 when a check could not look). The report goes to
    stderr. With --dry-run everything else in COMMAND still runs.

    Seen are launches by python, torchrun, ray job submit, uv, accelerate and deepspeed found in PATH, and by any Python that
    reads PYTHONPATH, also by its full path or from an environment that COMMAND activates.

    Not seen are launches after `env -i`, by `python -I`, `-E` or `-S` with a full path, after PATH and PYTHONPATH have both
    been set anew, and on other machines or in containers, unless COMMAND itself is the launch (`ssh host python3 -m verl...`).
    While COMMAND runs, `which python3` names a front door. Where PYTHONPATH was not set, `${PYTHONPATH:+...}` finds it set.
    """
    launch = ctx.meta["launch"]
    if not launch:
        raise click.UsageError("there is no command: verl-doctor run [OPTIONS] -- COMMAND...")
    if options.pop("assignments") or options.pop("env_file"):
        raise click.UsageError(
            "--env and --env-file change nothing for a command that runs: use `-- env NAME=VALUE COMMAND...`"
        )
    options["selectors"] = _known(selectors, options["skip"])
    if options["verl_path"]:
        options["verl_path"] = os.path.abspath(options["verl_path"])
        if not os.path.exists(options["verl_path"]):
            fail(f"--verl '{options['verl_path']}': there is no such file or folder")
    _start(len(launch), options)


def _known(selectors: tuple[str, ...], skip: tuple[str, ...]) -> list[str]:
    """The selectors, after a look whether they choose something: the launch may be hours away."""
    from verl_doctor.planner import UnknownSelector, plan
    from verl_doctor.registry import load_built_in

    try:
        plan(load_built_in(), selectors, skip, given=("request", "job"))
    except UnknownSelector as error:
        fail(str(error))
    return list(selectors)


def _start(count: int, options: dict[str, Any]) -> NoReturn:
    """Become the command, the last `count` words. A launch is checked here; what may come to one later gets the doors."""
    from verl_doctor.errors import BadInput
    from verl_doctor.gate.entrance import GATE, find_program, own_environment, own_words, restored, start
    from verl_doctor.gate.examine import examine, may_start
    from verl_doctor.gate.install import PROGRAMS, gated

    words = own_words()[-count:]
    environment = own_environment()
    if GATE in environment:
        environment = restored(environment, os.fsencode(json.loads(environment[GATE])["root"]))
    program = words[0] if b"/" in words[0] else find_program(words[0], environment)
    if not program:
        fail(f"'{os.fsdecode(words[0])}': there is no such command")
    if b"_" in environment:
        environment[b"_"] = program
    status = examine([os.fsdecode(word) for word in words], environment, options, in_shells=False)
    if status is None:
        try:
            environment = gated(environment, options)
        except BadInput as error:
            fail(str(error))
        if os.path.basename(os.fsdecode(program)) in PROGRAMS:
            words[0] = program  # by its bare name, Python would take a door for its own place
    elif not may_start(status, options):
        sys.exit(status)
    start(program, words, environment)
    sys.exit(126)
