"""Bash's arithmetic: 64-bit integers, variables, assignments (bash 5.2, expr.c)."""

from __future__ import annotations

import re
from collections.abc import Callable

from verl_doctor.job.model import UNKNOWN

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|[0-9]+#[0-9a-zA-Z@_]+|[0-9]+)|([A-Za-z_]\w*)"
    r"|(<<=|>>=|\*\*|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%&|^~!<>=?:,()\[\]])|(" + UNKNOWN + "))"
)
_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_ASSIGNING = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="))
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@_"
_MAX_DEPTH = 30

Number = int | None
Read = Callable[[str, int], Number]
Write = Callable[[str, Number], None]


class ArithmeticRefused(Exception):
    """Bash refuses the expression: the command fails."""


class Uncertain(Exception):
    """What the expression does cannot be told."""


class Arithmetic:
    """Evaluates one expression. None is a number that is not known.

    `read(name, depth)` gives the number of a variable, `write(name, number)` sets it; an element of an array is named `name[index]`.
    """

    def __init__(self, text: str, read: Read, write: Write, depth: int = 0) -> None:
        if depth > _MAX_DEPTH:
            raise ArithmeticRefused("the expression refers to itself")
        self.read, self.write, self.depth = read, write, depth
        self.tokens = _tokens(text)
        self.place = 0
        self.nesting = 0
        self.skipping = 0

    def value(self) -> Number:
        """The value of the whole expression; raises ArithmeticRefused and Uncertain."""
        if not self.tokens:
            return 0
        number = self._comma()
        if self.place < len(self.tokens):
            raise ArithmeticRefused("syntax error in expression")
        return number

    def _peek(self) -> str:
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def _take(self, *texts: str) -> str:
        if self.place < len(self.tokens) and self.tokens[self.place][0] == "operator" and self._peek() in texts:
            self.place += 1
            return self.tokens[self.place - 1][1]
        return ""

    def _comma(self) -> Number:
        number = self._assignment()
        while self._take(","):
            number = self._assignment()
        return number

    def _assignment(self) -> Number:
        self.nesting += 1
        if self.nesting > 60:
            raise Uncertain
        start = self.place
        name = self._name()
        operator = self._take(*_ASSIGNING) if name else ""
        if not operator:
            self.place = start
            number = self._conditional()
        else:
            number = self._assignment()
            if operator != "=":
                number = self._binary(operator[:-1], self._read(name), number)
            self._write(name, number)
        self.nesting -= 1
        return number

    def _name(self) -> str:
        """A variable or an element of an array at the place, empty when there is none."""
        if self.place >= len(self.tokens) or self.tokens[self.place][0] != "name":
            return ""
        name = self.tokens[self.place][1]
        self.place += 1
        if not self._take("["):
            return name
        index = self._comma()
        if not self._take("]"):
            raise ArithmeticRefused("a subscript is not closed")
        return f"{name}[{UNKNOWN if index is None else index}]"

    def _read(self, name: str) -> Number:
        return 0 if self.skipping else self.read(name, self.depth)

    def _write(self, name: str, number: Number) -> None:
        if not self.skipping:
            self.write(name, number)

    def _conditional(self) -> Number:
        test = self._operation(1)
        if not self._take("?"):
            return test
        yes = self._unless(skip=test == 0, unsure=test is None)
        if not self._take(":"):
            raise ArithmeticRefused("':' expected")
        no = self._unless(skip=test is not None and test != 0, unsure=test is None, last=True)
        if test is None:
            return None
        return yes if test else no

    def _unless(self, *, skip: bool, unsure: bool, last: bool = False) -> Number:
        """One side of `?:`; a side that may or may not be evaluated must not assign."""
        if unsure and any(token[1] in _ASSIGNING or token[1] in ("++", "--") for token in self.tokens):
            raise Uncertain
        self.skipping += skip
        number = self._conditional() if last else self._comma()
        self.skipping -= skip
        return number

    def _operation(self, least: int) -> Number:
        left = self._unary()
        while True:
            operator = self._peek() if self.place < len(self.tokens) and self.tokens[self.place][0] == "operator" else ""
            rank = _BINARY.get(operator, 0)
            if rank < least:
                return left
            self.place += 1
            skip = (operator == "&&" and left == 0) or (operator == "||" and left is not None and left != 0)
            self.skipping += skip
            right = self._operation(rank if operator == "**" else rank + 1)
            self.skipping -= skip
            left = self._binary(operator, left, right)

    def _unary(self) -> Number:
        operator = self._take("++", "--")
        if operator:
            name = self._name()
            if name:
                return self._step(name, operator)
            return self._unary() if operator == "++" else _sign(self._unary(), twice=True)
        operator = self._take("!", "~", "-", "+")
        if not operator:
            return self._primary()
        self.nesting += 1
        if self.nesting > 60:
            raise Uncertain
        number = self._unary()
        self.nesting -= 1
        if number is None:
            return None
        return _wrapped({"!": int(not number), "~": ~number, "-": -number, "+": number}[operator])

    def _step(self, name: str, operator: str) -> Number:
        number = self._read(name)
        if number is not None:
            number = _wrapped(number + (1 if operator == "++" else -1))
        self._write(name, number)
        return number

    def _primary(self) -> Number:
        if self._take("("):
            number = self._comma()
            if not self._take(")"):
                raise ArithmeticRefused("missing ')'")
            return number
        name = self._name()
        if name:
            operator = self._take("++", "--")
            number = self._read(name)
            if operator:
                self._step(name, operator)
            return number
        if self.place >= len(self.tokens) or self.tokens[self.place][0] == "operator":
            raise ArithmeticRefused("operand expected")
        kind, text = self.tokens[self.place]
        self.place += 1
        return None if kind == "unknown" else number_of(text)

    def _binary(self, operator: str, left: Number, right: Number) -> Number:
        if self.skipping:
            return 0
        if operator in ("/", "%") and right == 0:
            raise ArithmeticRefused("division by 0")
        if left is None or right is None:
            decided = {"&&": 0, "||": 1}.get(operator)
            known = left if right is None else right
            if decided is not None and known is not None and bool(known) == bool(decided):
                return decided
            return None
        return _wrapped(_calculate(operator, left, right))


