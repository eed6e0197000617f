"""Finding where quotes, expansions and parentheses of shell text end. Positions are indexes into the text."""

from __future__ import annotations

import re

MAX_DEPTH = 40
"""Nested quotes and substitutions that are followed; real scripts stay below ten."""

_HEREDOC = re.compile(r"<<(-?)[ \t]*('[^'\n]*'|\"[^\"\n]*\"|\\?[^\s;&|<>()'\"\\]+)")
_COMMENT_MAY_FOLLOW = " \t\n;&|("


class Unclosed(Exception):
    """A quote or a bracket that is not closed, or nesting that is too deep; carries the position."""

    def __init__(self, position: int) -> None:
        super().__init__(f"not closed at {position}")
        self.position = position


def single_quoted(text: str, start: int) -> int:
    """The position after the '...' that starts at `start`."""
    end = text.find("'", start + 1)
    if end < 0:
        raise Unclosed(start)
    return end + 1


def ansi_quoted(text: str, start: int) -> int:
    """The position after the $'...' that starts at `start`."""
    place = start + 2
    while place < len(text):
        if text[place] == "\\":
            place += 2
        elif text[place] == "'":
            return place + 1
        else:
            place += 1
    raise Unclosed(start)


def double_quoted(text: str, start: int, depth: int = 0) -> int:
    """The position after the "..." that starts at `start`."""
    place = start + 1
    while place < len(text):
        char = text[place]
        if char == '"':
            return place + 1
        if char == "\\":
            place += 2
        elif char == "$":
            place = dollar(text, place, depth + 1, in_double=True)
        elif char == "`":
            place = backtick(text, place)
        else:
            place += 1
    raise Unclosed(start)


def backtick(text: str, start: int) -> int:
    """The position after the `...` that starts at `start`."""
    place = start + 1
    while place < len(text):
        if text[place] == "\\":
            place += 2
        elif text[place] == "`":
            return place + 1
        else:
            place += 1
    raise Unclosed(start)


def dollar(text: str, start: int, depth: int = 0, *, in_double: bool = False) -> int:
    """The position after the expansion whose `$` is at `start`; a lone `$` is one character."""
    following = text[start + 1 : start + 2]
    if following == "(":
        return parenthesis(text, start + 1, depth + 1)
    if following == "{":
        return brace(text, start + 1, depth + 1, in_double=in_double)
    if following == "'" and not in_double:
        return ansi_quoted(text, start)
    if following == '"' and not in_double:
        return double_quoted(text, start + 1, depth + 1)
    match = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!\-_]").match(text, start + 1)
    return match.end() if match else start + 1


def brace(text: str, start: int, depth: int = 0, *, in_double: bool = False) -> int:
    """The position after the {...} of a parameter expansion; `start` is its `{`. Single quotes are plain inside "..."."""
    place = start + 1
    if depth > MAX_DEPTH:
        raise Unclosed(start)
    while place < len(text):
        char = text[place]
        if char == "}":
            return place + 1
        if char == "'" and in_double:
            place += 1
        else:
            place = step(text, place, depth)
    raise Unclosed(start)


def parenthesis(text: str, start: int, depth: int = 0) -> int:
    """The position after the (...) that starts at `start`, which may hold commands, arithmetic or the words of an array."""
    place, open_now, cases = start + 1, 1, 0
    pending: list[tuple[bool, str]] = []
    if depth > MAX_DEPTH:
        raise Unclosed(start)
    while place < len(text):
        char = text[place]
        if char == "(":
            open_now += 1
        elif char == ")" and (open_now > 1 or cases == 0):
            open_now -= 1
            if open_now == 0:
                return place + 1
        elif char == "#" and text[place - 1] in _COMMENT_MAY_FOLLOW:
            place = line_end(text, place)
            continue
        elif char == "\n" and pending:
            place = heredoc_bodies(text, place, pending)
            continue
        elif char == "<" and text.startswith("<<", place) and not text.startswith("<<<", place):
            place = heredoc_operator(text, place, pending)
            continue
        word = _case_word(text, place)
        cases = max(0, cases + word)
        place = step(text, place, depth)
    raise Unclosed(start)


def _case_word(text: str, place: int) -> int:
    """1 where the reserved word `case` starts, -1 where `esac` does, 0 elsewhere."""
    if text[place] not in "ce" or (text[place - 1].isalnum() or text[place - 1] in "_-./=$"):
        return 0
    if re.compile(r"case\s[^)]*?\sin\s").match(text, place):
        return 1
    return -1 if re.compile(r"esac\b").match(text, place) else 0


def step(text: str, place: int, depth: int = 0) -> int:
    """Past one character, or past the quoted text or expansion that starts there."""
    char = text[place]
    if char == "\\":
        return place + 2
    if char == "'":
        return single_quoted(text, place)
    if char == '"':
        return double_quoted(text, place, depth + 1)
    if char == "$":
        return dollar(text, place, depth + 1)
    if char == "`":
        return backtick(text, place)
    return place + 1


def double_bracket(text: str, start: int) -> int:
    """The position after the [[ ... ]] that starts at `start`."""
    place = start + 2
    while place < len(text):
        if text.startswith("]]", place) and text[place - 1] in " \t\n" and text[place + 2 : place + 3] in (*" \t\n;&|)", ""):
            return place + 2
        place = step(text, place, 0)
    raise Unclosed(start)


def line_end(text: str, place: int) -> int:
    """The position of the next newline, or the end of the text."""
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def heredoc_operator(text: str, place: int, pending: list[tuple[bool, str]]) -> int:
    """Past the << and its delimiter, which is added to `pending` (whether tabs are stripped, the delimiter)."""
    match = _HEREDOC.match(text, place)
    if match is None:
        return place + 2
    pending.append((match[1] == "-", match[2].strip("'\"").removeprefix("\\")))
    return match.end()


def heredoc_bodies(text: str, newline: int, pending: list[tuple[bool, str]]) -> int:
    """Past the bodies of the here-documents in `pending`, which is emptied; the result is the start of a line."""
    place = newline + 1
    for tabs, delimiter in pending:
        while place < len(text):
            end = line_end(text, place)
            line = text[place:end]
            place = end + 1
            if (line.lstrip("\t") if tabs else line) == delimiter:
                break
    pending.clear()
    return min(place, len(text))


def without_continuations(text: str) -> str:
    """The text without its backslash-newlines, which bash takes out before it reads names; those in '...' stay."""
    if "\\\n" not in text:
        return text
    kept: list[str] = []
    place, in_double = 0, False
    while place < len(text):
        char, end = text[place], place + 1
        if char == "\\":
            end = place + 2
        elif char == "'" and not in_double:
            end = single_quoted(text, place)
        elif char == '"':
            in_double = not in_double
        if text[place:end] != "\\\n":
            kept.append(text[place:end])
        place = end
    return "".join(kept)
