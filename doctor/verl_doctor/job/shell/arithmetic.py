"""Arithmetic of bash: 64-bit integers, C operators, variables by name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell.state import Value

_TOKEN = re.compile(
    r"\s*(?:(\d+#[0-9A-Za-z@_]+|0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*(?:\[[^\]]*\])?)"
    r"|(<<=|>>=|\*\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%<>=!~&|^?:,()]))"
)
_BINARY = {
    "*": 11, "/": 11, "%": 11, "+": 10, "-": 10, "<<": 9, ">>": 9, "<": 8, "<=": 8, ">": 8, ">=": 8, "==": 7, "!=": 7,
    "&": 6, "^": 5, "|": 4, "&&": 3, "||": 2,
}  # fmt: skip
_ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_MAX_DEPTH = 40


class Unknown(Exception):
    """The result cannot be known; the message says why."""


class BadArithmetic(Exception):
    """An expression that bash refuses."""


def wrap(number: int) -> int:
    """The number as a signed 64-bit integer."""
    return (number + 2**63) % 2**64 - 2**63


class _Evaluator:
    def __init__(self, text: str, get: Callable[[str], Value | None], put: Callable[[str, str], None], depth: int) -> None:
        self.tokens = _tokens(text)
        self.place = 0
        self.get = get
        self.put = put
        self.depth = depth
        self.active = True

    def run(self) -> int:
        if not self.tokens:
            return 0
        result = self._comma()
        if self.place < len(self.tokens):
            raise BadArithmetic
        return result

    def _peek(self) -> str:
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def _take(self) -> tuple[str, str]:
        if self.place >= len(self.tokens):
            raise BadArithmetic
        self.place += 1
        return self.tokens[self.place - 1]

    def _comma(self) -> int:
        result = self._assignment()
        while self._peek() == ",":
            self._take()
            result = self._assignment()
        return result

    def _assignment(self) -> int:
        here = self.tokens[self.place : self.place + 2]
        if len(here) == 2 and here[0][0] == "name" and here[1][1] in _ASSIGN:
            self.place += 2
            right = self._assignment()
            operator = here[1][1][:-1]
            value = _apply(operator, self._variable(here[0][1]), right) if operator else right
            return self._store(here[0][1], value)
        return self._ternary()

    def _store(self, name: str, value: int) -> int:
        if self.active:
            self.put(name, str(value))
        return value

    def _ternary(self) -> int:
        condition = self._binary(2)
        if self._peek() != "?":
            return condition
        self._take()
        yes = self._guarded(bool(condition), self._assignment)
        if self._take()[1] != ":":
            raise BadArithmetic
        no = self._guarded(not condition, self._assignment)
        return yes if condition else no

    def _guarded(self, active: bool, parse: Callable[[], int]) -> int:
        before, self.active = self.active, self.active and active
        try:
            return parse()
        finally:
            self.active = before

    def _binary(self, lowest: int) -> int:
        left = self._power()
        while _BINARY.get(self._peek(), 0) >= lowest:
            operator = self._take()[1]
            operand = functools.partial(self._binary, _BINARY[operator] + 1)
            if operator == "&&":
                right = self._guarded(bool(left), operand)
                left = int(bool(left) and bool(right))
            elif operator == "||":
                right = self._guarded(not left, operand)
                left = int(bool(left) or bool(right))
            else:
                right = operand()
                left = _apply(operator, left, right) if self.active else 0
        return left

    def _power(self) -> int:
        base = self._unary()
        if self._peek() != "**":
            return base
        self._take()
        exponent = self._power()
        if exponent < 0 or exponent > 64:
            raise BadArithmetic
        return wrap(base**exponent)

    def _unary(self) -> int:
        kind, text = self._take()
        if text in ("++", "--") and self.place < len(self.tokens) and self.tokens[self.place][0] == "name":
            name = self._take()[1]
            return self._store(name, wrap(self._variable(name) + (1 if text == "++" else -1)))
        if text in ("++", "--", "+", "-", "!", "~"):
            value = self._unary()
            changed = {"-": -value, "!": int(not value), "~": ~value}.get(text, value)
            return wrap(changed)
        if text == "(":
            value = self._comma()
            if self._take()[1] != ")":
                raise BadArithmetic
            return value
        if kind == "number":
            return number(text)
        if kind != "name":
            raise BadArithmetic
        value = self._variable(text)
        if self._peek() in ("++", "--"):
            self._store(text, wrap(value + (1 if self._take()[1] == "++" else -1)))
        return value

    def _variable(self, name: str) -> int:
        if not self.active:
            return 0
        value = self.get(name)
        if value is None or not value.text.strip():
            return 0
        if UNKNOWN in value.text:
            raise Unknown(value.unknown)
        if self.depth > _MAX_DEPTH:
            raise BadArithmetic
        return _Evaluator(value.text, self.get, self.put, self.depth + 1).run()


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    place, text = 0, text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise BadArithmetic
        kind = "number" if match[1] else "name" if match[2] else "operator"
        found.append((kind, match[1] or match[2] or match[3]))
        place = match.end()
    return found


def number(text: str) -> int:
    """A literal: decimal, octal, hexadecimal or base#digits."""
    try:
        if "#" in text:
            base, digits = text.split("#")
            if not 2 <= int(base) <= 36:
                raise BadArithmetic
            return wrap(int(digits, int(base)))
        if text[:2] in ("0x", "0X"):
            return wrap(int(text, 16))
        return wrap(int(text, 8) if len(text) > 1 and text[0] == "0" else int(text))
    except ValueError as error:
        raise BadArithmetic from error


def _apply(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if right == 0:
            raise BadArithmetic
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return wrap(quotient if operator == "/" else left - quotient * right)
    if operator in ("<<", ">>"):
        return wrap(left << (right & 63)) if operator == "<<" else left >> (right & 63)
    results = {
        "*": left * right, "+": left + right, "-": left - right, "<": left < right, "<=": left <= right,
        ">": left > right, ">=": left >= right, "==": left == right, "!=": left != right,
        "&": left & right, "^": left ^ right, "|": left | right,
    }  # fmt: skip
    return wrap(int(results[operator]))


def evaluate(text: str, get: Callable[[str], Value | None], put: Callable[[str, str], None]) -> int:
    """The value of an expression in which `$` was expanded; raises Unknown or BadArithmetic."""
    if UNKNOWN in text:
        raise Unknown("")
    return _Evaluator(text, get, put, 0).run()


_CHANGES = re.compile(r"([A-Za-z_]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)")


def assigned_names(text: str) -> list[str]:
    """The variables that an expression may change."""
    return [before or after for before, after in _CHANGES.findall(text)]
