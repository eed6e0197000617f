"""Reads words as bash does: quotes, `$`-expansions, here-document bodies (bash 5.2, parse.y and subst.c)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from verl_doctor.job.script.shell_text import ShellText
from verl_doctor.job.script.syntax import (
    Arithmetic,
    BadSubstitution,
    Literal,
    Parameter,
    Part,
    ProcessFile,
    Quoted,
    Sequence,
    Substitution,
    Word,
)

MAX_DEPTH = 60
MAX_WORDS = 150_000
METACHARACTERS = " \t\n|&;()<>"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!\-]")
_BRACED_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!\-]")
_LENGTH = re.compile(r"#(?=(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!\-])[}\[])")
_INDIRECT = re.compile(r"!(?=[A-Za-z_0-9@*#])")
_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##?|%%?|//|/[#%]|/|\^\^?|,,?|:|@[UuLQEPAKak](?=\})|[*@](?=\})")
_SINGLE = re.compile(r"'([^']*)'")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ANSI_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_DEFAULTS = frozenset((":-", "-", ":=", "=", ":?", "?", ":+", "+"))
_PARENTHESES = re.compile(r"[()\\\"]")


class ShellSyntaxError(Exception):
    """Bash refuses this text; `offset` is where."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class TooComplex(Exception):
    """The text is longer or nested deeper than is read."""


@dataclass(frozen=True, slots=True)
class _Mode:
    """How text is read in one context: `double` says what a double quote does, `escapes` what a backslash may quote."""

    chunk: re.Pattern[str]
    closers: str = ""
    single: bool = False
    double: str = "open"
    escapes: str = ""


_WORD = _Mode(re.compile(r"[^ \t\n|&;()<>$`\"'\\]+"), METACHARACTERS, single=True)
_DOUBLE = _Mode(re.compile(r"[^\"$`\\]+"), '"', double="close", escapes='$`"\\')
_BODY = _Mode(re.compile(r"[^$`\\]+"), double="literal", escapes="$`\\")
_EXPRESSION = _Mode(re.compile(r"[^$`\\\"]+"), double="drop", escapes='$`"\\')
_OFFSET = _Mode(re.compile(r"[^$`\\\":}]+"), ":}", double="drop", escapes='$`"\\')
_INDEX = _Mode(re.compile(r"[^$`\\\"'\[\]]+"), "]", single=True)
_DEFAULT = _Mode(re.compile(r"[^}$`\"'\\]+"), "}", single=True)
_DEFAULT_QUOTED = _Mode(re.compile(r"[^}$`\"\\]+"), "}", escapes='$`"\\}')
_PATTERN = _DEFAULT
_REPLACED = _Mode(re.compile(r"[^}/$`\"'\\]+"), "}/", single=True)
_GROUPED = _Mode(re.compile(r"[^()$`\"'\\]+"), ")", single=True)
_REGULAR = _Mode(re.compile(r"[^ \t\n$`\"'\\()]+"), " \t\n)", single=True)


