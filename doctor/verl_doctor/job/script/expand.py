"""Expands words as bash does: braces, tilde, parameters, commands, arithmetic, splitting, paths (bash 5.2, subst.c)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.script import braces, patterns
from verl_doctor.job.script.arithmetic import Arithmetic as Evaluation
from verl_doctor.job.script.arithmetic import ArithmeticRefused, Number, Uncertain
from verl_doctor.job.script.fields import Field, Fields
from verl_doctor.job.script.state import State, Value, Var, unknown
from verl_doctor.job.script.syntax import (
    Arithmetic,
    BadSubstitution,
    Literal,
    Parameter,
    Part,
    ProcessFile,
    Quoted,
    Substitution,
    Word,
)
from verl_doctor.job.script.words import ansi_text
from verl_doctor.report import Location

MAX_TEXT = 1_000_000
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ELEMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[(.*)\]\Z", re.DOTALL)
_TILDE = re.compile(r"~([A-Za-z_][\w\-]*|\+|-)?(?=/|\Z)")
_TILDE_LATER = re.compile(r"(?<=[:=])~([A-Za-z_][\w\-]*|\+|-)?(?=/|:|\Z)")
_UNNAMED = {"$": "a process number", "!": "a process number", "-": "the options of the shell"}


class ExpansionFailed(Exception):
    """Bash gives up on the command: `flow` is `exit` (the script ends) or `discard` (the rest of the line is not run)."""

    def __init__(self, flow: str) -> None:
        super().__init__(flow)
        self.flow = flow


class Host(Protocol):
    """What expanding needs of the interpreter."""

    def substitute(self, part: Substitution, state: State) -> Value:
        """The output of a command substitution."""

    def side_commands(self, part: ProcessFile, state: State) -> None:
        """The commands of `<(...)`."""

    def unset_stops(self, name: str, place: Location | None, state: State, message: str = "") -> None:
        """The script stops because a variable is not set."""

    def glob_word(self, value: Value, outcome: str, state: State) -> None:
        """An unquoted word was a pattern; `outcome` is `none`, `dropped`, `refused` or `matched`."""


class Subject(NamedTuple):
    """What a parameter stands for: `values` is None when it is not set; `many` is `@`, `*` or empty."""

    values: list[Value] | None
    many: str = ""


class Expander:
    """The expansions of one interpreter."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def fields(self, word: Word, state: State) -> list[Value]:
        """The words that one word of a command becomes. Raises ExpansionFailed."""
        found: list[Value] = []
        for one in braces.expanded(word):
            place = word.source.location(word.start)
            plain = one.literal
            if plain is not None and "~" not in plain and not patterns.is_active(plain):
                found.append(Value(plain, place=place))
                continue
            fields = Fields(self._separators(state), splitting=not state.has("zsh"))
            self._word(one, fields, state, split=False)
            for field in fields.finish():
                found += self._paths(field, place, state)
        return found

    def text(self, word: Word | None, state: State) -> Value:
        """The text that a word becomes where it is neither split nor matched against paths: assignments, `case`, redirections."""
        if word is None:
            return Value("")
        plain = word.literal
        if plain is not None and "~" not in plain:
            return Value(plain, place=word.source.location(word.start))
        return self._field(word, state, tilde_later=True).value(word.source.location(word.start))

    def pattern(self, word: Word | None, state: State) -> tuple[str, str]:
        """The pattern that a word becomes, and why a part of it is not known."""
        if word is None:
            return "", ""
        field = self._field(word, state)
        return field.pattern, field.reason

    def replacement(self, word: Word | None, state: State) -> Value:
        """The text after the second slash of `${name/pattern/text}`."""
        return Value("") if word is None else self._field(word, state).value(None)

    def number(self, word: Word, state: State) -> Value:
        """The value of an arithmetic expression as text."""
        text = self.text(word, state)
        return self.evaluate(text, state)

    def evaluate(self, text: Value, state: State) -> Value:
        """The number that a text comes to as an arithmetic expression. Raises ExpansionFailed."""
        reasons = [text.reason] if text.reason else []
        reader = _Variables(self, state, reasons)
        try:
            number = Evaluation(text.text, reader.read, reader.write).value()
        except ArithmeticRefused as error:
            raise ExpansionFailed("discard") from error
        except Uncertain:
            _forget_assigned(text.text, state, reasons)
            number = None
        return Value(str(number)) if number is not None else unknown(reasons[0] if reasons else "a number that is not known")

    def element_key(self, var: Var | None, index: Word, state: State) -> int | str | None:
        """The key of an element of an array, None when it is not known."""
        if var is not None and var.is_map:
            key = self.text(index, state)
            return key.text if key.known else None
        number = self.number(index, state)
        return int(number.text) if number.known else None

    def _field(self, word: Word, state: State, *, tilde_later: bool = False) -> Field:
        fields = Fields("", splitting=False)
        self._word(word, fields, state, split=False, tilde_later=tilde_later)
        done = fields.finish()
        if not done:
            return Field(reason=fields.current.reason, unset=fields.current.unset)
        if len(done) == 1:
            return done[0]
        joined = Field(reason=next((one.reason for one in done if one.reason), ""))
        for place, one in enumerate(done):
            if place:
                joined.pieces.append((" ", True))
            joined.pieces += one.pieces
            joined.unset += one.unset
        return joined

    def _separators(self, state: State) -> str:
        var = state.variables.get("IFS")
        if var is None or not isinstance(var.value, Value):
            return " \t\n"
        return var.value.text if var.value.known else " \t\n"

    def _word(self, word: Word, fields: Fields, state: State, *, split: bool, tilde_later: bool = False) -> None:
        parts = word.parts
        first = parts[0] if parts else None
        if isinstance(first, Literal) and not first.quoted and "~" in first.text:
            parts = [*self._tilde(first.text, state, alone=len(parts) == 1, later=tilde_later), *parts[1:]]
        self._parts(parts, fields, state, quoted=False, split=split)
        if sum(len(text) for text, _ in fields.current.pieces) > MAX_TEXT:
            fields.current.pieces = [(UNKNOWN, True)]
            fields.current.reason = "the text is too long"

    def _tilde(self, text: str, state: State, *, alone: bool, later: bool) -> list[Part]:
        parts: list[Part] = []
        place = 0
        assigned = _ASSIGNED.match(text)
        expression = _TILDE_LATER if assigned or later else _TILDE
        matches = list(expression.finditer(text)) if assigned or later else []
        start = _TILDE.match(text)
        for match in [*([start] if start else []), *matches]:
            if match.end() == len(text) and not alone:
                continue  # `~$x`, `~"x"`: what follows belongs to the name
            parts += [Literal(text[place : match.start()]), self._home(match, state)]
            place = match.end()
        return [*parts, Literal(text[place:])]

    def _home(self, match: re.Match[str], state: State) -> Part:
        name = {None: "HOME", "+": "PWD", "-": "OLDPWD"}.get(match[1])
        var = state.get(name) if name else None
        if var is not None and isinstance(var.value, Value):
            return Literal(var.value.text, quoted=True)
        return Literal(UNKNOWN, quoted=True) if match[1] not in ("+", "-") else Literal(match[0], quoted=True)

    def _parts(self, parts: list[Part], fields: Fields, state: State, *, quoted: bool, split: bool) -> None:
        for part in parts:
            if isinstance(part, Literal):
                if split and not quoted and not part.quoted:
                    fields.add_value(Value(part.text), quoted=False)
                else:
                    fields.add(part.text, quoted=quoted or part.quoted)
            elif isinstance(part, Quoted):
                self._quoted(part, fields, state)
            elif isinstance(part, Parameter):
                self._parameter(part, fields, state, quoted=quoted)
            elif isinstance(part, Substitution):
                fields.add_value(self.host.substitute(part, state), quoted=quoted)
            elif isinstance(part, Arithmetic):
                fields.add_value(self.number(part.expression, state), quoted=quoted)
            elif isinstance(part, ProcessFile):
                self.host.side_commands(part, state)
                fields.add_value(unknown("it is the path of a pipe"), quoted=True)
            elif isinstance(part, BadSubstitution):
                raise ExpansionFailed("discard")

    def _quoted(self, part: Quoted, fields: Fields, state: State) -> None:
        lists = [one for one in part.parts if isinstance(one, Parameter) and self._is_list(one)]
        if lists and len(lists) == len(part.parts):
            self._parts(part.parts, fields, state, quoted=True, split=False)
            return
        fields.add("", quoted=True)
        self._parts(part.parts, fields, state, quoted=True, split=False)

    @staticmethod
    def _is_list(part: Parameter) -> bool:
        index = part.index.literal if part.index else None
        return not part.length and (part.name == "@" or index == "@") and not (part.indirect and part.index is None)

    def _parameter(self, part: Parameter, fields: Fields, state: State, *, quoted: bool) -> None:
        subject = self._subject(part, state)
        if part.operator and part.operator in (":-", "-", ":=", "=", ":?", "?", ":+", "+"):
            self._default(part, subject, fields, state, quoted=quoted)
            return
        if part.length:
            fields.add_value(self._length(part, subject, state), quoted=quoted)
            return
        if subject.values is None:
            self._unset(part, state)
            fields.add_value(Value("", unset=(part.name,)), quoted=quoted)
            return
        self._add(Subject(self._operated(part, subject, state), subject.many), fields, state, quoted=quoted)

    def _add(self, subject: Subject, fields: Fields, state: State, *, quoted: bool) -> None:
        values = subject.values or []
        if not subject.many:
            fields.add_value(values[0] if values else Value(""), quoted=quoted)
        elif subject.many == "*" and quoted:
            separator = self._separators(state)[:1]
            reason = next((value.reason for value in values if value.reason), "")
            fields.add_value(Value(separator.join(value.text for value in values), reason), quoted=True)
        elif not fields.splitting and subject.many:
            for place, value in enumerate(values):
                if place:
                    fields.add(" ", quoted=True)
                fields.add_value(value, quoted=quoted)
        else:
            fields.add_list(values, quoted=quoted)

    def _unset(self, part: Parameter, state: State) -> None:
        if state.has("nounset") and part.name not in ("@", "*") and not (part.index and part.index.literal in ("@", "*")):
            self.host.unset_stops(part.name, None, state)
            raise ExpansionFailed("exit")

    def _subject(self, part: Parameter, state: State) -> Subject:
        if part.indirect:
            return self._indirect(part, state)
        return self._plain(part.name, part.index, state)

    def _plain(self, name: str, index: Word | None, state: State) -> Subject:
        if name in ("@", "*"):
            return Subject(list(state.positional), name)
        if name.isdigit():
            number = int(name[:9])
            if number == 0:
                return Subject([state.name])
            return Subject([state.positional[number - 1]] if number <= len(state.positional) else None)
        if name == "#":
            return Subject([Value(str(len(state.positional)))])
        if name == "?":
            return Subject([unknown("the result of the command before") if state.status is None else Value(str(state.status))])
        if name in _UNNAMED:
            return Subject([unknown(f"${name} is {_UNNAMED[name]}")])
        return self._variable(name, index, state)

    def _variable(self, name: str, index: Word | None, state: State) -> Subject:
        special = _special_array(name, state)
        var = Var(special) if special is not None else state.get(name)
        value = var.value if var else None
        if index is None:
            if isinstance(value, dict):
                value = value.get("0" if var and var.is_map else 0)  # type: ignore[call-overload]
            return Subject(None if value is None else [value])
        many = index.literal if index.literal in ("@", "*") else ""
        if many:
            values = list(_in_order(value).values()) if isinstance(value, dict) else [] if value is None else [value]
            return Subject(values if values or var else None, many)
        return Subject(self._element(var, index, state))

    def _element(self, var: Var | None, index: Word, state: State) -> list[Value] | None:
        key = self.element_key(var, index, state)
        value = var.value if var else None
        if value is None:
            return None
        if key is None or (isinstance(value, Value) and not value.known and key != 0):
            return [unknown("which element of the array is meant is not known")]
        elements = value if isinstance(value, dict) else {0: value}
        if isinstance(key, int) and key < 0 and elements:
            key += max(elements) + 1  # type: ignore[operator]
        found = elements.get(key)  # type: ignore[call-overload]
        return None if found is None else [found]

    def _indirect(self, part: Parameter, state: State) -> Subject:
        if part.operator in ("*", "@"):
            names = sorted(name for name in state.variables if name.startswith(part.name))
            return Subject([Value(name) for name in names], part.operator)
        many = part.index.literal if part.index and part.index.literal in ("@", "*") else ""
        var = state.get(part.name)
        if many:
            value = var.value if var else None
            if isinstance(value, Value) and not value.known:
                return Subject([value], many)
            keys = list(_in_order(value)) if isinstance(value, dict) else [] if value is None else [0]
            return Subject([Value(str(key)) for key in keys], many)
        target = self._plain(part.name, part.index, state).values
        if not target:
            return Subject(None)
        name = target[0]
        if not name.known:
            return Subject([unknown(name.reason)])
        element = _ELEMENT.match(name.text)
        if element:
            return self._plain(element[1], _literal_word(element[2], part), state)
        if not _IDENTIFIER.match(name.text) and not name.text.isdigit() and name.text not in ("@", "*"):
            raise ExpansionFailed("discard")
        return self._plain(name.text, None, state)

    def _default(self, part: Parameter, subject: Subject, fields: Fields, state: State, *, quoted: bool) -> None:
        kind = part.operator[-1]
        given = _is_given(subject, null_counts=not part.operator.startswith(":"))
        if given is None:
            reason = next((value.reason for value in subject.values or [] if value.reason), "it is not known")
            fields.add_value(unknown(reason), quoted=quoted)
        elif kind == "+":
            if given:
                self._operand(part.argument, fields, state, quoted=quoted)
        elif given:
            self._add(subject, fields, state, quoted=quoted)
        elif kind == "-":
            self._operand(part.argument, fields, state, quoted=quoted)
        elif kind == "=":
            value = self.text(part.argument, state)
            state.assign(part.name, value, value.place)
            fields.add_value(value, quoted=quoted)
        else:
            message = self.text(part.argument, state)
            self.host.unset_stops(part.name, None, state, message.text or "parameter null or not set")
            raise ExpansionFailed("exit")

    def _operand(self, word: Word | None, fields: Fields, state: State, *, quoted: bool) -> None:
        if word is None or not word.parts:
            return
        if quoted:
            self._parts(word.parts, fields, state, quoted=True, split=False)
        else:
            self._word(word, fields, state, split=True)

    def _length(self, part: Parameter, subject: Subject, state: State) -> Value:
        if subject.many:
            values = subject.values or []
            if len(values) == 1 and values[0].text == UNKNOWN:
                return unknown(values[0].reason)
            return Value(str(len(values)))
        if subject.values is None:
            self._unset(part, state)
            return Value("0")
        value = subject.values[0]
        return Value(str(len(value.text))) if value.known else unknown(value.reason)

    def _operated(self, part: Parameter, subject: Subject, state: State) -> list[Value]:
        """The values after `#`, `%`, `/`, `^`, `,`, `:` or `@`."""
        values = subject.values or []
        operator = part.operator
        if not operator or (part.indirect and operator in ("*", "@")):
            return values
        if operator == ":":
            return self._sliced(part, subject, state)
        if operator.startswith("@"):
            return [_transformed(value, operator[1]) for value in values]
        if operator[0] in "^,":
            pattern, reason = self.pattern(part.argument, state)
            change = _case_change(operator, pattern or "?")
        elif operator[0] == "/":
            pattern, reason = self.pattern(part.argument, state)
            replacement = self.replacement(part.second, state)
            reason = reason or replacement.reason
            change = _replacement(operator, pattern, replacement.text)
        else:
            pattern, reason = self.pattern(part.argument, state)
            change = _removal(operator, pattern)
        return [_changed(value, change, reason) for value in values]

    def _sliced(self, part: Parameter, subject: Subject, state: State) -> list[Value]:
        start_text = self.number(part.argument, state) if part.argument else Value("0")
        count_text = self.number(part.second, state) if part.second else None
        values = subject.values or []
        if not start_text.known or (count_text is not None and not count_text.known):
            return [unknown(start_text.reason or "which part is meant is not known")]
        start = int(start_text.text)
        count = None if count_text is None else int(count_text.text)
        if not subject.many:
            return [_substring(values[0], start, count)]
        if part.name in ("@", "*"):
            values = [state.name, *values]
        if start < 0:
            start += len(values)
        if count is not None and count < 0:
            raise ExpansionFailed("discard")
        if start < 0:
            return []
        return values[start:] if count is None else values[start : start + count]

    def _paths(self, field: Field, place: Location | None, state: State) -> list[Value]:
        value = field.value(place)
        if not field.has_glob or state.has("noglob"):
            return [value]
        pattern = field.pattern
        if not patterns.is_active(pattern) or UNKNOWN in pattern:
            return [value]
        try:
            matches = patterns.paths(pattern, state.directory, dotglob=state.has("dotglob"))
        except (patterns.NotSimple, patterns.TooMany):
            if "=" in value.text:  # no file has a name like an override
                matches = []
            else:
                return [unknown(f"it is the files that match {value.text}", place)]
        if matches:
            self.host.glob_word(value, "matched", state)
            return [Value(match, place=place) for match in matches]
        if state.has("failglob"):
            self.host.glob_word(value, "refused", state)
            raise ExpansionFailed("discard")
        self.host.glob_word(value, "dropped" if state.has("nullglob") else "none", state)
        return [] if state.has("nullglob") else [value]


