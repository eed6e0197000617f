"""Functions of a script, command substitutions and `eval`: statements that run inside a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from verl_doctor.job.model import Argument
from verl_doctor.job.shell.state import CHARACTERS_A_STEP, Value, unknown
from verl_doctor.job.shell.unit import Unit
from verl_doctor.job.shell.words import Command
from verl_doctor.job.variables import brief

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell

MAX_CALLS = 25


def call(shell: Shell, name: str, arguments: list[Argument]) -> None:
    """Run a function of the script."""
    function = shell.state.functions[name]
    if function is None or shell.calls >= MAX_CALLS:
        shell.note("undecidable", {"word": name, "line": str(shell.here().line)})
        shell.state.status = None
        return
    positional, unsure = shell.state.positional, shell.state.positional_unsure
    shell.state.positional, shell.state.positional_unsure = [Value(word.text, word.unknown) for word in arguments], ""
    shell.assigner.frames.append({})
    parked, shell.parked = shell.parked, []
    line = shell.here().line or 1
    shell.calls += 1
    shell.units.append(function.unit)
    before = shell.position
    try:
        shell.run(function.body)
    finally:
        shell.units.pop()
        shell.calls -= 1
        shell.position = before
    ends = [shell.state, *(end for end in shell.parked if end.stopped == "return")]
    shell.parked = parked + [end for end in shell.parked if end.stopped != "return"]
    for end in ends:
        if end.stopped == "return":
            end.stopped = ""
    shell.join(ends, line)
    shell.assigner.leave_function()
    shell.state.positional, shell.state.positional_unsure = positional, unsure
    if shell.state.status is False:
        shell.finish(False)


def read_text(shell: Shell, text: str) -> None:
    """Go through a text that the present command made (`eval`)."""
    if shell.calls >= MAX_CALLS:
        shell.note("undecidable", {"word": "eval", "line": str(shell.here().line)})
        shell.state.status = None
        return
    shell.calls += 1
    shell.spend(len(text) // CHARACTERS_A_STEP)
    shell.read(Unit(text, outer=shell.unit, offset=shell.position))
    shell.calls -= 1


def run_substitution(shell: Shell, command: Command) -> Value:
    """What the commands of a `$(...)` print, without the newlines at the end."""
    if shell.calls >= MAX_CALLS:
        return unknown("nested too deep to be followed")
    file = re.fullmatch(r"\s*<\s*(\S+)\s*", command.text)
    if file:
        return unknown(f"the content of {brief(file[1])} is not read")
    unit = Unit(command.text, outer=shell.unit, offset=shell.position)
    outer = shell.state

    def body() -> None:
        shell.state.output = Value("")
        shell.read(unit)
        collected.append(shell.state.output or Value(""))

    collected: list[Value] = []
    saved, options = shell.exempt, outer.options
    shell.calls += 1
    outer_output, outer.output = outer.output, None
    try:
        outer.options = options - {"e"}
        shell.subshell(body, captures=False)
    finally:
        outer.output, outer.options = outer_output, options
        shell.exempt = saved
        shell.calls -= 1
    value = collected[0]
    return Value(value.text.rstrip("\n"), value.unknown)
