"""Brace expansion: `a{b,c}` becomes `ab` and `ac`, `{1..3}` becomes `1`, `2` and `3`."""

from __future__ import annotations

import re
from typing import Union

from verl_doctor.job.shell.words import Literal, Part

_Item = Union[str, Part]
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([a-zA-Z])\.\.([a-zA-Z])(?:\.\.(-?\d+))?")
_MAX_WORDS = 5000


def expand(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """The words that a word becomes; only text that is not quoted counts."""
    if not any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in parts):
        return [parts]
    items: list[_Item] = []
    for part in parts:
        if isinstance(part, Literal) and not part.quoted:
            items += list(part.text)
        else:
            items.append(part)
    return [_joined(word) for word in _expand(items, 0)]


def _joined(items: list[_Item]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for item in items:
        if not isinstance(item, str):
            parts.append(item)
        elif parts and isinstance(parts[-1], Literal) and not parts[-1].quoted:
            parts[-1] = Literal(parts[-1].text + item, False)
        else:
            parts.append(Literal(item, False))
    return tuple(parts)


def _expand(items: list[_Item], depth: int) -> list[list[_Item]]:
    for start, item in enumerate(items):
        if item != "{" or depth > 20:
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


def _group(items: list[_Item], start: int) -> tuple[int | None, list[int]]:
    depth, commas = 0, []
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


def _choices(
    items: list[_Item], start: int, end: int, commas: list[int], depth: int
) -> list[list[_Item]] | None:
    """What may stand for the group, None when it is not one."""
    if commas:
        bounds = [start, *commas, end]
        pieces = [items[left + 1 : right] for left, right in zip(bounds, bounds[1:])]
        return [word for piece in pieces for word in _expand(piece, depth + 1)]
    inner = items[start + 1 : end]
    text = "".join(item for item in inner if isinstance(item, str))
    match = _RANGE.fullmatch(text) if len(text) == len(inner) else None
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
