"""The patterns of bash (`*`, `?`, `[...]`, extended ones) as regular expressions, and their match with file names."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from verl_doctor.job.model import UNKNOWN

Chars = list[tuple[str, bool]]
"""Characters, each with whether it was quoted."""

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s",
    "blank": r" \t", "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_EXTENDED = {"?": "(?:%s)?", "*": "(?:%s)*", "+": "(?:%s)+", "@": "(?:%s)"}
_MAX_POSITIONS = 5_000_000
_MAX_ENTRIES = 20_000


class Unsupported(Exception):
    """A pattern that is not followed."""


def has_magic(chars: Chars) -> bool:
    """Whether the text is a pattern for file names; for bash `[` and a later `]` are enough."""
    opened = False
    for char, quoted in chars:
        if quoted:
            continue
        if char in "*?" or (char == "]" and opened):
            return True
        opened = opened or char == "["
    return False


def _bracket(chars: Chars, start: int) -> int | None:
    """The position of the `]` that ends the bracket expression, None when there is none."""
    place = start + 1
    if place < len(chars) and chars[place] in (("!", False), ("^", False)):
        place += 1
    if place < len(chars) and chars[place] == ("]", False):
        place += 1
    while place < len(chars):
        char, quoted = chars[place]
        if char == "[" and not quoted and place + 1 < len(chars) and chars[place + 1][0] == ":":
            end = next((at for at in range(place + 2, len(chars) - 1) if chars[at][0] == ":" and chars[at + 1][0] == "]"), None)
            if end is not None:
                place = end + 2
                continue
        if char == "]" and not quoted:
            return place
        place += 1
    return None


def to_regex(chars: Chars, *, extended: bool = True, lazy: bool = False) -> str:
    """The pattern as a regular expression without anchors. `lazy`: `*` matches as little as possible."""
    star = "(?s:.*?)" if lazy else "(?s:.*)"
    result: list[str] = []
    place = 0
    while place < len(chars):
        char, quoted = chars[place]
        following = chars[place + 1] if place + 1 < len(chars) else ("", True)
        if not quoted and extended and char in "?*+@!" and following == ("(", False):
            inner, place = _extended(chars, place, lazy)
            result.append(inner)
            continue
        end = _bracket(chars, place) if char == "[" and not quoted else None
        if quoted or char not in "*?[" or (char == "[" and end is None):
            result.append(re.escape(char))
        elif char == "*":
            result.append(star)
        elif char == "?":
            result.append("(?s:.)")
        else:
            assert end is not None
            result.append(_bracket_regex(chars[place + 1 : end]))
            place = end
        place += 1
    return "".join(result)


def _bracket_regex(chars: Chars) -> str:
    negated = bool(chars) and chars[0] in (("!", False), ("^", False))
    text = "".join(re.escape(char) if quoted else char for char, quoted in chars[negated:])
    text = re.sub(r"\[:(\w+):\]", lambda match: _CLASSES.get(match[1], "\0"), text)
    if "\0" in text or UNKNOWN in text or "[." in text or "[=" in text:
        raise Unsupported
    body = re.sub(r"(?<!\\)([\[\]&~|^])", r"\\\1", text) if not re.search(r"\\s|\\t", text) else text
    return f"[{'^' if negated else ''}{body}]"


def _extended(chars: Chars, start: int, lazy: bool) -> tuple[str, int]:
    kind, depth, place = chars[start][0], 1, start + 2
    branches: list[Chars] = [[]]
    while place < len(chars):
        char, quoted = chars[place]
        if not quoted and char == "(":
            depth += 1
        elif not quoted and char == ")":
            depth -= 1
            if depth == 0:
                break
        if not quoted and char == "|" and depth == 1:
            branches.append([])
        else:
            branches[-1].append((char, quoted))
        place += 1
    if depth or kind == "!" or len(branches) > 20 or (kind in "*+" and len(chars) > 40):
        raise Unsupported
    return _EXTENDED[kind] % "|".join(to_regex(branch, lazy=lazy) for branch in branches), place + 1


def compile_pattern(regex: str) -> re.Pattern[str]:
    """The compiled expression; raises Unsupported."""
    try:
        return re.compile(regex)
    except (re.error, OverflowError) as error:
        raise Unsupported from error


def too_costly(text: str, chars: Chars, *, tries: int = 1) -> bool:
    """Whether so many matches may take long: each `*` may try every position."""
    stars = sum(char in "*+" and not quoted for char, quoted in chars)
    return stars > 8 or tries * len(text) ** stars > _MAX_POSITIONS


def matches(text: str, chars: Chars) -> bool:
    """Whether the whole text matches; raises Unsupported."""
    if too_costly(text, chars):
        raise Unsupported
    return compile_pattern(to_regex(chars)).fullmatch(text) is not None


class Found(NamedTuple):
    """The names that match a pattern for files; `sure` is False when the directory could not be read."""

    names: list[str]
    sure: bool


def find_files(chars: Chars, directory: str) -> Found:
    """The files that match, as bash would name them; only directories are listed. Raises Unsupported."""
    components: list[Chars] = [[]]
    for char, quoted in chars:
        if char == "/":
            components.append([])
        else:
            components[-1].append((char, quoted))
    bases, sure = [""], True
    for number, component in enumerate(components):
        text = "".join(char for char, _ in component)
        last = number == len(components) - 1
        grown: list[str] = []
        for base in bases[:1000]:
            if not has_magic(component):
                name = base + text + ("" if last else "/")
                if not last or os.path.lexists(os.path.join(directory, name)):
                    grown.append(name)
                continue
            expression = compile_pattern(to_regex(component))
            try:
                entries = os.listdir(os.path.join(directory, base) if base else directory)
            except FileNotFoundError:
                continue
            except OSError:
                sure = False
                continue
            if len(entries) > _MAX_ENTRIES:
                return Found([], False)
            dotted = text.startswith(".")
            grown += [
                base + entry + ("" if last else "/")
                for entry in entries
                if expression.fullmatch(entry) and (dotted or not entry.startswith("."))
            ]
        bases = grown
    return Found(sorted(bases), sure)