class _Variables:
    """Variables as arithmetic reads and sets them."""

    def __init__(self, expander: Expander, state: State, reasons: list[str]) -> None:
        self.expander, self.state, self.reasons = expander, state, reasons

    def read(self, name: str, depth: int) -> Number:
        value = self._value(name)
        if value is None:
            if self.state.has("nounset"):
                self.expander.host.unset_stops(name, None, self.state)
                raise ExpansionFailed("exit")
            return 0
        if not value.known:
            self.reasons.append(value.reason)
            return None
        text = value.text.strip()
        if re.fullmatch(r"[1-9][0-9]{0,17}|0", text):
            return int(text)
        return Evaluation(text, self.read, self.write, depth + 1).value() if text else 0

    def _value(self, name: str) -> Value | None:
        plain, _, index = name.rstrip("]").partition("[")
        var = self.state.get(plain)
        if var is None or var.value is None:
            return None
        if isinstance(var.value, Value):
            return var.value if index in ("", "0") else None if var.value.known else var.value
        if index == UNKNOWN:
            return unknown("which element of the array is meant is not known")
        return var.value.get(index if var.is_map else int(index or 0))  # type: ignore[call-overload]

    def write(self, name: str, number: Number) -> None:
        reason = self.reasons[-1] if self.reasons else "it is computed from something that is not known"
        value = unknown(reason) if number is None else Value(str(number))
        plain, _, index = name.rstrip("]").partition("[")
        if not index:
            self.state.assign(plain, value, None)
            return
        var = self.state.variables.get(plain)
        elements = dict(var.value) if var and isinstance(var.value, dict) else {}
        if UNKNOWN in index:
            self.state.assign(plain, unknown(reason), None)
        else:
            elements[index if var and var.is_map else int(index)] = value  # type: ignore[index]
            self.state.assign(plain, elements, None)


