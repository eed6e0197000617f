"""Brace expansion: `a{b,c}` becomes `ab` and `ac`, `{1..3}` becomes `1`, `2` and `3`.

It works on the text as written, before anything else: `{$A,b}c` is `$Ac` and `bc`.
"""

from __future__ import annotations

import itertools
import re

from verl_doctor.job.shell import scan

_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([a-zA-Z])\.\.([a-zA-Z])(?:\.\.(-?\d+))?")
_MAX_WORDS = 5000
_MAX_DEPTH = 20
_MAX_GROUPS = 200


def expand(raw: str) -> list[str]:
    """The raw words that a raw word becomes. Raises scan.Unclosed."""
    if "{" not in raw:
        return [raw]
    items: list[str] = []  # characters, and quotes or expansions as a whole
    place = 0
    while place < len(raw):
        end = scan.step(raw, place)
        items.append(raw[place:end])
        place = end
    if items.count("{") > _MAX_GROUPS:
        raise scan.Unclosed(items.index("{"))
    return ["".join(word) for word in _expand(items, 0)]


def _expand(items: list[str], depth: int) -> list[list[str]]:
    for start, item in enumerate(items):
        if item != "{" or depth > _MAX_DEPTH:
            continue
        end, commas = _group(items, start)
        if end is None:
            continue
        choices = _choices(items, start, end, commas, depth)
        if choices is None:
            continue
        tails = _expand(items[end + 1 :], depth)
        words = [items[:start] + choice + tail for choice in choices for tail in tails]
        return words[:_MAX_WORDS]
    return [items]


def _group(items: list[str], start: int) -> tuple[int | None, list[int]]:
    depth = 0
    commas: list[int] = []
    for place in range(start, len(items)):
        if items[place] == "{":
            depth += 1
        elif items[place] == "}":
            depth -= 1
            if depth == 0:
                return place, commas
        elif items[place] == "," and depth == 1:
            commas.append(place)
    return None, []


def _choices(items: list[str], start: int, end: int, commas: list[int], depth: int) -> list[list[str]] | None:
    """What may stand for the group, None when it is not one."""
    if commas:
        bounds = [start, *commas, end]
        pieces = [items[left + 1 : right] for left, right in itertools.pairwise(bounds)]
        return [word for piece in pieces for word in _expand(piece, depth + 1)]
    inner = items[start + 1 : end]
    match = _RANGE.fullmatch("".join(inner))
    return None if match is None else [list(word) for word in _range(match)]


def _range(match: re.Match[str]) -> list[str]:
    if match[4]:
        first, last, step = ord(match[4]), ord(match[5]), abs(int(match[6] or 1)) or 1
        return [chr(number) for number in _numbers(first, last, step)]
    first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
    padded = any(re.match(r"-?0\d", text) for text in (match[1], match[2]))
    width = max(len(match[1]), len(match[2])) if padded else 0
    return [f"{number:0{width}d}" if width else str(number) for number in _numbers(first, last, step)]


def _numbers(first: int, last: int, step: int) -> range:
    numbers = range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
    return numbers[:_MAX_WORDS]
