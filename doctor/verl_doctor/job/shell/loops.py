"""Loops and `case`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell import syntax
from verl_doctor.job.shell.conditions import invert
from verl_doctor.job.shell.lexer import Token
from verl_doctor.job.shell.patterns import Unsupported, matches
from verl_doctor.job.shell.state import Reason, State, Value, merge, unknown

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell

_MAX_TURNS = 400
_MAX_DOUBTFUL = 3


def condition_status(shell: Shell, statements: tuple[syntax.Statement, ...]) -> bool | None:
    """The status of a condition."""
    shell.exempt += 1
    try:
        shell.run_all(statements)
    finally:
        shell.exempt -= 1
    return shell.state.status


def run_case(shell: Shell, statement: syntax.Case) -> None:
    """The first item that matches; where that is not known, all that may."""
    value = shell.expander.text(shell.raw(statement.word))
    shell.state.status = True
    _item(shell, statement, 0, value)


def _item(shell: Shell, statement: syntax.Case, place: int, value: Value) -> None:
    while place < len(statement.items):
        patterns, _, _ = statement.items[place]
        decided = _matches(shell, patterns, value)
        if decided is True:
            _body(shell, statement, place, value)
            return
        if decided is None:
            text = f"{shell.text_of((syntax.Unparsed(statement.word.start, statement.word.end),))} is "
            text += shell.text_of((syntax.Unparsed(patterns[0].start, patterns[-1].end),))
            shell.either(
                [
                    (text, functools.partial(_body, shell, statement, place, value)),
                    (f"not {text}", functools.partial(_item, shell, statement, place + 1, value)),
                ],
                shell.unit.line(statement.start),
            )
            return
        place += 1


def _body(shell: Shell, statement: syntax.Case, place: int, value: Value) -> None:
    _, body, end = statement.items[place]
    shell.run_all(body)
    if shell.state.stopped or place + 1 == len(statement.items):
        return
    if end == ";&":
        _body(shell, statement, place + 1, value)
    elif end == ";;&":
        _item(shell, statement, place + 1, value)


def _matches(shell: Shell, patterns: tuple[Token, ...], value: Value) -> bool | None:
    result: bool | None = False
    for token in patterns:
        chars, text = shell.expander.pattern(shell.raw(token))
        if all(char == "*" and not quoted for char, quoted in chars) and chars:
            return True
        try:
            found = matches(value.text, chars) if value.known and text.known else _perhaps(value, chars)
        except Unsupported:
            found = None
        if found:
            return True
        result = None if found is None else result
    return result


def _perhaps(value: Value, chars: list[tuple[str, bool]]) -> bool | None:
    """Whether a text with unknown parts matches a plain pattern: certainly not when their starts differ."""
    prefix = value.text.split(UNKNOWN)[0]
    plain = ""
    for char, quoted in chars:
        if char in "*?[+@!" + UNKNOWN and not quoted:
            break
        plain += char
    length = min(len(prefix), len(plain))
    return False if prefix[:length] != plain[:length] else None


def run_loop(shell: Shell, statement: syntax.For | syntax.While) -> None:
    """`for`, `while`, `until`, with `break` and `continue`."""
    parked, shell.parked = shell.parked, []
    exits: list[State] = []
    try:
        if isinstance(statement, syntax.While):
            _while(shell, statement, exits)
        elif statement.header:
            _c_style(shell, statement, exits)
        else:
            _for(shell, statement, exits)
    finally:
        rest, shell.parked = shell.parked, parked
    shell.parked += rest
    if exits:
        ends = exits if shell.state.stopped == "broken" else [shell.state, *exits]
        shell.join(ends, shell.unit.line(statement.start))
    if shell.state.stopped == "broken":
        shell.state.stopped = ""


def _turn(shell: Shell, body: Callable[[], None], exits: list[State]) -> bool:
    """One turn; False when the loop ends here. States that leave the loop go to `exits`."""
    doubtful = f"the loop before line {shell.unit.line(shell.position)} goes on" if exits else ""
    with shell.under(doubtful):
        body()
    going: list[State] = []
    for end in [shell.state, *shell.parked]:
        if end.stopped in ("break", "continue") and end.levels > 1:
            end.levels -= 1
            exits.append(end)
        elif end.stopped == "break":
            end.stopped = ""
            exits.append(end)
        elif end.stopped == "continue":
            end.stopped = ""
            going.append(end)
        elif not end.stopped or end is shell.state:
            going.append(end)
    shell.parked = [end for end in shell.parked if end.stopped == "return"]
    running = [end for end in going if not end.stopped]
    if running:
        reason_line = shell.unit.line(shell.position)
        shell.join(running, reason_line)
        return True
    if going:  # exit or return
        shell.state = going[0]
        return False
    shell.state = shell.state.copy()
    shell.state.stopped = "broken"
    return False


def _turns(exits: list[State]) -> Iterator[int]:
    """So many turns are followed one by one; few once it is not known whether the loop still runs."""
    for turn in range(_MAX_TURNS):
        if len(exits) > _MAX_DOUBTFUL:
            return
        yield turn


def _while(shell: Shell, statement: syntax.While, exits: list[State]) -> None:
    for _ in _turns(exits):
        status = condition_status(shell, statement.condition)
        if shell.state.stopped:
            return
        status = invert(status) if statement.until else status
        if status is False:
            shell.state.status = True
            return
        if status is None:
            text = shell.text_of(statement.condition)
            _undecided(shell, statement, lambda: shell.run_all(statement.body), text, exits)
            return
        if not _turn(shell, lambda: shell.run_all(statement.body), exits):
            return
    _undecided(shell, statement, lambda: shell.run_all(statement.body), "", exits)


def _undecided(
    shell: Shell, statement: syntax.For | syntax.While, body: Callable[[], None], condition: str, exits: list[State]
) -> None:
    """A loop of which the number of turns is not known: what the body changes is not known after it."""
    line = shell.unit.line(statement.start)
    reason = f"set in the loop of line {line}, of which the number of turns is not known"
    for last in (False, False, True):
        start = shell.state.copy()
        launches, notes = len(shell.launches), len(shell.notes)
        with shell.under(condition or f"the loop of line {line}"):
            going = _turn(shell, body, exits)
        if not going:
            if shell.state.stopped in ("broken", "exit"):
                shell.state = start
            elif shell.state.stopped:
                shell.parked.append(shell.state)
                shell.state = start
        else:
            shell.state = merge(start, shell.state, Reason(reason))
        if not last:
            if shell.state == start:
                break
            del shell.launches[launches:], shell.notes[notes:]
    shell.state.status = None


def _for(shell: Shell, statement: syntax.For, exits: list[State]) -> None:
    if statement.words is None:
        values, sure = list(shell.state.positional), not shell.state.positional_unsure
    else:
        values = [value for token in statement.words for value in shell.expander.fields(shell.raw(token))]
        sure = all(value.known or _one_word(value) for value in values)
    if not sure or statement.select or len(values) > _MAX_TURNS:
        reason = next((value.unknown for value in values if value.unknown), "the number of turns is not known")

        def body() -> None:
            shell.assign(statement.name, unknown(reason))
            shell.run_all(statement.body)

        _undecided(shell, statement, body, "", exits)
        return
    shell.state.status = True
    for value in values:

        def turn(value: Value = value) -> None:
            shell.assign(statement.name, value)
            shell.run_all(statement.body)

        if not _turn(shell, turn, exits):
            return


def _one_word(value: Value) -> bool:
    """Whether a word with unknown parts is certainly there, as one word."""
    return bool(value.text.strip(UNKNOWN))


def _c_style(shell: Shell, statement: syntax.For, exits: list[State]) -> None:
    parts = statement.header.split(";")
    if len(parts) != 3:
        _undecided(shell, statement, lambda: shell.run_all(statement.body), "", exits)
        return
    first, condition, step = parts
    if first.strip():
        shell.expander.number(first)
    for _ in _turns(exits):
        value = shell.expander.number(condition) if condition.strip() else Value("1")
        if not value.known:
            break
        if value.text == "0":
            return
        if not _turn(shell, lambda: shell.run_all(statement.body), exits):
            return
        if step.strip():
            shell.expander.number(step)

    def body() -> None:
        shell.run_all(statement.body)
        if step.strip() and not shell.state.stopped:
            shell.expander.number(step)

    _undecided(shell, statement, body, "", exits)