def _forget_assigned(text: str, state: State, reasons: list[str]) -> None:
    """After an expression that could not be followed: the variables that it may set are not known."""
    for name in re.findall(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|([A-Za-z_]\w*)(?:\+\+|--)", text):
        state.assign(name[0] or name[1], unknown(reasons[0] if reasons else "it is computed"), None)


def _literal_word(text: str, part: Parameter) -> Word:
    source = part.index.source if part.index else None
    return Word([Literal(text)], source, 0, 0)  # type: ignore[arg-type]


def _special_array(name: str, state: State) -> dict[int, Value] | None:
    if name == "BASH_SOURCE":
        return {place: Value(file) for place, file in enumerate(state.files)}
    if name == "FUNCNAME" and state.calls:
        return {place: Value(call) for place, call in enumerate(reversed(state.calls))}
    return None


def _in_order(elements: dict[int, Value] | dict[str, Value]) -> dict[int | str, Value]:
    """The elements as bash lists them: arrays by index, maps in an order of their own, which is not known."""
    if all(isinstance(key, int) for key in elements):
        return {key: elements[key] for key in sorted(elements)}  # type: ignore[index,type-var]
    return dict(elements)  # type: ignore[arg-type]


def _is_given(subject: Subject, *, null_counts: bool) -> bool | None:
    """Whether a parameter is set (and not empty, unless null counts); None when that is not known."""
    if subject.values is None:
        return False
    if null_counts:
        return bool(subject.values) or not subject.many
    text = " ".join(value.text for value in subject.values)
    if not text:
        return False
    return None if not text.replace(UNKNOWN, "").strip() and UNKNOWN in text else True


def _substring(value: Value, start: int, count: int | None) -> Value:
    text = value.text
    if not value.known:
        end = start + count if count is not None and count >= 0 else None
        if start >= 0 and end is not None and UNKNOWN not in text[:end] and end <= len(text):
            return Value(text[start:end])
        return unknown(value.reason)
    if start < 0:
        start += len(text)
        if start < 0:
            return Value("")
    if count is None:
        return Value(text[start:])
    if count >= 0:
        return Value(text[start : start + count])
    end = len(text) + count
    if end < start:
        raise ExpansionFailed("discard")
    return Value(text[start:end])


def _changed(value: Value, change: Callable[[str], str], reason: str) -> Value:
    if not value.known or reason:
        return unknown(value.reason or reason)
    try:
        return Value(change(value.text), place=value.place)
    except patterns.NotSimple:
        return unknown("a pattern that is not followed")


def _removal(operator: str, pattern: str) -> Callable[[str], str]:
    def remove(text: str) -> str:
        if operator in ("#", "##"):
            match = patterns.compiled(pattern, lazy=operator == "#").match(text)
            return text[match.end() :] if match else text
        expression = patterns.compiled(pattern)
        starts = range(len(text) + 1) if operator == "%%" else range(len(text), -1, -1)
        if len(text) > 5000:
            raise patterns.NotSimple
        return next((text[:start] for start in starts if expression.fullmatch(text, start)), text)

    return remove


def _replacement(operator: str, pattern: str, new: str) -> Callable[[str], str]:
    def replace(text: str) -> str:
        expression = patterns.compiled(pattern)
        if operator == "/#":
            match = expression.match(text)
            return new + text[match.end() :] if match else text
        if operator == "/%":
            start = next((start for start in range(len(text) + 1) if expression.fullmatch(text, start)), None)
            return text if start is None else text[:start] + new
        if not pattern:
            return text
        return _replace_matches(text, expression, new, every=operator == "//")

    return replace


def _replace_matches(text: str, expression: re.Pattern[str], new: str, *, every: bool) -> str:
    """Replace the first match or every one, from the left; bash looks for no match after the end of the text."""
    out: list[str] = []
    place = 0
    while place < len(text):
        match = expression.search(text, place)
        if match is None or match.start() >= len(text):
            break
        out += [text[place : match.start()], new]
        place = match.end()
        if match.end() == match.start():
            out.append(text[place : place + 1])
            place += 1
        if not every:
            break
    return "".join(out) + text[place:]


def _case_change(operator: str, pattern: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        expression = patterns.compiled(pattern)
        convert = str.upper if operator[0] == "^" else str.lower
        if len(operator) == 1:
            return convert(text[:1]) + text[1:] if text and expression.fullmatch(text[0]) else text
        return "".join(convert(char) if expression.fullmatch(char) else char for char in text)

    return change


def _transformed(value: Value, letter: str) -> Value:
    if not value.known:
        return unknown(value.reason)
    text = value.text
    if letter in "UL":
        return Value(text.upper() if letter == "U" else text.lower())
    if letter == "u":
        return Value(text[:1].upper() + text[1:])
    if letter == "E":
        return Value(ansi_text(text))
    if letter in "QK" and "\n" not in text and text.isprintable():
        return Value("'" + text.replace("'", "'\\''") + "'")
    return unknown(f"${{...@{letter}}}")


def joined_path(directory: str | None, path: str) -> str | None:
    """The path from the directory, None when the directory would be needed and is not known."""
    if path.startswith("/"):
        return os.path.normpath(path)
    return None if directory is None else os.path.normpath(os.path.join(directory, path))
