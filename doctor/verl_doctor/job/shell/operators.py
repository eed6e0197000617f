"""What the operators of `${name...}` do with a value that is known."""

from __future__ import annotations

import re

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell.patterns import Chars, Unsupported, compile_pattern, to_regex, too_costly
from verl_doctor.job.shell.state import Value, unknown

NOT_FOLLOWED = "this expansion is not followed"


def strip(value: Value, operator: str, pattern: Chars) -> Value:
    """`#`, `##`, `%` and `%%`: without the shortest or longest match at the start or the end."""
    text = value.text
    try:
        expression = compile_pattern(to_regex(pattern))
    except Unsupported:
        return unknown(NOT_FOLLOWED)
    if too_costly(text, pattern, tries=len(text) + 1):
        return unknown(NOT_FOLLOWED)
    lengths = range(len(text) + 1) if len(operator) == 1 else range(len(text), -1, -1)
    for length in lengths:
        piece = text[:length] if operator[0] == "#" else text[len(text) - length :]
        if UNKNOWN in piece:
            return unknown(value.unknown)
        if expression.fullmatch(piece):
            return Value(text[length:] if operator[0] == "#" else text[: len(text) - length], value.unknown)
    return value


def substitute(value: Value, operator: str, pattern: Chars, replacement: str) -> Value:
    """`/`, `//`, `/#` and `/%`: the longest match replaced, once or everywhere."""
    if UNKNOWN in value.text:
        return unknown(value.unknown)
    if not pattern:  # an empty pattern matches nothing but an end of the text
        ends = {"/#": Value(replacement + value.text), "/%": Value(value.text + replacement)}
        return ends.get(operator, value)
    if too_costly(value.text, pattern, tries=len(value.text) + 1):
        return unknown(NOT_FOLLOWED)
    try:
        regex = to_regex(pattern)
        if operator == "/#":
            regex = r"\A" + regex
        elif operator == "/%":
            regex = regex + r"\Z"
        expression = compile_pattern(regex)
    except Unsupported:
        return unknown(NOT_FOLLOWED)
    if "|" in regex and "(?:" in regex:
        return unknown(NOT_FOLLOWED)  # bash takes the longest alternative, Python the first
    if not value.text and operator != "//":
        return Value(replacement if expression.fullmatch("") else "")
    replaced = _replace(expression, value.text, replacement, everywhere=operator == "//")
    return Value(replaced)


def _replace(expression: re.Pattern[str], text: str, replacement: str, *, everywhere: bool) -> str:
    result, place = [], 0
    while place < len(text):
        match = expression.search(text, place)
        if match is None or (match.end() == match.start() and everywhere):
            break
        result += [text[place : match.start()], replacement]
        place = match.end()
        if not everywhere:
            break
    return "".join(result) + text[place:]


def change_case(value: Value, operator: str) -> Value:
    """`^`, `^^`, `,` and `,,` without a pattern."""
    text = value.text
    if not text.isascii() and UNKNOWN not in text:
        return unknown(NOT_FOLLOWED)  # depends on the locale
    if len(operator) == 2:
        return Value(text.upper() if operator == "^^" else text.lower(), value.unknown)
    return Value((text[:1].upper() if operator == "^" else text[:1].lower()) + text[1:], value.unknown)


def slice_text(value: Value, offset: int, length: int | None) -> Value | None:
    """`:offset:length`; None when bash refuses it."""
    text = value.text
    if UNKNOWN in text:
        return unknown(value.unknown)
    start = offset + len(text) if offset < 0 else offset
    if start < 0 or start > len(text):
        return Value("")
    if length is None:
        return Value(text[start:])
    end = len(text) + length if length < 0 else start + length
    return Value(text[start:end]) if end >= start else None