def _calculate(operator: str, left: int, right: int) -> int:
    if operator == "/":
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if operator == "%":
        remainder = abs(left) % abs(right)
        return -remainder if left < 0 else remainder
    if operator == "**":
        if right < 0:
            raise ArithmeticRefused("exponent less than 0")
        return pow(left, right, 1 << 64) if right < 1 << 40 else 0
    if operator in ("<<", ">>"):
        return left << (right & 63) if operator == "<<" else left >> (right & 63)
    simple: dict[str, int] = {
        "||": int(bool(left or right)), "&&": int(bool(left and right)), "|": left | right, "^": left ^ right,
        "&": left & right, "==": int(left == right), "!=": int(left != right), "<": int(left < right),
        ">": int(left > right), "<=": int(left <= right), ">=": int(left >= right), "+": left + right, "-": left - right,
        "*": left * right,
    }  # fmt: skip
    return simple[operator]


def _sign(number: Number, *, twice: bool) -> Number:
    return number if twice or number is None else -number


def _wrapped(number: int) -> int:
    """The number in 64 bits, as C's long."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def number_of(text: str) -> int:
    """The number that a constant stands for: decimal, octal, hexadecimal or base#digits."""
    if "#" in text:
        base_text, _, digits = text.partition("#")
        base = int(base_text)
        if not 2 <= base <= 64:
            raise ArithmeticRefused("invalid arithmetic base")
        return _wrapped(_based(digits.lower() if base <= 36 else digits, base))
    if text[:2] in ("0x", "0X"):
        return _wrapped(int(text, 16))
    if text[0] == "0" and len(text) > 1:
        return _wrapped(_based(text[1:], 8))
    return _wrapped(int(text[:4000]))


def _based(digits: str, base: int) -> int:
    number = 0
    for digit in digits[:200]:
        value = _DIGITS.index(digit)
        if value >= base:
            raise ArithmeticRefused("value too great for base")
        number = number * base + value
    return number


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    text = text.rstrip()
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or len(found) > 2000:
            raise ArithmeticRefused("syntax error in expression")
        kind = ("", "number", "name", "operator", "unknown")[match.lastindex or 0]
        found.append((kind, match[match.lastindex or 0]))
        place = match.end()
    if any(pair[0] == "unknown" for pair in found):
        _refuse_glued(found, text)
    return found


def _refuse_glued(_tokens_found: list[tuple[str, str]], text: str) -> None:
    """An unknown part that touches a number or another operand may make any expression: `${a}0`, `${op} 2`."""
    if re.search(rf"[\w)\]]\s*{UNKNOWN}|{UNKNOWN}\s*[\w(\[{UNKNOWN}]", text):
        raise Uncertain
