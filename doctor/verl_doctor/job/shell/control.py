"""What the kinds of statements do: pipelines, lists, groups, conditions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from verl_doctor.job.shell import syntax
from verl_doctor.job.shell.conditions import invert
from verl_doctor.job.shell.loops import condition_status, run_case, run_loop
from verl_doctor.job.shell.state import Function, unknown

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell


def pipeline(shell: Shell, statement: syntax.Pipeline) -> None:
    """Each command runs in a shell of its own; only the last prints."""
    outcome: bool | None = True
    output = shell.state.output
    for place, part in enumerate(statement.parts):
        last = place == len(statement.parts) - 1
        shell.subshell(functools.partial(shell.run, part), captures=last and output is not None)
        if last:
            outcome = shell.state.status if outcome or "pipefail" not in shell.state.options else None
        elif shell.state.status is not True:
            outcome = None
    shell.finish(outcome)


def and_or(shell: Shell, statement: syntax.AndOr) -> None:
    """`&&` and `||`."""
    shell.exempt += 1
    try:
        shell.run(statement.left)
    finally:
        shell.exempt -= 1
    if shell.state.stopped:
        return
    wanted = statement.operator == "&&"
    status = shell.state.status
    if status is not None:
        if status is wanted:
            shell.run(statement.right)
        return
    condition = shell.text_of((statement.left,))
    otherwise = f"not {condition}"
    if not wanted:
        condition, otherwise = otherwise, condition

    def skip() -> None:
        shell.state.status = not wanted

    shell.either([(condition, lambda: shell.run(statement.right)), (otherwise, skip)], shell.unit.line(statement.start))


def negated(shell: Shell, statement: syntax.Not) -> None:
    """`!`."""
    shell.exempt += 1
    try:
        shell.run(statement.body)
    finally:
        shell.exempt -= 1
    shell.state.status = invert(shell.state.status)


def background(shell: Shell, statement: syntax.Background) -> None:
    """`&`."""
    shell.subshell(lambda: shell.run(statement.body), captures=shell.state.output is not None)
    shell.state.status = True


def group(shell: Shell, statement: syntax.Group) -> None:
    """`{ }` and `( )`."""
    if statement.subshell:
        shell.subshell(lambda: shell.run_all(statement.body), captures=shell.state.output is not None)
        shell.finish(shell.state.status)
    else:
        shell.run_all(statement.body)


def conditional(shell: Shell, statement: syntax.If) -> None:
    """`if`."""
    _branch(shell, statement, 0)


def _branch(shell: Shell, statement: syntax.If, place: int) -> None:
    if place == len(statement.branches):
        shell.state.status = True
        shell.run_all(statement.otherwise)
        return
    condition, body = statement.branches[place]
    status = condition_status(shell, condition)
    if shell.state.stopped:
        return
    if status is True:
        shell.run_all(body)
    elif status is False:
        _branch(shell, statement, place + 1)
    else:
        text = shell.text_of(condition)
        paths: list[tuple[str, Callable[[], None]]] = [
            (text, lambda: shell.run_all(body)),
            (f"not {text}", lambda: _branch(shell, statement, place + 1)),
        ]
        shell.either(paths, shell.unit.line(condition[0].start))


def define(shell: Shell, statement: syntax.Function) -> None:
    """A function is kept with the text that it stands in."""
    shell.state.functions[statement.name] = Function(shell.unit, statement.body)
    shell.state.status = True


def unparsed(shell: Shell, statement: syntax.Unparsed) -> None:
    """Text that the grammar does not accept: nothing is known of it or of the variables in it."""
    text = shell.unit.text[statement.start : statement.end]
    reason = f"line {shell.unit.line(statement.start)} cannot be parsed"
    for name in re.findall(r"([A-Za-z_]\w*)\+?=", text):
        shell.assign(name, unknown(reason))
    line = str(shell.unit.line(statement.start))
    shell.note("undecidable", {"word": "a syntax that is not recognised", "line": line}, shell.unit.location(statement.start))
    shell.state.status = None


RUNNERS: dict[type, Callable[[Shell, Any], None]] = {
    syntax.Pipeline: pipeline,
    syntax.AndOr: and_or,
    syntax.Not: negated,
    syntax.Background: background,
    syntax.If: conditional,
    syntax.While: run_loop,
    syntax.For: run_loop,
    syntax.Case: run_case,
    syntax.Function: define,
    syntax.Group: group,
    syntax.Unparsed: unparsed,
}
"""By kind of statement, all but `Simple`."""