class WordReader:
    """Reads words from `source` between `at` and `end`; the grammar above words is in the subclass."""

    def __init__(self, source: ShellText, start: int = 0, end: int | None = None) -> None:
        self.source = source
        self.text = source.text
        self.at = start
        self.end = len(source.text) if end is None else end
        self.depth = 0
        self.words_read = 0
        self.extglob = "extglob" in source.text

    def commands(self, closers: frozenset[str]) -> Sequence:
        """The commands up to one of the closers."""
        raise NotImplementedError

    def nested(self, source: ShellText) -> Sequence:
        """All commands of another text."""
        raise NotImplementedError

    def char(self, ahead: int = 0) -> str:
        """The character at the place, empty at the end."""
        place = self.at + ahead
        return self.text[place] if place < self.end else ""

    def starts(self, text: str) -> bool:
        """Whether the text stands at the place."""
        return self.text.startswith(text, self.at, self.end)

    def fail(self, message: str) -> ShellSyntaxError:
        """The error to raise for what stands at the place."""
        return ShellSyntaxError(message, min(self.at, max(0, self.end - 1)))

    def deeper(self) -> None:
        """Count one level of nesting; the caller lowers `depth` again."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplex(f"the script is nested deeper than {MAX_DEPTH} levels")

    def word(self, *, patterns: bool = False) -> Word:
        """The word at the place; raises ShellSyntaxError when there is none."""
        self.words_read += 1
        if self.words_read > MAX_WORDS:
            raise TooComplex(f"the script has more than {MAX_WORDS} words")
        start = self.at
        extglob, self.extglob = self.extglob, self.extglob or patterns
        parts = self._parts(_WORD)
        self.extglob = extglob
        if self.at == start:
            raise self.fail(f"syntax error near '{self.char()}'" if self.char() else "the command ends early")
        return Word(parts, self.source, start, self.at)

    def regular_expression(self) -> Word:
        """The word after `=~`, in which parentheses and bars stand for themselves."""
        start = self.at
        parts: list[Part] = []
        depth = 0
        while self.at < self.end:
            parts += self._parts(_REGULAR if depth == 0 else _GROUPED)
            char = self.char()
            if char == "(" or (char == ")" and depth):
                depth += 1 if char == "(" else -1
                parts.append(Literal(char))
                self.at += 1
            else:
                break
        return Word(parts, self.source, start, self.at)

    def expression(self, end: int) -> Word:
        """The arithmetic expression up to `end`."""
        start, outer = self.at, self.end
        self.end = end
        try:
            parts = self._parts(_EXPRESSION)
        finally:
            self.end = outer
        self.at = end
        return Word(parts, self.source, start, end)

    def body(self) -> Word:
        """The rest of the text as the body of a here-document."""
        start = self.at
        return Word(self._parts(_BODY), self.source, start, self.end)

    def index(self) -> Word:
        """A subscript; the place is at its `[`."""
        self.at += 1
        start = self.at
        parts = self._index_parts()
        word = Word(parts, self.source, start, self.at)
        self._close("]")
        return word

    def _index_parts(self) -> list[Part]:
        parts = self._parts(_INDEX)
        while self.char() == "[":
            self.at += 1
            self.deeper()
            inner = self._index_parts()
            self.depth -= 1
            self._close("]")
            parts += [Literal("["), *inner, Literal("]"), *self._parts(_INDEX)]
        return parts

    def arithmetic_end(self, start: int) -> int | None:
        """Where the `))` stands that ends the expression, None when the parentheses are those of subshells."""
        depth, place = 0, start
        while True:
            match = _PARENTHESES.search(self.text, place, self.end)
            if match is None:
                return None
            place = match.end()
            if match[0] == "(":
                depth += 1
            elif match[0] == "\\":
                place += 1
            elif match[0] == '"':
                place = self.text.find('"', place, self.end) + 1
                if place == 0:
                    return None
            elif depth:
                depth -= 1
            else:
                return match.start() if self.text.startswith("))", match.start(), self.end) else None

    def _close(self, closer: str) -> None:
        if self.char() != closer:
            raise self.fail(f"'{closer}' is missing")
        self.at += 1

    def _parts(self, mode: _Mode) -> list[Part]:
        self.deeper()
        parts: list[Part] = []
        chunk = mode.chunk
        while self.at < self.end:
            match = chunk.match(self.text, self.at, self.end)
            if match:
                self.at = match.end()
                parts.append(Literal(match[0]))
            if self.at >= self.end or not self._special(self.text[self.at], mode, parts):
                break
        self.depth -= 1
        return parts

    def _special(self, char: str, mode: _Mode, parts: list[Part]) -> bool:
        """Read what starts with a special character; False when it ends the text of this mode."""
        if char == "\\":
            self._backslash(mode, parts)
        elif char == "$":
            parts.append(self._dollar(mode))
        elif char == "`":
            parts.append(self._backquoted(in_double=mode.double == "close"))
        elif char == "'" and mode.single:
            parts.append(self._single())
        elif char == '"' and mode.double == "open":
            parts.append(self._double())
        elif mode is _WORD and char in "(<>":
            return self._in_word(char, parts)
        elif mode is _GROUPED and char == "(":
            self._group(parts)
        elif char in mode.closers or mode is _INDEX or mode is _REGULAR:
            return False
        else:
            if not (char == '"' and mode.double == "drop"):
                parts.append(Literal(char))
            self.at += 1
        return True

    def _backslash(self, mode: _Mode, parts: list[Part]) -> None:
        following = self.char(1)
        self.at += 2
        if following == "\n":
            return
        if not following:
            self.at = self.end
            parts.append(Literal("\\"))
        elif not mode.escapes or following in mode.escapes:
            parts.append(Literal(following, quoted=True))
        else:
            parts.append(Literal("\\" + following))

    def _single(self) -> Literal:
        match = _SINGLE.match(self.text, self.at, self.end)
        if match is None:
            raise self.fail("a ' is not closed")
        self.at = match.end()
        return Literal(match[1], quoted=True)

    def _double(self) -> Quoted:
        start = self.at
        self.at += 1
        parts = self._parts(_DOUBLE)
        if self.char() != '"':
            raise ShellSyntaxError('a " is not closed', start)
        self.at += 1
        return Quoted(parts)

    def _in_word(self, char: str, parts: list[Part]) -> bool:
        """A parenthesis inside a word: an extended pattern or the path of a pipe."""
        if char in "<>":
            if self.char(1) != "(":
                return False
            self.at += 2
            body = self.commands(frozenset((")",)))
            self._close(")")
            parts.append(ProcessFile(body))
            return True
        last = parts[-1] if parts else None
        if self.extglob and isinstance(last, Literal) and not last.quoted and last.text[-1:] in ("?", "*", "+", "@", "!"):
            self._group(parts)
            return True
        return False

    def _group(self, parts: list[Part]) -> None:
        self.at += 1
        parts.append(Literal("("))
        parts += self._parts(_GROUPED)
        self._close(")")
        parts.append(Literal(")"))

    def _backquoted(self, *, in_double: bool) -> Substitution:
        match = _BACKQUOTED.match(self.text, self.at, self.end)
        if match is None:
            raise self.fail("a ` is not closed")
        start, self.at = self.at, match.end()
        text = re.sub(r'\\([$`\\"])' if in_double else r"\\([$`\\])", r"\1", match[1])
        self.deeper()
        commands = self.nested(self.source.part(match.start(1), match.end(1), text))
        self.depth -= 1
        return Substitution(commands, self.source, start, self.at)

    def _dollar(self, mode: _Mode) -> Part:
        following = self.char(1)
        if following == "(":
            return self._parenthesis()
        if following == "{":
            return self._braced(quoted=mode.double in ("close", "literal", "drop") or mode is _DEFAULT_QUOTED)
        if following == "[":
            return self._old_arithmetic()
        if following == "'" and mode.single:
            return self._ansi()
        if following == '"' and mode.double == "open":
            self.at += 1
            return self._double()
        match = _SIMPLE_PARAMETER.match(self.text, self.at + 1, self.end)
        self.at = match.end() if match else self.at + 1
        return Parameter(match[0]) if match else Literal("$")

    def _ansi(self) -> Literal:
        match = _ANSI.match(self.text, self.at, self.end)
        if match is None:
            raise self.fail("a $' is not closed")
        self.at = match.end()
        return Literal(ansi_text(match[1]), quoted=True)

    def _parenthesis(self) -> Part:
        start = self.at
        if self.starts("$(("):
            end = self.arithmetic_end(start + 3)
            if end is not None:
                self.at = start + 3
                expression = self.expression(end)
                self.at = end + 2
                return Arithmetic(expression)
        self.at += 2
        commands = self.commands(frozenset((")",)))
        if self.char() != ")":
            raise ShellSyntaxError("a $( is not closed", start)
        self.at += 1
        return Substitution(commands, self.source, start, self.at)

    def _old_arithmetic(self) -> Part:
        end = self.text.find("]", self.at, self.end)
        if end < 0:
            raise self.fail("a $[ is not closed")
        self.at += 2
        expression = self.expression(end)
        self.at += 1
        return Arithmetic(expression)

    def _braced(self, *, quoted: bool) -> Part:
        start = self.at
        self.at += 2
        length, indirect = self._take(_LENGTH), False
        if not length:
            indirect = self._take(_INDIRECT)
        match = _BRACED_NAME.match(self.text, self.at, self.end)
        if match is None:
            return self._refused(start)
        self.at = match.end()
        parameter = Parameter(match[0], length=length, indirect=indirect)
        if self.char() == "[" and _NAME.match(match[0]):
            parameter.index = self.index()
        if self.char() != "}":
            operator = _OPERATOR.match(self.text, self.at, self.end)
            if operator is None or length:
                return self._refused(start)
            self.at = operator.end()
            parameter.operator = operator[0]
            self._operands(parameter, quoted=quoted)
        if self.char() != "}":
            raise ShellSyntaxError("a ${ is not closed", start)
        self.at += 1
        return parameter

    def _operands(self, parameter: Parameter, *, quoted: bool) -> None:
        operator = parameter.operator
        if operator in _DEFAULTS:
            parameter.argument = self._operand(_DEFAULT_QUOTED if quoted else _DEFAULT)
        elif operator.startswith("/"):
            parameter.argument = self._operand(_REPLACED)
            if self.char() == "/":
                self.at += 1
                parameter.second = self._operand(_DEFAULT)
        elif operator == ":":
            parameter.argument = self._operand(_OFFSET)
            if self.char() == ":":
                self.at += 1
                parameter.second = self._operand(_OFFSET)
        elif operator[0] not in "@*":
            parameter.argument = self._operand(_PATTERN)

    def _operand(self, mode: _Mode) -> Word:
        start = self.at
        parts = self._parts(mode)
        return Word(parts, self.source, start, self.at)

    def _take(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self.text, self.at, self.end)
        if match:
            self.at = match.end()
        return match is not None

    def _refused(self, start: int) -> BadSubstitution:
        self._operand(_DEFAULT)
        self._close("}")
        return BadSubstitution(self.text[start : self.at])


def ansi_text(text: str) -> str:
    """The text of `$'...'` with its escapes carried out; a null character ends it, as in bash."""
    return _ANSI_ESCAPE.sub(_ansi_escape, text).split("\0", 1)[0]


def _ansi_escape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "xuU" and len(escape) > 1:
        number = int(escape[1:], 16)
        if escape[0] == "x" and number > 127:
            return bytes([number]).decode("utf-8", "surrogateescape")
        return chr(number) if number < 0x110000 else match[0]
    if escape[0] in "01234567":
        number = int(escape, 8) & 255
        return chr(number) if number < 128 else bytes([number]).decode("utf-8", "surrogateescape")
    if escape[0] == "c" and len(escape) > 1:
        return chr(ord(escape[1].upper()) & 31)
    if escape in "\\'\"?":
        return escape
    return _ANSI_LETTERS.get(escape, match[0])
