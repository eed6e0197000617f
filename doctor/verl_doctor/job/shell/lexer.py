"""Cutting a script into words, operators and redirections, and hiding the words from the grammar.

tree-sitter-bash 0.25 reads the structure of a script well but not its words: `2>&1 key=value` becomes two targets of one
redirection, `$(((a + b) * 2))` an error, `key=[1, 2]` three words. So words are cut here, and the grammar gets a text of the
same length in which each word is a row of `x`: positions stay the same, and only the structure is left to be read.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from verl_doctor.job.shell import scan

TokenKind = Literal["word", "keyword", "operator", "redirection"]


class Token(NamedTuple):
    """A piece of the script; `target` is where the target of a redirection starts."""

    kind: TokenKind
    start: int
    end: int
    target: int = 0


class Lexed(NamedTuple):
    """The tokens of a text, the text for the grammar, the comments, and the position of something unclosed (or None)."""

    tokens: list[Token]
    masked: str
    comments: list[tuple[int, int]]
    broken: int | None


_META = " \t\n;&|<>()"
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|;|\|&|\||&|\(|\)")
_SIMPLER = {"|&": "| ", ";&": ";;", ";;&": ";; "}
_REDIRECTION = re.compile(r"(?:[0-9]+|\{[A-Za-z_]\w*\})?(?:<<<|<&|<>|>>|>&|>\||<|>)|&>>|&>")
_HEREDOC = re.compile(r"[0-9]*<<(?!<)")
_ARRAY_START = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=\Z")
_NOTHING = re.compile(r"(?:[ \t]|\\\n)*(?:[;\n]|#)")
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[(?:[^\[\]\n'\"`;]|\[[^\[\]\n]*\])*\]\+?(?==)")
_STARTERS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{"})
_RESERVED = _STARTERS | {"fi", "done", "esac", "}", "for", "case", "select", "function"}


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.tokens: list[Token] = []
        self.comments: list[tuple[int, int]] = []
        self.mask = list(text)
        self.pending: list[tuple[bool, str]] = []
        self.starts_command = True
        self.header: list[str] = []

    def run(self) -> Lexed:
        broken = None
        try:
            while self.place < len(self.text):
                self._step()
        except scan.Unclosed:
            broken = self.place
            self._blank(self.place, len(self.text))
        return Lexed(self.tokens, "".join(self.mask), self.comments, broken)

    def _blank(self, start: int, end: int) -> None:
        self.mask[start:end] = [char if char == "\n" else " " for char in self.text[start:end]]

    def _step(self) -> None:
        text, place = self.text, self.place
        char = text[place]
        if char in " \t":
            self.place += 1
        elif text.startswith("\\\n", place) or (char == "\\" and place == len(text) - 1):
            self.mask[place : place + 2] = "  "
            self.place += 2
        elif char == "\n":
            self._newline()
        elif char == "#":
            self.place = scan.line_end(text, place)
            self.comments.append((place, self.place))
            self._blank(place, self.place)
        elif not self._heredoc() and not self._redirection() and not self._operator():
            self._word()

    def _newline(self) -> None:
        self.tokens.append(Token("operator", self.place, self.place + 1))
        self.starts_command, start = True, self.place
        self.header = [] if self.header[:1] != ["case"] else self.header
        self.place = scan.heredoc_bodies(self.text, start, self.pending) if self.pending else start + 1
        self._blank(start, self.place)

    def _heredoc(self) -> bool:
        match = _HEREDOC.match(self.text, self.place)
        if match is None:
            return False
        end = scan.heredoc_operator(self.text, match.end() - 2, self.pending)
        self.tokens.append(Token("redirection", self.place, end, end))
        self._blank(self.place, end)
        self.place = end
        return True

    def _redirection(self) -> bool:
        match = _REDIRECTION.match(self.text, self.place)
        if match is None or (match[0] in "<>" and self.text.startswith("(", match.end())):
            return False
        target = match.end()
        while self.text.startswith((" ", "\t", "\\\n"), target):
            target += 2 if self.text[target] == "\\" else 1
        end = self._word_end(target)
        self.tokens.append(Token("redirection", self.place, end, target))
        self._blank(self.place, end)
        self.place = end
        return True

    def _operator(self) -> bool:
        match = _OPERATOR.match(self.text, self.place)
        if match is None:
            return False
        if match[0] == "(" and self.text.startswith("((", self.place) and self._arithmetic():
            return True
        self.tokens.append(Token("operator", match.start(), match.end()))
        simpler = _SIMPLER.get(match[0])
        if simpler:
            self.mask[match.start() : match.end()] = simpler
        self.place = match.end()
        self.starts_command = True
        if match[0] != "|" or self.header[:1] != ["case"]:
            self.header = []
        return True

    def _arithmetic(self) -> bool:
        if not (self.starts_command or self.header == ["for"]):
            return False
        end = scan.parenthesis(self.text, self.place)
        if not is_double(self.text[self.place : end]):
            return False
        self._add_word(end)
        return True

    def _word(self) -> None:
        if self.starts_command and re.compile(r"\[\[\s").match(self.text, self.place):
            self._add_word(scan.double_bracket(self.text, self.place))
            return
        end = self._word_end(self.place)
        word = self.text[self.place : end]
        if self._is_keyword(word):
            self.tokens.append(Token("keyword", self.place, end))
            if word == "in" and self.header[0] != "case" and _NOTHING.match(self.text, end):
                self._blank(self.place, end)  # the grammar does not accept a list without words
            self.header = [word] if word in ("for", "case", "select", "function") else []
            self.starts_command = word in _STARTERS or word in ("fi", "done", "esac", "}")
            self.place = end
        else:
            self._add_word(end)

    def _is_keyword(self, word: str) -> bool:
        if word == "in":
            return len(self.header) == 2 and self.header[0] in ("for", "case", "select")
        if word == "do" and len(self.header) == 2 and self.header[0] == "for":
            return True
        return self.starts_command and word in _RESERVED

    def _add_word(self, end: int) -> None:
        self.tokens.append(Token("word", self.place, end))
        self.mask[self.place : end] = "x" * (end - self.place)
        if self.header:
            self.header.append("x")
        if self.header[:1] == ["function"]:
            self.header, self.starts_command = [], True
        else:
            self.starts_command = False
        self.place = end

    def _word_end(self, start: int) -> int:
        text, place = self.text, start
        while place < len(text):
            char = text[place]
            if char == "(" and self._is_inside_word(start, place):
                place = scan.parenthesis(text, place)
            elif char in "<>" and text.startswith("(", place + 1):
                place = scan.parenthesis(text, place + 1)
            elif char in _META:
                break
            elif char == "[" and self.starts_command and (subscript := _SUBSCRIPT.match(text, start)):
                place = max(place + 1, subscript.end())
            else:
                place = scan.step(text, place)
        return min(place, len(text))

    def _is_inside_word(self, start: int, place: int) -> bool:
        before = self.text[start:place]
        if _ARRAY_START.match(before):
            return True
        return before[-1:] in ("@", "?", "*", "+", "!") and before != "!"


def is_double(text: str) -> bool:
    """Whether a text in parentheses is `((...))`: its second parenthesis is closed by the last but one."""
    if not (text.startswith("((") and text.endswith("))")):
        return False
    return scan.parenthesis(text, 1) == len(text) - 1


def cut(text: str) -> Lexed:
    """The tokens of a script."""
    return _Lexer(text).run()
