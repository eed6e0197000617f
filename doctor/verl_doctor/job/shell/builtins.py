"""The builtins of bash that change what a script knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.shell import calls, conditions, printing
from verl_doctor.job.shell.declarations import DECLARATIONS, declare, unset
from verl_doctor.job.shell.expand import absolute
from verl_doctor.job.shell.parameters import directory_value
from verl_doctor.job.shell.state import Cell, Value, unknown
from verl_doctor.job.shell.syntax import Simple

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell

Builtin = Callable[["Shell", list[Argument], Simple], None]

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_HOOK = re.compile(r"[`(]\s*(\S*/)?(conda|mamba|micromamba|pyenv|pixi|ssh-agent|brew|direnv|module|modulecmd|fnm|starship)\s")
"""Programs whose output is meant for `eval` and sets nothing but their own variables."""
_SET_LETTERS = {"errexit": "e", "nounset": "u", "noglob": "f", "xtrace": "x", "verbose": "v", "allexport": "a"}


def _value(word: Argument) -> Value:
    return Value(word.text, word.unknown)


def _succeed(shell: Shell, _words: list[Argument], _statement: Simple) -> None:
    shell.finish(True)


def _fail(shell: Shell, _words: list[Argument], _statement: Simple) -> None:
    shell.finish(False)


def _cannot_tell(shell: Shell, words: list[Argument], statement: Simple) -> None:
    shell.state.status = None
    shell.print(unknown(f"the output of {words[0].text} is not known"), statement)


def _set(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    place, options = 1, set(shell.state.options)
    shell.state.status = True
    while place < len(words):
        text = words[place].text
        if text in ("--", "-"):
            place += 1
            _set_positional(shell, words[place:], always=text == "--")
            break
        if not re.match(r"[-+]", text):
            _set_positional(shell, words[place:], always=True)
            break
        if "o" in text:
            place += 1
            if place < len(words):
                named = words[place].text
                letter = _SET_LETTERS.get(named, named)
                _switch(options, letter, text[0] == "-")
        for letter in text[1:].replace("o", ""):
            _switch(options, letter, text[0] == "-")
        place += 1
    shell.state.options = frozenset(options)


def _switch(options: set[str], option: str, on: bool) -> None:
    if on:
        options.add(option)
    else:
        options.discard(option)


def _set_positional(shell: Shell, words: list[Argument], *, always: bool) -> None:
    if words or always:
        shell.state.positional = [_value(word) for word in words]
        doubtful = next((word.unknown for word in words if not word.text.strip(UNKNOWN) and word.unknown), "")
        shell.state.positional_unsure = doubtful


def _shift(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    count = words[1].text if len(words) > 1 else "1"
    state = shell.state
    if not count.isdigit():
        state.positional_unsure = words[1].unknown or "shift"
        state.status = None
        return
    if state.positional_unsure:
        state.status = None
    elif int(count) > len(state.positional):
        shell.finish(False)
    else:
        state.positional = state.positional[int(count) :]
        state.status = True


def _shopt(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    texts = [word.text for word in words[1:]]
    names = {text for text in texts if not text.startswith("-")}
    if any(text.startswith("-") and "s" in text for text in texts):
        shell.state.options |= names
    elif any(text.startswith("-") and "u" in text for text in texts):
        shell.state.options -= names
    shell.state.status = True


def _setopt(shell: Shell, words: list[Argument], statement: Simple) -> None:
    """`setopt` and `unsetopt` of zsh, of which only what decides about patterns without a match counts."""
    if "zsh" not in shell.state.options:
        shell.external(words, statement)
        return
    names = {word.text.replace("_", "").lower() for word in words[1:]}
    if words[0].text == "unsetopt":
        names = {"nonomatch" for name in names if name == "nomatch"}
    if names & {"nonomatch", "noglob", "nullglob", "shwordsplit"}:
        shell.state.options |= {"f" if name == "noglob" else name for name in names}
    shell.state.status = True


def _exit(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    shell.state.status = _status_word(words, shell)
    shell.state.stopped = "exit"


def _return(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    shell.state.status = _status_word(words, shell)
    shell.state.stopped = "return"


def _status_word(words: list[Argument], shell: Shell) -> bool | None:
    if len(words) < 2:
        return shell.state.status
    return int(words[1].text) == 0 if words[1].text.isdigit() else None


def _leave_loop(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    shell.state.stopped = words[0].text
    shell.state.levels = int(words[1].text) if len(words) > 1 and words[1].text.isdigit() else 1


def _cd(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    import os

    state = shell.state
    targets = [word for word in words[1:] if word.text not in ("-P", "-L", "--", "-e")]
    home = state.variables.get("HOME")
    target = _value(targets[0]) if targets else (home.scalar if home is not None and home.scalar else unknown("HOME"))
    if not target.known or target.text == "-" or (not target.text.startswith("/") and UNKNOWN in state.directory):
        state.directory, state.status = UNKNOWN, None
        return
    if words[0].text == "pushd":
        state.stack = (*state.stack, state.directory)
    state.directory = absolute(target.text, state.directory)
    state.status = True if os.path.isdir(state.directory) else None
    if "P" in "".join(word.text for word in words[1:] if word.text.startswith("-")):
        state.directory = os.path.realpath(state.directory)


def _popd(shell: Shell, _words: list[Argument], _statement: Simple) -> None:
    stack = shell.state.stack
    shell.state.directory = stack[-1] if stack else UNKNOWN
    shell.state.stack = stack[:-1]
    shell.state.status = True if stack else None


def _pwd(shell: Shell, _words: list[Argument], statement: Simple) -> None:
    value = directory_value(shell.state)
    shell.print(Value(value.text + "\n", value.unknown), statement)
    shell.state.status = True


def _echo(shell: Shell, words: list[Argument], statement: Simple) -> None:
    shell.print(printing.echo(words[1:]), statement)
    shell.state.status = True


def _printf(shell: Shell, words: list[Argument], statement: Simple) -> None:
    shell.state.status = True
    if len(words) > 2 and words[1].text == "-v":
        shell.assign(words[2].text, printing.printf(words[3:]))
    else:
        shell.print(printing.printf(words[1:]), statement)


def _test(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    operands = words[1:]
    if words[0].text == "[":
        if not operands or operands[-1].text != "]":
            shell.state.status = None
            return
        operands = operands[:-1]
    shell.finish(conditions.test([_value(word) for word in operands], shell.state))


def _let(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    value = Value("0")
    for word in words[1:]:
        value = shell.expander.number(word.text)
    shell.finish(value.text != "0" if value.known else None)


def _read(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    takes_value, names = False, []
    with_value = "dinNptu" if words[0].text == "read" else "dnOsuCc"
    for word in words[1:]:
        if takes_value:
            takes_value = False
        elif word.text.startswith("-"):
            takes_value = word.text[-1] in with_value
            if word.text[-1] == "a":
                continue
        elif _NAME.match(word.text):
            names.append(word.text)
    for name in names or ["REPLY"]:
        reason = "it is read while the script runs"
        if any("a" in word.text for word in words[1:] if word.text.startswith("-")) or words[0].text != "read":
            shell.state.variables[name] = Cell({0: unknown(reason)}, location=shell.here(), unsure=reason)
        else:
            shell.assign(name, unknown(reason))
    shell.state.status = None


def _getopts(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    arguments = [_value(word) for word in words[3:]] or shell.state.positional
    first = arguments[0] if arguments else Value("")
    none_left = not shell.state.positional_unsure and (not arguments or (first.known and not first.text.startswith("-")))
    if none_left:
        shell.assign(words[2].text if len(words) > 2 else "OPTARG", Value("?"))
        shell.state.status = False
        return
    for name in (words[2].text if len(words) > 2 else "OPTARG", "OPTARG", "OPTIND"):
        if _NAME.match(name):
            shell.assign(name, unknown("getopts is not followed"))
    shell.state.status = None


def _prefix(shell: Shell, words: list[Argument], statement: Simple) -> None:
    """`command`, `builtin`, `time`, `exec` in front of another command."""
    kind = words[0].text
    place = 1
    while place < len(words) and words[place].text.startswith("-"):
        if kind == "command" and words[place].text in ("-v", "-V"):
            _cannot_tell(shell, words, statement)
            return
        place += 2 if kind == "exec" and words[place].text == "-a" else 1
    rest = words[place:]
    if not rest:
        shell.state.status = True
    elif kind in ("command", "builtin") and rest[0].text in BUILTINS:
        BUILTINS[rest[0].text](shell, rest, statement)
    elif kind == "time" and (rest[0].text in BUILTINS or rest[0].text in shell.state.functions):
        shell.dispatch(rest, statement)
    else:
        shell.external(words, statement)


def _eval(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    text = " ".join(word.text for word in words[1:])
    if UNKNOWN in text and _HOOK.search(shell.unit.text[_statement.start : _statement.end]):
        shell.state.status = None
        return
    if UNKNOWN in text:
        reason = next(word.unknown for word in words[1:] if word.unknown)
        shell.note("undecidable", {"word": "eval", "line": str(shell.here().line)})
        shell.state.unseen = f"eval runs a text that is not known: {reason}"
        shell.state.status = None
        return
    calls.read_text(shell, text)


def _source(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    from verl_doctor.job.shell.commands import follow_source

    follow_source(shell, words)


BUILTINS: dict[str, Builtin] = {
    **dict.fromkeys((":", "true", "trap", "umask", "ulimit", "alias", "unalias", "hash", "disown", "enable", "bind",
                     "complete", "history", "sleep"), _succeed),
    **dict.fromkeys(("type", "which", "wait", "jobs", "kill", "caller", "compgen", "fc", "fg", "bg", "times",
                     "dirs"), _cannot_tell),
    "false": _fail,
    **dict.fromkeys(DECLARATIONS, declare),
    "unset": unset,
    "set": _set,
    "shift": _shift,
    "shopt": _shopt,
    "setopt": _setopt,
    "unsetopt": _setopt,
    "exit": _exit,
    "logout": _exit,
    "return": _return,
    "break": _leave_loop,
    "continue": _leave_loop,
    "cd": _cd,
    "pushd": _cd,
    "popd": _popd,
    "pwd": _pwd,
    "echo": _echo,
    "printf": _printf,
    "test": _test,
    "[": _test,
    "let": _let,
    "read": _read,
    "mapfile": _read,
    "readarray": _read,
    "getopts": _getopts,
    "command": _prefix,
    "builtin": _prefix,
    "time": _prefix,
    "exec": _prefix,
    "eval": _eval,
    "source": _source,
    ".": _source,
}  # fmt: skip
"""By name: what runs instead of the builtin."""
