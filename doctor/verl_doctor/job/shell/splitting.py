"""The last steps of an expansion: words are split, patterns become file names, quotes are gone."""

from __future__ import annotations

from typing import NamedTuple

from verl_doctor.job.model import UNKNOWN
from verl_doctor.job.shell.patterns import Chars, Unsupported, find_files, has_magic
from verl_doctor.job.shell.state import State, Value, unknown

MAX_TEXT = 100_000


class Piece(NamedTuple):
    """A piece of an expanded word. `split`: it came from an unquoted expansion. `ends_word`: a new word starts after it."""

    value: Value
    quoted: bool
    split: bool = False
    ends_word: bool = False


def joined(pieces: list[Piece]) -> Value:
    """The text of pieces that are not split."""
    if sum(len(piece.value.text) for piece in pieces) > MAX_TEXT:
        return unknown("the text is too long to be followed")
    text = "".join(piece.value.text + (" " if piece.ends_word else "") for piece in pieces)
    return Value(text, next((piece.value.unknown for piece in pieces if piece.value.unknown), ""))


def separators(state: State) -> str:
    """The characters of IFS; those of bash where it is not set or not known."""
    cell = state.variables.get("IFS")
    value = cell.scalar if cell is not None else None
    return value.text if value is not None and value.known else " \t\n"


def words(pieces: list[Piece], state: State) -> list[Value]:
    """The words that the pieces of one raw word become."""
    found: list[Value] = []
    for word in _split(pieces, state):
        value = joined([piece._replace(ends_word=False) for piece in word])
        if not value.known and "nullglob" not in state.options:
            found.append(value)
            continue
        chars = [(char, piece.quoted) for piece in word for char in piece.value.text]
        if not value.known and has_magic(chars):
            found.append(unknown(value.unknown))
        elif not value.known or "f" in state.options or not has_magic(chars):
            found.append(value)
        else:
            found += _files(value, chars, state)
    return found


def _split(pieces: list[Piece], state: State) -> list[list[Piece]]:
    """The pieces of each word, after splitting what unquoted expansions gave at the characters of IFS."""
    ifs = "" if "zsh" in state.options else separators(state)
    found: list[list[Piece]] = []
    word: list[Piece] = []
    for piece in pieces:
        word = _split_piece(piece, ifs, word, found) if piece.split and ifs else [*word, piece]
        if piece.ends_word:
            _finish(word, found)
            word = []
    _finish(word, found)
    return found


def _split_piece(piece: Piece, ifs: str, word: list[Piece], found: list[list[Piece]]) -> list[Piece]:
    """Add the words of a piece to `found`; the result is the word that is not finished."""
    blanks, text, start, place = " \t\n", piece.value.text, 0, 0
    while place < len(text):
        if text[place] not in ifs:
            place += 1
            continue
        end, hard = place, False  # blanks around one other separator belong to it
        while end < len(text) and text[end] in ifs and (text[end] in blanks or not hard):
            hard = hard or text[end] not in blanks
            end += 1
        if place > start:
            word.append(piece._replace(value=Value(text[start:place], piece.value.unknown), ends_word=False))
        elif hard and not word:
            word.append(Piece(Value(""), True))
        _finish(word, found)
        word = []
        start = place = end
    if start < len(text):
        word.append(piece._replace(value=Value(text[start:], piece.value.unknown), ends_word=False))
    return word


def _finish(word: list[Piece], found: list[list[Piece]]) -> None:
    if any(piece.quoted or piece.value.text for piece in word):
        found.append(word)


def _files(value: Value, chars: Chars, state: State) -> list[Value]:
    """The files that match, or the word itself."""
    absolute = value.text.startswith("/")
    if not absolute and (UNKNOWN in state.directory or not state.directory):
        return [unknown("a pattern for files of a directory that is not known")]
    try:
        files = find_files(chars, "/" if absolute else state.directory)
    except Unsupported:
        return [unknown("a pattern for files that is not followed")]
    if not files.sure:
        return [unknown("a pattern for files that cannot be looked at")]
    if len(files.names) > 1:
        return [unknown("a pattern that several files match")]
    if files.names:
        return [Value(files.names[0])]
    return [] if "nullglob" in state.options else [value]
