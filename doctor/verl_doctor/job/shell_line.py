"""Splitting one line of shell, such as the text after `bash -c`, into simple commands.

Only what can be split without running a shell is accepted; scripts are read by the script reader (`--script`).
"""

from __future__ import annotations

import re

from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.report import Location

_RESERVED = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "coproc"}
    | {"[[", "{", "}"}
)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!\-])|\{([^{}]*)\})")
_REDIRECTION = re.compile(r"(?:&>>?|[0-9]*(?:>>|>\||>&|<&|<>|>|<))")
_SEPARATOR = re.compile(r"&&|\|\||\|&|;|\||&|\n")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")


class NotSimple(Exception):
    """The line holds more than simple commands; the message says what."""


class _Splitter:
    """Reads one line from left to right. `expandable` collects the unquoted text of a word, where a shell expands braces."""

    def __init__(self, text: str, location: Location | None, unknown: str) -> None:
        self.text = text
        self.place = 0
        self.location = location
        self.outer_unknown = unknown
        self.commands: list[list[Argument]] = [[]]
        self._start_word()

    def _start_word(self) -> None:
        self.word: list[str] = []
        self.expandable: list[str] = []
        self.unknown = ""
        self.in_word = False
        self.quoted = False
        self.is_target = False

    def split(self) -> list[list[Argument]]:
        while self.place < len(self.text):
            self._step()
        self._end_word()
        return [command for command in self.commands if command]

    def _step(self) -> None:
        char = self.text[self.place]
        if char in " \t\r":
            self._end_word()
            self.place += 1
        elif char == "#" and not self.in_word:
            end = self.text.find("\n", self.place)
            self.place = len(self.text) if end < 0 else end
        elif char in "'\"":
            self._quoted(char)
        elif char == "\\":
            self._escaped()
        elif char == "$":
            self._expansion()
        elif char == "`":
            raise NotSimple("a command substitution")
        elif char in "()":
            raise NotSimple("a subshell or a function")
        elif not self._operator():
            self._add(char, expandable=True)
            self.place += 1

    def _operator(self) -> bool:
        redirection = _REDIRECTION.match(self.text, self.place)
        if redirection and not (self.in_word and self.text[self.place].isdigit()):
            self._redirect(redirection)
            return True
        separator = _SEPARATOR.match(self.text, self.place)
        if separator:
            self._end_word()
            self.commands.append([])
            self.place = separator.end()
        return separator is not None

    def _redirect(self, match: re.Match[str]) -> None:
        if self.text.startswith(("<<", "<(", ">("), self.place):
            raise NotSimple("a here-document or a process substitution")
        self._end_word()
        self.place = match.end()
        self.is_target = True

    def _add(self, text: str, *, expandable: bool = False) -> None:
        self.word.append(text)
        self.expandable.append(text if expandable else "\0")
        self.in_word = True

    def _quoted(self, quote: str) -> None:
        self.in_word = self.quoted = True
        self.place += 1
        while self.place < len(self.text):
            char = self.text[self.place]
            if char == quote:
                self.place += 1
                return
            if quote == '"' and char in "\\$`":
                self._inside_double(char)
            else:
                self._add(char)
                self.place += 1
        raise NotSimple(f"a {quote} that is not closed")

    def _inside_double(self, char: str) -> None:
        if char == "`":
            raise NotSimple("a command substitution")
        if char == "$":
            self._expansion(in_double=True)
            return
        following = self.text[self.place + 1 : self.place + 2]
        if following != "\n":
            self._add(following if following in ("$", "`", '"', "\\") else char + following)
        self.place += 2

    def _escaped(self) -> None:
        following = self.text[self.place + 1 : self.place + 2]
        if following != "\n":
            self._add(following)
        self.place += 2

    def _expansion(self, *, in_double: bool = False) -> None:
        if self.text.startswith("$(" if in_double else ("$(", "$'", '$"'), self.place):
            raise NotSimple("a command substitution or a $'...' string")
        match = _VARIABLE.match(self.text, self.place)
        if match is None:
            self._add("$")
            self.place += 1
            return
        self._add(UNKNOWN)
        self.unknown = f"${match[1] or match[2]} is expanded by the shell that the command starts"
        self.place = match.end()

    def _end_word(self) -> None:
        if self.in_word:
            if _BRACES.search("".join(self.expandable)):
                raise NotSimple("a brace expansion")
            text = "".join(self.word)
            if not self.commands[-1] and not self.quoted and text in _RESERVED:
                raise NotSimple(f"'{text}'")
            if not self.is_target:
                unknown = self.unknown or (self.outer_unknown if UNKNOWN in text else "")
                self.commands[-1].append(Argument(text, self.location, unknown))
        elif self.is_target:
            return
        self._start_word()


def split_line(argument: Argument) -> list[list[Argument]]:
    """The simple commands of a line of shell, without their redirections; raises NotSimple when there is more to it."""
    return _Splitter(argument.text, argument.location, argument.unknown).split()
