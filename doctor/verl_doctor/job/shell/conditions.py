"""`[ ... ]`, `test` and `[[ ... ]]`: True, False, or None when it cannot be decided without running the script."""

from __future__ import annotations

import os
import re

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell import scan
from verl_doctor.job.shell.expand import Expander, absolute
from verl_doctor.job.shell.patterns import Unsupported, matches
from verl_doctor.job.shell.state import State, Value

_FILE_TESTS = frozenset("abcdefghkprsuwxLSGNO")
_NUMERIC = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
_MAX_REGEX = 200
_MAX_POSITIONS = 5_000_000


def invert(status: bool | None) -> bool | None:
    """The opposite; what is not known stays so."""
    return None if status is None else not status


def both(left: bool | None, right: bool | None) -> bool | None:
    """`&&` of three values."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def file_test(operator: str, path: Value, state: State) -> bool | None:
    """A test of a file, by looking at the file system; None for what depends on the user or on time."""
    if not path.known:
        return None
    if not path.text:
        return False
    if not path.text.startswith("/") and (UNKNOWN in state.directory or not state.directory):
        return None
    where = absolute(path.text, state.directory) if not path.text.startswith("/") else path.text
    looks = {"-e": os.path.exists, "-a": os.path.exists, "-f": os.path.isfile, "-d": os.path.isdir}
    looks |= {"-L": os.path.islink, "-h": os.path.islink}
    if operator in looks:
        return looks[operator](where)
    if operator == "-s":
        return os.path.exists(where) and os.path.getsize(where) > 0
    return None if os.path.exists(where) else False


def unary(operator: str, operand: Value, state: State) -> bool | None:
    """A test of one operand."""
    if operator in ("-n", "-z"):
        filled = bool(operand.text) if operand.known else (True if operand.text.strip(UNKNOWN) else None)
        return filled if operator == "-n" else invert(filled)
    if operator == "-v" and operand.known and re.fullmatch(r"\w+", operand.text):
        cell = state.variables.get(operand.text)
        if cell is None:
            return None if state.unseen else False
        return None if cell.unsure else cell.scalar is not None
    if len(operator) == 2 and operator[1] in _FILE_TESTS:
        return file_test(operator, operand, state)
    return None


def compare_numbers(left: Value, operator: str, right: Value) -> bool | None:
    """`-eq` and the like in `[`; bash fails for what is no number."""
    if not (left.known and right.known):
        return None
    if not (re.fullmatch(r"\s*[+-]?\d+\s*", left.text) and re.fullmatch(r"\s*[+-]?\d+\s*", right.text)):
        return False
    first, second = int(left.text), int(right.text)
    return {"-eq": first == second, "-ne": first != second, "-lt": first < second, "-le": first <= second,
            "-gt": first > second, "-ge": first >= second}[operator]  # fmt: skip


def equal(left: Value, right: Value) -> bool | None:
    """Whether two texts are the same."""
    if left.known and right.known:
        return left.text == right.text
    first, second = left.text.split(UNKNOWN), right.text.split(UNKNOWN)
    prefix = min(len(first[0]), len(second[0]))
    if first[0][:prefix] != second[0][:prefix]:
        return False
    for one, other in ((left, right), (right, left)):
        if one.known and len(one.text) < len(other.text.replace(UNKNOWN, "")):
            return False
    return None


def test(words: list[Value], state: State) -> bool | None:
    """The result of `[` without its brackets, by the number of words, as POSIX says."""
    if not words:
        return False
    if any(word.text == UNKNOWN for word in words) and len(words) > 4:
        return None
    if len(words) == 1:
        return unary("-n", words[0], state)
    for place, word in enumerate(words):
        if word.text == "-o" and 0 < place < len(words) - 1 and len(words) > 3:
            left, right = test(words[:place], state), test(words[place + 1 :], state)
            return invert(both(invert(left), invert(right)))
    for place, word in enumerate(words):
        if word.text == "-a" and 0 < place < len(words) - 1 and len(words) > 3:
            return both(test(words[:place], state), test(words[place + 1 :], state))
    if len(words) == 3 and _is_binary(words[1].text):
        return _binary_test(words)
    if words[0].text == "!":
        return invert(test(words[1:], state))
    if len(words) == 2:
        if words[0].known and not re.fullmatch(r"-\w", words[0].text):
            return False  # bash reports an error, which counts as false
        return unary(words[0].text, words[1], state)
    if words[0].text == "(" and words[-1].text == ")":
        return test(words[1:-1], state)
    return False if all(word.known for word in words) else None  # too many words: an error, which counts as false


def _is_binary(operator: str) -> bool:
    return operator in ("=", "==", "!=", "<", ">", "-nt", "-ot", "-ef") or operator in _NUMERIC


def _binary_test(words: list[Value]) -> bool | None:
    left, operator, right = words[0], words[1].text, words[2]
    if operator in ("=", "=="):
        return equal(left, right)
    if operator == "!=":
        return invert(equal(left, right))
    if operator in _NUMERIC:
        return compare_numbers(left, operator, right)
    return None


class DoubleBracket:
    """The expression between `[[` and `]]`. Raises scan.Unclosed."""

    def __init__(self, text: str, expander: Expander, state: State) -> None:
        self.tokens = _cut(text)
        self.place = 0
        self.expander = expander
        self.state = state

    def result(self) -> bool | None:
        """The result; None also for what is not followed."""
        value = self._or(active=True)
        return value if self.place == len(self.tokens) else None

    def _peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self.place += 1
        return token

    def _or(self, *, active: bool) -> bool | None:
        value = self._and(active=active)
        while self._peek() == "||":
            self._take()
            right = self._and(active=active and value is not True)
            value = True if value is True else invert(both(invert(value), invert(right)))
        return value

    def _and(self, *, active: bool) -> bool | None:
        value = self._primary(active=active)
        while self._peek() == "&&":
            self._take()
            right = self._primary(active=active and value is not False)
            value = False if value is False else both(value, right)
        return value

    def _primary(self, *, active: bool) -> bool | None:
        if self.place > len(self.tokens):
            return None
        word = self._take()
        if word == "!":
            return invert(self._primary(active=active))
        if word == "(":
            value = self._or(active=active)
            return value if self._take() == ")" else None
        if re.fullmatch(r"-[a-zA-Z]", word) and self._peek() not in ("", "==", "=", "!=", "=~", "&&", "||", ")"):
            operand = self._take()
            return unary(word, self.expander.text(operand), self.state) if active else None
        if self._peek() in ("==", "=", "!=", "=~", "<", ">", *_NUMERIC, "-nt", "-ot", "-ef"):
            operator, right = self._take(), self._take()
            return self._binary(word, operator, right) if active else None
        return unary("-n", self.expander.text(word), self.state) if active else None

    def _binary(self, left: str, operator: str, right: str) -> bool | None:
        value = self.expander.text(left)
        if operator in ("==", "=", "!="):
            chars, text = self.expander.pattern(right)
            plain = all(quoted or char not in "*?[+@!" for char, quoted in chars)
            if plain or not (value.known and text.known):
                found = equal(value, text) if plain else None
            else:
                try:
                    found = matches(value.text, chars)
                except Unsupported:
                    found = None
            return invert(found) if operator == "!=" else found
        if operator in _NUMERIC:
            return self._numbers(value, operator, self.expander.text(right))
        if operator == "=~":
            return self._regex(value, right)
        return None

    def _numbers(self, left: Value, operator: str, right: Value) -> bool | None:
        numbers = [self.expander.number(word.text) if word.known else word for word in (left, right)]
        if not all(number.known for number in numbers):
            return None
        return compare_numbers(numbers[0], operator, numbers[1])

    def _regex(self, value: Value, right: str) -> bool | None:
        chars, text = self.expander.pattern(right)
        if not (value.known and text.known) or len(text.text) > _MAX_REGEX or len(value.text) > 2000:
            return None
        regex = "".join(re.escape(char) if quoted else char for char, quoted in chars)
        regex = regex.replace("[:digit:]", "0-9").replace("[:alpha:]", "a-zA-Z").replace("[:alnum:]", "a-zA-Z0-9")
        regex = regex.replace("[:space:]", r"\s")
        if len(value.text) ** sum(char in "*+" for char in regex) > _MAX_POSITIONS:
            return None
        if "[:" in regex or re.search(r"\)[*+{]|[*+}][*+?{]|\(\?|[A-Za-z0-9_]\\", regex):
            return None
        try:
            return re.search(regex, value.text) is not None
        except re.error:
            return None


def _cut(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    while place < len(text):
        if text[place] in " \t\n":
            place += 1
        elif text.startswith(("&&", "||"), place):
            tokens.append(text[place : place + 2])
            place += 2
        elif tokens[-1:] == ["=~"]:
            end = _regex_end(text, place)
            tokens.append(text[place:end])
            place = end
        elif text[place] in "()<>":
            tokens.append(text[place])
            place += 1
        else:
            end = place
            while end < len(text) and text[end] not in " \t\n()<>" and not text.startswith(("&&", "||"), end):
                end = scan.step(text, end)
                if text[end : end + 1] == "(" and text[end - 1] in "@?*+!":
                    end = scan.parenthesis(text, end)
            tokens.append(text[place:end])
            place = end
    return tokens


def _regex_end(text: str, place: int) -> int:
    depth = 0
    while place < len(text):
        char = text[place]
        if depth == 0 and (char in " \t\n" or (char == ")") or text.startswith("&&", place)):
            break
        depth += (char == "(") - (char == ")")
        place = scan.step(text, place)
    return place
