"""Expanding words as bash does: braces, tildes, parameters, substitutions, arithmetic, splitting, file names, quotes."""

from __future__ import annotations

import os
import re
from typing import Protocol

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell import arithmetic, braces, operators, parameters
from verl_doctor.job.shell.patterns import Chars
from verl_doctor.job.shell.splitting import Piece, joined, separators, words
from verl_doctor.job.shell.state import State, Value, unknown
from verl_doctor.job.shell.words import Arithmetic, Command, Literal, Parameter, Part, Process, parse_word

_MAX_WORDS = 20_000


class Host(Protocol):
    """The shell that the words are expanded in."""

    state: State
    script: str
    sources: list[str]
    empty_sources: dict[str, set[str]]

    def run_substitution(self, command: Command) -> Value:
        """What the commands print."""

    def assign(self, name: str, value: Value) -> None:
        """Set a variable."""

    def report_unset(self, name: str, message: bool) -> None:
        """A variable without a value under `set -u`, or `${name:?message}`."""

    def report_empty(self, name: str) -> None:
        """A variable that is not set gave an empty text."""


class Expander:
    """Expands words in the present state of a shell."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def fields(self, raw: str) -> list[Value]:
        """The words that a raw word becomes in a command. Raises scan.Unclosed."""
        found: list[Value] = []
        for word in braces.expand(raw):
            found += words(self._pieces(self._tilde(parse_word(word), assignment=False)), self.host.state)
            if len(found) > _MAX_WORDS:
                return [unknown("the word becomes too many words")]
        return found

    def text(self, raw: str, *, assignment: bool = False) -> Value:
        """The one text that a raw word becomes where nothing is split: after `=`, in `[[`, `case` and redirections."""
        return joined(self._pieces(self._tilde(parse_word(raw), assignment=assignment)))

    def quoted_text(self, raw: str) -> Value:
        """The text as inside "..." (here: arithmetic and subscripts)."""
        return joined(self._pieces(parse_word(raw, in_double=True)))

    def pattern(self, raw: str) -> tuple[Chars, Value]:
        """The characters of a pattern with whether they are quoted, and its text."""
        pieces = self._pieces(self._tilde(parse_word(raw), assignment=False))
        chars = [(char, piece.quoted) for piece in pieces for char in piece.value.text]
        return chars, joined(pieces)

    def number(self, expression: str) -> Value:
        """The value of an arithmetic expression as text."""
        text = self.quoted_text(expression)
        if not text.known:
            self._spoil(text.text, text.unknown)
            return unknown(text.unknown)
        try:
            return Value(str(arithmetic.evaluate(text.text, self._variable, self._put_number)))
        except arithmetic.Unknown as error:
            self._spoil(text.text, str(error))
            return unknown(str(error))
        except (arithmetic.BadArithmetic, RecursionError):
            self._spoil(text.text, "the arithmetic is not followed")
            return unknown("the arithmetic is not followed")

    def _spoil(self, expression: str, reason: str) -> None:
        for name in arithmetic.assigned_names(expression):
            self.host.assign(name, unknown(reason))

    def _variable(self, name: str) -> Value | None:
        base, bracket, index = name.partition("[")
        if bracket:
            return self._look(Parameter(base, True, name, index=index[:-1])).value
        looked = parameters.scalar(base, self.host.state, self.host.script, self.host.sources)
        if looked.value is None and "u" in self.host.state.options:
            self.host.report_unset(base, False)
            return unknown(f"${base} is not set")
        return looked.value

    def _put_number(self, name: str, text: str) -> None:
        self.host.assign(name, Value(text))

    def _tilde(self, parts: tuple[Part, ...], *, assignment: bool) -> tuple[Part, ...]:
        if not parts or not isinstance(parts[0], Literal) or parts[0].quoted or "~" not in parts[0].text:
            return parts
        first, alone = parts[0], len(parts) == 1
        home = self.host.state.variables.get("HOME")
        value = home.scalar if home is not None else None
        text = first.text
        if assignment or re.match(r"[A-Za-z_]\w*=", text):
            places = [match.end() for match in re.finditer(r"(?:\A|[=:])(?=~)" if not assignment else r"(?:\A|:)(?=~)", text)]
        else:
            places = [0] if text.startswith("~") else []
        result: list[Part] = []
        done = 0
        for place in places:
            match = re.compile(r"~([^/:]*)(?=[/:]|\Z)").match(text, place)
            if match is None or (match.end() == len(text) and not alone):
                continue
            result.append(Literal(text[done:place], False))
            result.append(Literal(value.text if value and not match[1] else UNKNOWN, True))
            done = match.end()
        return (*result, Literal(text[done:], False), *parts[1:])

    def _pieces(self, parts: tuple[Part, ...]) -> list[Piece]:
        pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, Literal):
                reason = "part of it cannot be known" if UNKNOWN in part.text else ""
                pieces.append(Piece(Value(part.text, reason), part.quoted))
            elif isinstance(part, Parameter):
                pieces += self._parameter(part)
            elif isinstance(part, Arithmetic):
                pieces.append(Piece(self.number(part.text), part.quoted, not part.quoted))
            elif isinstance(part, Command):
                pieces.append(Piece(self.host.run_substitution(part), part.quoted, not part.quoted))
            elif isinstance(part, Process):
                pieces.append(Piece(unknown("the file of a process substitution"), True))
        return pieces

    def _parameter(self, part: Parameter) -> list[Piece]:
        if part.bad:
            return [Piece(unknown(operators.NOT_FOLLOWED), part.quoted)]
        if part.prefix.startswith("!") and part.index not in ("@", "*"):
            return self._indirect(part)
        if part.name in ("@", "*") or part.index in ("@", "*"):
            return self._many(part)
        looked = self._look(part)
        if part.prefix == "#":
            return [self._piece(self._length(looked, part), part)]
        if part.operator in (":-", "-", ":=", "=", ":+", "+", ":?", "?"):
            return self._default(part, looked)
        value = self._checked(looked, part)
        return [self._piece(self._operate(part, value), part)]

    @staticmethod
    def _piece(value: Value, part: Parameter) -> Piece:
        return Piece(value, part.quoted, not part.quoted)

    def _look(self, part: Parameter) -> parameters.Looked:
        state = self.host.state
        own = state.variables.get(part.name)
        if "zsh" in state.options and own is not None and (part.index or isinstance(own.content, dict)):
            return parameters.Looked(unknown("arrays of zsh are not followed"), "arrays of zsh are not followed")
        if not part.index:
            return parameters.scalar(part.name, state, self.host.script, self.host.sources)
        cell = state.variables.get(part.name)
        if part.name == "BASH_SOURCE":
            known = part.index == "0"
            return parameters.Looked(Value(self.host.sources[-1]) if known else unknown(operators.NOT_FOLLOWED))
        if cell is None and not part.index.startswith("-"):
            return parameters.implicit(part.name, state)
        if cell is not None and cell.associative:
            key = self.text(part.index)
            return parameters.element(cell, key.text) if key.known else parameters.Looked(unknown(key.unknown), key.unknown)
        place = self.number(part.index)
        if not place.known:
            return parameters.Looked(unknown(place.unknown), place.unknown)
        return parameters.element(cell, int(place.text))

    def _checked(self, looked: parameters.Looked, part: Parameter) -> Value:
        """The value; an unset one is empty, and an error under `set -u`."""
        if looked.value is not None:
            if not looked.value.text and part.name in self.host.empty_sources:
                self.host.report_empty(part.name)
            return looked.value
        if "u" in self.host.state.options:
            self.host.report_unset(part.name, False)
            return unknown(f"${part.name} is not set")
        self.host.report_empty(part.name)
        return Value("")

    def _length(self, looked: parameters.Looked, part: Parameter) -> Value:
        value = self._checked(looked, part)
        return Value(str(len(value.text))) if value.known else unknown(value.unknown)

    def _default(self, part: Parameter, looked: parameters.Looked) -> list[Piece]:
        """`:-`, `:=`, `:+`, `:?` and those without the colon."""
        value, kind = looked.value, part.operator[-1]
        if looked.unsure:
            absent: bool | None = None
        elif value is None:
            absent = True
        elif not part.operator.startswith(":") or value.text.strip(UNKNOWN):
            absent = False
        else:
            absent = None if value.text else True
        if absent is None and value is not None and value.text.strip(UNKNOWN) and not looked.unsure:
            absent = False
        if absent is None:
            reason = looked.unsure or (value.unknown if value else "")
            if kind == "=":
                self.host.assign(part.name, unknown(reason))
            return [self._piece(unknown(reason), part)]
        if kind == "+":
            return self._operand(part) if not absent else [self._piece(Value(""), part)]
        if not absent:
            assert value is not None
            return [self._piece(value, part)]
        if kind == "?":
            self.host.report_unset(part.name, True)
            return [self._piece(unknown(f"${part.name} is not set"), part)]
        if kind == "=":
            value = joined(self._operand(part))
            self.host.assign(part.name, value)
            return [self._piece(value, part)]
        return self._operand(part)

    def _operand(self, part: Parameter) -> list[Piece]:
        parts = parse_word(part.operand, in_double=part.quoted)
        pieces = self._pieces(parts if part.quoted else self._tilde(parts, assignment=False))
        if part.quoted:
            return pieces or [Piece(Value(""), True)]
        # Text of the operand that is not quoted is split like the value of the parameter.
        return [piece if piece.quoted or piece.ends_word else piece._replace(split=True) for piece in pieces]

    def _indirect(self, part: Parameter) -> list[Piece]:
        if part.prefix == "!names":
            names = sorted(name for name in self.host.state.variables if name.startswith(part.name))
            return self._listed([Value(name) for name in names], part, self.host.state.unseen)
        name = self._look(Parameter(part.name, True, part.name, part.index)).value
        if name is None or not re.fullmatch(r"[A-Za-z_]\w*|[0-9]+", name.text):
            reason = name.unknown if name and name.unknown else operators.NOT_FOLLOWED
            return [self._piece(unknown(reason), part)]
        return self._parameter(Parameter(name.text, part.quoted, part.raw, "", "", part.operator, part.operand))

    def _many(self, part: Parameter) -> list[Piece]:
        """`$@`, `$*`, `${name[@]}` and what operators do with them."""
        state = self.host.state
        found = parameters.elements(part.name, state, self.host.sources)
        if part.prefix == "#":
            cell = state.variables.get(part.name)
            absent = part.index and (cell is None or cell.content is None)
            if absent and "u" in state.options and not found.unsure:
                self.host.report_unset(part.name, False)
                return [self._piece(unknown(f"${part.name} is not set"), part)]
            value = unknown(found.unsure) if found.unsure else Value(str(len(found.values)))
            return [self._piece(value, part)]
        if part.prefix == "!":
            return self._keys(part)
        if part.operator in (":-", "-", ":+", "+", ":?", "?", "=", ":="):
            return self._many_default(part, found)
        if part.operator and len(found.values) > 1 and separators(state)[:1] != " ":
            # Where nothing is split, bash joins what an operator gives in other ways than a plain "${name[@]}".
            return [self._piece(unknown(operators.NOT_FOLLOWED), part)]
        if part.operator == ":":
            values, unsure = self._slice(part, found)
            return self._listed(values, part, unsure)
        return self._listed([self._operate(part, value) for value in found.values], part, found.unsure)

    def _keys(self, part: Parameter) -> list[Piece]:
        cell = self.host.state.variables.get(part.name)
        if cell is None or cell.content is None:
            unseen = self.host.state.unseen
            return [self._piece(unknown(unseen), part)] if unseen else []
        if isinstance(cell.content, Value) and not cell.unsure:
            return self._listed([Value("0")], part, "")
        if not isinstance(cell.content, dict) or cell.unsure or (cell.associative and len(cell.content) > 1):
            return [self._piece(unknown(operators.NOT_FOLLOWED), part)]
        return self._listed([Value(str(key)) for key in parameters.in_order(cell)], part)

    def _many_default(self, part: Parameter, found: parameters.Elements) -> list[Piece]:
        empty = not found.values or (part.operator.startswith(":") and len(found.values) == 1 and not found.values[0].text)
        doubtful = found.unsure or (
            part.operator.startswith(":") and len(found.values) == 1 and not found.values[0].text.strip(UNKNOWN) and not empty
        )
        if doubtful:
            return [self._piece(unknown(found.unsure or found.values[0].unknown), part)]
        if part.operator[-1] == "+":
            return [] if empty else self._operand(part)
        if not empty:
            return self._listed(found.values, part, "")
        return self._operand(part) if part.operator[-1] == "-" else [self._piece(unknown(operators.NOT_FOLLOWED), part)]

    def _slice(self, part: Parameter, found: parameters.Elements) -> tuple[list[Value], str]:
        bounds = self._bounds(part.operand)
        if bounds is None or found.unsure or part.name == "BASH_SOURCE":
            reason = found.unsure or operators.NOT_FOLLOWED
            return [unknown(reason)], reason
        values = [Value(self.host.script), *found.values] if part.name in "@*" else found.values
        cell = self.host.state.variables.get(part.name)
        if (
            cell is not None
            and isinstance(cell.content, dict)
            and sorted(cell.content, key=str) != sorted(range(len(found.values)), key=str)
        ):
            return [unknown(operators.NOT_FOLLOWED)], operators.NOT_FOLLOWED
        offset, length = bounds
        start = offset + len(values) if offset < 0 else offset
        if start < 0 or (length is not None and length < 0):
            return ([], "") if length is None or length >= 0 else ([unknown(operators.NOT_FOLLOWED)], operators.NOT_FOLLOWED)
        return values[start:] if length is None else values[start : start + length], ""

    def _bounds(self, operand: str) -> tuple[int, int | None] | None:
        depth, cut = 0, len(operand)
        for place, char in enumerate(operand):
            depth += (char in "({") - (char in ")}")
            if char == ":" and depth == 0:
                cut = place
                break
        offset = self.number(operand[:cut])
        length = self.number(operand[cut + 1 :]) if cut < len(operand) else None
        if not offset.known or (length is not None and not length.known):
            return None
        return int(offset.text), None if length is None else int(length.text)

    def _listed(self, values: list[Value], part: Parameter, unsure: str = "") -> list[Piece]:
        """The pieces of several words: "$@" ends a word after each, "$*" joins them."""
        star = "*" in (part.name, part.index)
        if unsure and not any(UNKNOWN in value.text for value in values):
            values = [*values, unknown(unsure)]
        if part.quoted and star:
            separator = separators(self.host.state)[:1]
            reason = next((value.unknown for value in values if value.unknown), "")
            return [Piece(Value(separator.join(value.text for value in values), reason), True)]
        pieces: list[Piece] = []
        for place, value in enumerate(values):
            pieces.append(Piece(value, part.quoted, not part.quoted, place < len(values) - 1))
        return pieces

    def _operate(self, part: Parameter, value: Value) -> Value:
        operator = part.operator
        if not operator:
            return value
        if operator in ("#", "##", "%", "%%"):
            chars, text = self.pattern(part.operand)
            return operators.strip(value, operator, chars) if text.known else unknown(text.unknown)
        if operator in ("/", "//", "/#", "/%"):
            return self._substitute(operator, part.operand, value)
        if operator in ("^", "^^", ",", ",,") and not part.operand:
            return operators.change_case(value, operator)
        if operator == "@" and part.operand in ("U", "L", "u"):
            return operators.change_case(value, {"U": "^^", "L": ",,", "u": "^"}[part.operand])
        if operator == ":":
            bounds = self._bounds(part.operand)
            sliced = None if bounds is None else operators.slice_text(value, *bounds)
            return unknown(value.unknown or operators.NOT_FOLLOWED) if sliced is None else sliced
        return unknown(operators.NOT_FOLLOWED)

    def _substitute(self, operator: str, operand: str, value: Value) -> Value:
        cut = _slash(operand)
        chars, text = self.pattern(operand[:cut])
        pieces = self._pieces(self._tilde(parse_word(operand[cut + 1 :]), assignment=False))
        replacement = joined(pieces)
        if not text.known or not replacement.known:
            return unknown(text.unknown or replacement.unknown)
        if any("&" in piece.value.text and not piece.quoted for piece in pieces):
            return unknown("'&' in a replacement means something else from bash 5.2 on")
        return operators.substitute(value, operator, chars, replacement.text)


def _slash(operand: str) -> int:
    """Where the pattern of `${name/pattern/replacement}` ends."""
    place, quote = 0, ""
    while place < len(operand):
        char = operand[place]
        if char == "\\" and quote != "'":
            place += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "/":
            return place
        elif operand.startswith("${", place):
            depth = 0
            while place < len(operand):
                depth += (operand[place] == "{") - (operand[place] == "}")
                if depth == 0 and operand[place] == "}":
                    break
                place += 1
        place += 1
    return len(operand)


def absolute(path: str, directory: str) -> str:
    """The path as seen from a directory, without `.` and `..`."""
    return os.path.normpath(os.path.join(directory, path)) if path else directory
