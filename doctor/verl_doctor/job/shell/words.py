"""The parts of a word: text, parameters, substitutions, arithmetic. Nothing is expanded here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from verl_doctor.job.shell import scan
from verl_doctor.job.shell.lexer import is_double


@dataclass(frozen=True)
class Literal:
    """Text that stands for itself."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class Parameter:
    """`$name` or `${...}`. `prefix` is `#` or `!`; `operand` is the raw text after the operator; `bad` what bash refuses."""

    name: str
    quoted: bool
    raw: str
    index: str = ""
    prefix: str = ""
    operator: str = ""
    operand: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Command:
    """`$(...)` or backticks: the text inside."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class Arithmetic:
    """`$((...))`: the text inside."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class Process:
    """`<(...)` or `>(...)`."""

    text: str
    quoted: bool = False


Part = Literal | Parameter | Command | Arithmetic | Process

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!\-]")
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!\-]")
_OPERATOR = re.compile(r":[-=?+]|##|%%|//|/#|/%|\^\^|,,|[-=?+:#%/^,@]")
_ESCAPED_IN_DOUBLE = '$`"\\'
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.))", re.DOTALL
)
_ANSI_SIMPLE = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class _Parser:
    def __init__(self, text: str, quoted: bool) -> None:
        self.text = text
        self.in_double = quoted
        self.parts: list[Part] = []
        self.pending: list[str] = []

    def run(self) -> tuple[Part, ...]:
        place = 0
        while place < len(self.text):
            place = self._double(place) if self.in_double else self._plain(place)
        self._flush(quoted=self.in_double)
        return tuple(self.parts)

    def _flush(self, *, quoted: bool) -> None:
        if self.pending:
            self.parts.append(Literal("".join(self.pending), quoted))
            self.pending = []

    def _add(self, part: Part) -> None:
        self._flush(quoted=self.in_double)
        self.parts.append(part)

    def _plain(self, place: int) -> int:
        text, char = self.text, self.text[place]
        if char == "\\":
            following = text[place + 1 : place + 2]
            if following != "\n":
                self._add(Literal(following, True))
            return place + 2
        if char == "'":
            end = scan.single_quoted(text, place)
            self._add(Literal(text[place + 1 : end - 1], True))
            return end
        if char == '"' or text.startswith('$"', place):
            start = place + (char == "$")
            end = scan.double_quoted(text, start)
            self._inner(start + 1, end - 1)
            return end
        if text.startswith("$'", place):
            end = scan.ansi_quoted(text, place)
            self._add(Literal(unescape_ansi(text[place + 2 : end - 1]), True))
            return end
        if char in "<>" and text.startswith("(", place + 1):
            end = scan.parenthesis(text, place + 1)
            self._add(Process(text[place:end]))
            return end
        return self._expansion(place)

    def _inner(self, start: int, end: int) -> None:
        """The parts of "...", of which an empty one still makes a word."""
        self._flush(quoted=False)
        inner = parse_word(self.text[start:end], in_double=True)
        self.parts += inner or (Literal("", True),)

    def _double(self, place: int) -> int:
        if self.text[place] == '"':  # only inside the operand of "${name:-...}", where quotes are removed
            return place + 1
        if self.text[place] != "\\":
            return self._expansion(place)
        following = self.text[place + 1 : place + 2]
        if following != "\n":
            self.pending.append(following if following and following in _ESCAPED_IN_DOUBLE else "\\" + following)
        return place + 2

    def _expansion(self, place: int) -> int:
        text, quoted = self.text, self.in_double
        if text[place] == "`":
            end = scan.backtick(text, place)
            inner = text[place + 1 : end - 1]
            pattern = r'\\([$`\\"])' if quoted else r"\\([$`\\])"
            self._add(Command(re.sub(pattern, r"\1", inner), quoted))
            return end
        if text[place] != "$":
            self.pending.append(text[place])
            return place + 1
        end = scan.dollar(text, place, in_double=quoted)
        body = text[place + 1 : end]
        if body.startswith("((") and is_double(body):
            self._add(Arithmetic(body[2:-2], quoted))
        elif body.startswith("("):
            self._add(Command(body[1:-1], quoted))
        elif body.startswith("{"):
            self._add(_braced(body[1:-1], quoted))
        elif body and _SIMPLE.fullmatch(body):
            self._add(Parameter(body, quoted, body))
        else:
            self.pending.append(text[place:end])
        return end


def _braced(body: str, quoted: bool) -> Parameter:
    """The parameter expansion of the text inside `${...}`."""
    prefix = ""
    if body[:1] == "!" and len(body) > 1 and (body[1].isalnum() or body[1] == "_"):
        prefix = "!"
    elif body[:1] == "#" and len(body) > 1 and _NAME.match(body, 1) and not re.match(r"#[-?]?[:%#=+]", body):
        prefix = "#"
    match = _NAME.match(body, len(prefix))
    if match is None:
        return Parameter("", quoted, body, bad=True)
    name, place, index = match[0], match.end(), ""
    if body.startswith("[", place):
        end = _bracket_end(body, place)
        index, place = body[place + 1 : end], end + 1
    rest = body[place:]
    if not rest:
        return Parameter(name, quoted, body, index, prefix)
    if prefix == "!" and rest in ("@", "*") and not index:
        return Parameter(name, quoted, body, index, "!names")
    operator = _OPERATOR.match(rest)
    if operator is None or prefix == "#":
        return Parameter(name, quoted, body, bad=True)
    return Parameter(name, quoted, body, index, prefix, operator[0], rest[operator.end() :])


def _bracket_end(text: str, start: int) -> int:
    depth, place = 0, start
    while place < len(text):
        if text[place] == "[":
            depth += 1
        elif text[place] == "]":
            depth -= 1
            if depth == 0:
                return place
        place += 1
    raise scan.Unclosed(start)


def unescape_ansi(text: str) -> str:
    """The text of $'...'."""

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return _ANSI_SIMPLE.get(match[1], match[1])
        if match[2]:
            return chr(int(match[2], 8) & 0xFF)
        digits = match[3] or match[4] or match[5]
        if digits:
            return chr(int(digits, 16)) if int(digits, 16) < 0x110000 else match[0]
        return chr(ord(match[6]) & 0x1F)

    return _ANSI.sub(replace, text)


def parse_word(text: str, *, in_double: bool = False) -> tuple[Part, ...]:
    """The parts of a raw word. `in_double`: the text stood inside "...". Raises scan.Unclosed."""
    return _Parser(text if in_double else scan.without_continuations(text), in_double).run()
