"""Brace expansion: `{a,b}`, `{1..3}` (bash 5.2, braces.c). It comes before all other expansions and works on the word as written."""

from __future__ import annotations

import re

from verl_doctor.job.script.syntax import Literal, Part, Word
from verl_doctor.job.script.words import TooComplex

_SEQUENCE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,6}))?\Z")
_MAX_WORDS = 2000

Item = str | Part
"""One unquoted character, or a part that braces do not look into."""


def expanded(word: Word) -> list[Word]:
    """The words that a word's braces make, mostly the word itself; raises TooComplex."""
    if word.braced is None:
        word.braced = _expand(word) if _has_brace(word) else [word]
    return word.braced


def _has_brace(word: Word) -> bool:
    return any(isinstance(part, Literal) and not part.quoted and "{" in part.text for part in word.parts)


def _expand(word: Word) -> list[Word]:
    items: list[Item] = []
    for part in word.parts:
        if isinstance(part, Literal) and not part.quoted:
            items.extend(part.text)
        else:
            items.append(part)
    return [Word(_joined(result), word.source, word.start, word.end) for result in _results(items, 0)]


def _results(items: list[Item], depth: int) -> list[list[Item]]:
    start = 0
    if depth > 50:
        raise TooComplex("braces are nested too deeply")
    while "{" in items[start:]:
        opening = items.index("{", start)
        group = _group(items, opening)
        if group is not None:
            closing, alternatives = group
            heads = [alternative for choice in alternatives for alternative in _results(choice, depth + 1)]
            tails = _results(items[closing + 1 :], depth + 1)
            if len(heads) * len(tails) > _MAX_WORDS:
                raise TooComplex("braces make too many words")
            return [[*items[:opening], *head, *tail] for head in heads for tail in tails]
        start = opening + 1
    return [items]


def _group(items: list[Item], opening: int) -> tuple[int, list[list[Item]]] | None:
    """The alternatives of the braces that open here and the place where they close; None when they are plain text."""
    depth, commas = 0, [opening]
    for place in range(opening, len(items)):
        item = items[place]
        if item == "{":
            depth += 1
        elif item == "," and depth == 1:
            commas.append(place)
        elif item == "}":
            depth -= 1
            if depth == 0:
                return _alternatives(items, commas, place)
    return None


def _alternatives(items: list[Item], commas: list[int], closing: int) -> tuple[int, list[list[Item]]] | None:
    if len(commas) > 1:
        ends = [*commas[1:], closing]
        return closing, [items[begin + 1 : end] for begin, end in zip(commas, ends, strict=True)]
    inside = items[commas[0] + 1 : closing]
    text = "".join(item for item in inside if isinstance(item, str))
    match = _SEQUENCE.match(text) if len(text) == len(inside) else None
    values = _sequence(match) if match else None
    return (closing, [list(value) for value in values]) if values else None


def _sequence(match: re.Match[str]) -> list[str] | None:
    first, last, step_text = match[1], match[2], match[3]
    step = abs(int(step_text or 1)) or 1
    if first.isalpha() != last.isalpha():
        return None
    if first.isalpha():
        return [chr(code) for code in _range(ord(first), ord(last), step)]
    numbers = _range(int(first), int(last), step)
    padded = any(re.match(r"-?0\d", text) for text in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" if width else str(number) for number in numbers]


def _range(first: int, last: int, step: int) -> range:
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if len(numbers) > _MAX_WORDS:
        raise TooComplex("braces make too many words")
    return numbers


def _joined(items: list[Item]) -> list[Part]:
    parts: list[Part] = []
    text: list[str] = []
    for item in items:
        if isinstance(item, str):
            text.append(item)
            continue
        if text:
            parts.append(Literal("".join(text)))
            text = []
        parts.append(item)
    if text:
        parts.append(Literal("".join(text)))
    return parts
