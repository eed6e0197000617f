"""Bash's patterns as regular expressions, and the paths that match one. Quoted characters of a pattern stand after a backslash."""

from __future__ import annotations

import functools
import os
import re

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r" \t\n\r\f\v",
    "blank": r" \t", "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), "xdigit": "0-9A-Fa-f", "word": r"\w",
}  # fmt: skip
_CLASS = re.compile(r"\[:(\w+):\]")
_EXTENDED = {"?": "?", "*": "*", "+": "+", "@": "", "!": ""}
_MAX_PATTERN = 2000
_MAX_ENTRIES = 20_000
_ACTIVE = re.compile(r"[*?\[]|[?*+@!]\(")


class NotSimple(Exception):
    """The pattern is of a kind that is not translated."""


class TooMany(Exception):
    """More folder entries would have to be looked at than is reasonable."""


def escape(text: str) -> str:
    """The pattern that matches just this text."""
    return re.sub(r"([\\*?\[\]!+@()|\-^])", r"\\\1", text)


def is_active(pattern: str) -> bool:
    """Whether a pattern holds anything but text."""
    return _ACTIVE.search(re.sub(r"\\.", "", pattern, flags=re.DOTALL)) is not None


@functools.lru_cache(maxsize=512)
def compiled(pattern: str, *, lazy: bool = False, ignore_case: bool = False) -> re.Pattern[str]:
    """The regular expression for a pattern; `lazy` prefers the shortest match. Raises NotSimple."""
    if len(pattern) > _MAX_PATTERN:
        raise NotSimple
    text, _ = _translate(pattern, 0, lazy=lazy, inside=False)
    try:
        return re.compile(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
    except re.error as error:
        raise NotSimple from error


def _translate(pattern: str, place: int, *, lazy: bool, inside: bool) -> tuple[str, int]:
    """The expression for the pattern from `place` on, up to the parenthesis that closes when `inside` one."""
    out: list[str] = []
    stars = 0
    while place < len(pattern):
        char = pattern[place]
        if inside and char in "|)":
            if char == ")":
                return "".join(out), place + 1
            out.append("|")
            place += 1
        elif char in _EXTENDED and pattern[place + 1 : place + 2] == "(":
            inner, place = _extended(char, pattern, place, lazy=lazy)
            out.append(inner)
        elif char == "[":
            inner, place = _bracket(pattern, place)
            out.append(inner)
        elif char == "*":
            stars += 1
            if not (out and out[-1] in (".*", ".*?")):
                out.append(".*?" if lazy else ".*")
            place += 1
        else:
            if char == "\\" and place + 1 < len(pattern):
                place += 1
            out.append("." if char == "?" else re.escape(pattern[place]))
            place += 1
        if stars > 8:
            raise NotSimple
    if inside:
        raise NotSimple
    return "".join(out), place


def _extended(kind: str, pattern: str, place: int, *, lazy: bool) -> tuple[str, int]:
    if kind == "!":
        raise NotSimple
    inner, place = _translate(pattern, place + 2, lazy=lazy, inside=True)
    if kind in "*+" and ("*" in inner or "+" in inner):
        raise NotSimple  # nested repetition may take forever
    return f"(?:{inner}){_EXTENDED[kind]}", place


def _bracket(pattern: str, place: int) -> tuple[str, int]:
    """A bracket expression; a `[` that is never closed stands for itself."""
    start, negated = place, False
    place += 1
    if pattern[place : place + 1] in ("!", "^"):
        negated = True
        place += 1
    out: list[str] = []
    first = True
    while place < len(pattern):
        char = pattern[place]
        if char == "]" and not first:
            body = "".join(out)
            return f"[{'^' if negated else ''}{body}]", place + 1
        first = False
        named = _CLASS.match(pattern, place)
        if named:
            if named[1] not in _CLASSES:
                raise NotSimple
            out.append(_CLASSES[named[1]])
            place = named.end()
        elif char == "-" and out and pattern[place + 1 : place + 2] not in ("]", ""):
            out.append("-")
            place += 1
        else:
            if pattern.startswith(("[.", "[="), place):
                raise NotSimple
            if char == "\\" and place + 1 < len(pattern):
                place += 1
            out.append(re.escape(pattern[place]))
            place += 1
    return re.escape("["), start + 1


def paths(pattern: str, directory: str | None, *, dotglob: bool = False) -> list[str]:
    """The paths that match, sorted; empty when none does. Raises NotSimple and TooMany.

    Looks at folders and changes nothing. A relative pattern needs the directory: without it, TooMany says that it cannot be told.
    """
    parts = _split(pattern)
    absolute = pattern.startswith("/")
    if not absolute and directory is None:
        raise TooMany
    found = ["/"] if absolute else [""]
    budget = _MAX_ENTRIES
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        following: list[str] = []
        for base in found:
            names = _names(part, os.path.join(directory or "", base), dotglob=dotglob)
            budget -= len(names) + 1
            if budget < 0:
                raise TooMany
            following += [base + name + ("" if is_last else "/") for name in names]
        found = following
    return sorted(found)


def _split(pattern: str) -> list[str]:
    return [part for part in pattern.split("/") if part] + ([""] if pattern.endswith("/") and pattern.strip("/") else [])


def _names(part: str, folder: str, *, dotglob: bool) -> list[str]:
    """The entries of a folder that match one part of a pattern."""
    if not is_active(part):
        name = re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL)
        return [name] if os.path.lexists(os.path.join(folder, name)) else []
    expression = compiled(part)
    hidden = dotglob or part.startswith((".", "\\."))
    names: list[str] = []
    try:
        with os.scandir(folder or ".") as entries:
            for count, entry in enumerate(entries):
                if count > _MAX_ENTRIES:
                    raise TooMany
                if (hidden or not entry.name.startswith(".")) and expression.fullmatch(entry.name):
                    names.append(entry.name)
    except (OSError, ValueError):
        return []
    return names
