"""What `echo` and `printf` print."""

from __future__ import annotations

import re

from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.shell.state import Value, unknown
from verl_doctor.job.shell.words import unescape_ansi

_FORMAT = re.compile(r"%(?:%|([-0]?)(\d*)(?:\.(\d+))?([sdib]))|%")


def _reason(words: list[Argument]) -> str:
    return next((word.unknown for word in words if word.unknown), "")


def echo(words: list[Argument]) -> Value:
    """The output of `echo` with these arguments."""
    newline, escapes, place = "\n", False, 0
    while place < len(words) and re.fullmatch(r"-[neE]+", words[place].text):
        for letter in words[place].text[1:]:
            if letter == "n":
                newline = ""
            else:
                escapes = letter == "e"
        place += 1
    text = " ".join(word.text for word in words[place:])
    if escapes and "\\" in text:
        if re.search(r"\\[c0]", text):
            return unknown("the escapes of echo -e are not followed")
        text = unescape_ansi(text)
    return Value(text + newline, _reason(words))


def printf(words: list[Argument]) -> Value:
    """The output of `printf` with these arguments: `%s`, `%d` and `%%`; others are not followed."""
    if not words or UNKNOWN in words[0].text:
        return unknown(_reason(words) or "printf")
    if words[0].text == "--":
        words = words[1:]
    template, values = unescape_ansi(words[0].text), [word.text for word in words[1:]]
    result: list[str] = []
    while True:
        piece, used = _filled(template, values)
        if "\0" in piece:
            return unknown("the format of printf is not followed")
        result.append(piece)
        values = values[used:]
        if not values or not used:
            return Value("".join(result), _reason(words))


def _filled(template: str, values: list[str]) -> tuple[str, int]:
    """The format with values, and how many it took; a null character stands where it is not followed."""
    used = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        if match[0] == "%%":
            return "%"
        text = values[used] if used < len(values) else ("0" if match[4] in ("d", "i") else "")
        used += 1
        return _formatted(match, text)

    return _FORMAT.sub(fill, template), used


def _formatted(match: re.Match[str], text: str) -> str:
    flag, width, precision, kind = match[1], match[2], match[3], match[4]
    if kind is None or (UNKNOWN in text and (width or precision)) or kind == "b":
        return "\0"
    if kind in ("d", "i"):
        if UNKNOWN in text:
            return text
        if not re.fullmatch(r"[+-]?(0|[1-9]\d*)", text) or precision:
            return "\0"
        text = str(int(text))
        return text.zfill(int(width)) if flag == "0" and width else _padded(text, flag, width)
    if precision:
        text = text[: int(precision)]
    return _padded(text, flag, width) if flag != "0" else "\0"


def _padded(text: str, flag: str, width: str) -> str:
    if not width:
        return text
    return text.ljust(int(width)) if flag == "-" else text.rjust(int(width))
