"""Reads the commands of a shell program one after another, as bash does (bash 5.2, parse.y).

Bash runs each line before it reads the next, so a syntax error ends a script only where it stands.
"""

from __future__ import annotations

import re

from verl_doctor.job.script.shell_text import ShellText
from verl_doctor.job.script.syntax import (
    AndOr,
    ArithmeticCommand,
    Assignment,
    Background,
    BadSubstitution,
    Branch,
    Case,
    Clause,
    Conditional,
    Element,
    For,
    ForArithmetic,
    Function,
    Group,
    If,
    Literal,
    Node,
    Pipeline,
    Redirection,
    Sequence,
    Simple,
    Substitution,
    Test,
    While,
    Word,
)
from verl_doctor.job.script.words import METACHARACTERS, ShellSyntaxError, WordReader

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_RESERVED = re.compile(
    r"(if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|coproc|in|\{|\}|!|\[\[|time)(?=[ \t\n;|&()<>]|\Z|\\\n)"
)
_REDIRECTION = re.compile(r"([0-9]+|\{[A-Za-z_]\w*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[|\+?=)")
_EQUALS = re.compile(r"\+?=")
_FUNCTION = re.compile(r"[ \t]*\([ \t]*\)")
_FUNCTION_NAME = re.compile(r"[^\s|&;()<>$`\"'\\]+")
_TEST_BINARY = re.compile(r"(=~|==|!=|=|<|>|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef)(?=[ \t\n]))")
_TEST_END = ("]]", "&&", "||", ")")
_UNARY = re.compile(r"-[a-zA-Z]\Z")
_DECLARING = frozenset(("export", "declare", "typeset", "local", "readonly"))
_STOPS = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
_CASE_END = (";;&", ";;", ";&")


class Parser(WordReader):
    """The grammar of bash over the words of `WordReader`."""

    def __init__(self, source: ShellText, start: int = 0, end: int | None = None) -> None:
        super().__init__(source, start, end)
        self.pending: list[Redirection] = []

    def line(self) -> Sequence | None:
        """The commands of the next line (more lines where they go on), None at the end of the text.

        Raises ShellSyntaxError and TooComplex.
        """
        self._blank_lines()
        if self.at >= self.end:
            return None
        items: list[Node] = []
        while self.at < self.end and self.char() != "\n":
            items.append(self._item(frozenset()))
            self._blanks()
            if self.char() == "#":
                self._comment()
        if self.at < self.end:
            self._newline()
        return Sequence(items)

    def commands(self, closers: frozenset[str]) -> Sequence:
        """The commands up to one of the closers, which is left in place."""
        outer, self.pending = self.pending, []
        items: list[Node] = []
        while True:
            self._blank_lines()
            if self.at >= self.end or self._closes(closers):
                break
            items.append(self._item(closers))
        self.pending = outer
        return Sequence(items)

    def nested(self, source: ShellText) -> Sequence:
        """All commands of another text."""
        inner = Parser(source)
        inner.depth, inner.words_read = self.depth, self.words_read
        commands = inner.commands(frozenset())
        self.words_read = inner.words_read
        return commands

    def _closes(self, closers: frozenset[str]) -> bool:
        if self.char() == ")" and ")" in closers:
            return True
        if self.char() == ";" and ";;" in closers and self.text.startswith(_CASE_END, self.at, self.end):
            return True
        return self._reserved() in closers

    def _item(self, closers: frozenset[str]) -> Node:
        """A list of `&&` and `||` with the `;` or `&` after it."""
        node = self._and_or()
        self._blanks()
        if self.char() == "#":
            self._comment()
        char = self.char()
        if char == "&":
            self.at += 1
            return Background(node)
        if char == ";" and not self.text.startswith(_CASE_END, self.at, self.end):
            self.at += 1
        elif char and char != "\n" and not self._closes(closers):
            raise self.fail(f"syntax error near '{char}'")
        return node

    def _and_or(self) -> Node:
        start = self.at
        node = self._pipeline()
        while True:
            self._blanks()
            if not self.starts("&&") and not self.starts("||"):
                return node
            operator, middle = self.text[self.at : self.at + 2], self.at
            self.at += 2
            self._blank_lines()
            node = AndOr(node, operator, self._pipeline(), self.source, start, middle)

    def _pipeline(self) -> Node:
        negated = False
        while True:
            self._blanks()
            reserved = self._reserved()
            if reserved == "!":
                negated = not negated
                self.at += 1
            elif reserved == "time":
                self.at += 4
                self._blanks()
                if self.starts("-p"):
                    self.at += 2
            else:
                break
        commands = [self._command()]
        while True:
            self._blanks()
            if self.char() != "|" or self.char(1) == "|":
                break
            self.at += 2 if self.char(1) == "&" else 1
            self._blank_lines()
            commands.append(self._command())
        return Pipeline(commands, negated) if negated or len(commands) > 1 else commands[0]

    def _command(self) -> Node:
        self.deeper()
        try:
            return self._one_command()
        finally:
            self.depth -= 1

    def _one_command(self) -> Node:
        self._blanks()
        if self.char() == "(":
            return self._parenthesis_command()
        reserved = self._reserved()
        if reserved in _STOPS:
            raise self.fail(f"syntax error near '{reserved}'")
        if reserved == "{":
            self.at += 1
            return self._redirected(Group(self._body("}"), subshell=False))
        reader = {
            "if": self._if,
            "for": self._for,
            "select": self._for,
            "while": self._while,
            "until": self._while,
            "case": self._case,
            "[[": self._conditional,
            "function": self._function,
            "coproc": self._coproc,
        }.get(reserved)
        return reader() if reader else self._simple()

    def _redirected(self, node: Group | If | Case | For | ForArithmetic | While | ArithmeticCommand | Conditional) -> Node:
        while True:
            self._blanks()
            redirection = self._redirection()
            if redirection is None:
                return node
            node.redirections.append(redirection)

    def _parenthesis_command(self) -> Node:
        if self.starts("(("):
            end = self.arithmetic_end(self.at + 2)
            if end is not None:
                self.at += 2
                expression = self.expression(end)
                self.at = end + 2
                return self._redirected(ArithmeticCommand(expression))
        self.at += 1
        body = self.commands(frozenset((")",)))
        self._close(")")
        return self._redirected(Group(body, subshell=True))

    def _body(self, *closers: str) -> Sequence:
        """The commands up to a reserved word, which is taken."""
        body = self.commands(frozenset(closers))
        if len(closers) == 1:
            self._take_reserved(closers[0])
        return body

    def _take_reserved(self, word: str) -> None:
        self._blank_lines()
        if self._reserved() != word:
            raise self.fail(f"'{word}' is missing")
        self.at += len(word)

    def _reserved(self) -> str:
        match = _RESERVED.match(self.text, self.at, self.end)
        return match[0] if match else ""

    def _if(self) -> Node:
        branches: list[Branch] = []
        otherwise = None
        while True:
            start = self.at
            self.at += len(self._reserved())
            condition = self._body("then")
            end = self.at - len("then")
            branches.append(Branch(condition, self._body("elif", "else", "fi"), self.source, start, end))
            closer = self._reserved()
            if closer == "elif":
                continue
            if closer == "else":
                self.at += len(closer)
                otherwise = self._body("fi")
            else:
                self._take_reserved("fi")
            return self._redirected(If(branches, otherwise))

    def _for(self) -> Node:
        start, select = self.at, self._reserved() == "select"
        self.at += len(self._reserved())
        self._blanks()
        if self.starts("(("):
            return self._for_arithmetic(start)
        match = _FUNCTION_NAME.match(self.text, self.at, self.end)
        if match is None:
            raise self.fail("'for' has no name")
        self.at = match.end()
        self._blank_lines()
        words: list[Word] | None = None
        if self._reserved() == "in":
            self.at += 2
            words = []
            while not self._ends_words():
                words.append(self.word())
        self._end_of_head()
        return self._redirected(For(match[0], words, self._loop_body(), self.source, start, select))

    def _ends_words(self) -> bool:
        self._blanks()
        if self.char() == "#":
            self._comment()
        return self.char() in ("", "\n", ";")

    def _end_of_head(self) -> None:
        self._blanks()
        if self.char() == ";":
            self.at += 1
        self._blank_lines()

    def _loop_body(self) -> Sequence:
        if self._reserved() == "{":
            self.at += 1
            return self._body("}")
        self._take_reserved("do")
        return self._body("done")

    def _for_arithmetic(self, start: int) -> Node:
        end = self.arithmetic_end(self.at + 2)
        if end is None:
            raise self.fail("'for ((' is not closed")
        self.at += 2
        parts = []
        for _ in range(2):
            stop = self.text.find(";", self.at, end)
            if stop < 0:
                raise self.fail("'for ((' needs two ';'")
            parts.append(self.expression(stop))
            self.at = stop + 1
        parts.append(self.expression(end))
        self.at = end + 2
        self._end_of_head()
        return self._redirected(ForArithmetic(parts[0], parts[1], parts[2], self._loop_body(), self.source, start))

    def _while(self) -> Node:
        start, kind = self.at, self._reserved()
        self.at += len(kind)
        condition = self._body("do")
        end = self.at - len("do")
        return self._redirected(While(condition, self._body("done"), kind == "until", self.source, start, end))

    def _case(self) -> Node:
        self.at += len("case")
        self._blanks()
        subject = self.word()
        self._take_reserved("in")
        clauses: list[Clause] = []
        while True:
            self._blank_lines()
            if self._reserved() == "esac":
                self.at += len("esac")
                return self._redirected(Case(subject, clauses))
            clauses.append(self._clause())

    def _clause(self) -> Clause:
        if self.char() == "(":
            self.at += 1
        patterns: list[Word] = []
        while True:
            self._blanks()
            patterns.append(self.word(patterns=True))
            self._blanks()
            if self.char() != "|":
                break
            self.at += 1
        self._close(")")
        body = self.commands(frozenset((";;", "esac")))
        end = next((end for end in _CASE_END if self.starts(end)), ";;")
        if self.starts(end):
            self.at += len(end)
        return Clause(patterns, body, end)

    def _function(self) -> Node:
        self.at += len("function")
        self._blanks()
        match = _FUNCTION_NAME.match(self.text, self.at, self.end)
        if match is None:
            raise self.fail("'function' has no name")
        self.at = match.end()
        parentheses = _FUNCTION.match(self.text, self.at, self.end)
        if parentheses:
            self.at = parentheses.end()
        return self._function_body(match[0])

    def _function_body(self, name: str) -> Node:
        self._blank_lines()
        if self.char() != "(" and self._reserved() not in ("{", "if", "for", "while", "until", "case", "select", "[["):
            raise self.fail(f"the function '{name}' has no body")
        return Function(name, self._command())

    def _coproc(self) -> Node:
        self.at += len("coproc")
        return Background(self._command())

    def _simple(self) -> Node:
        command = Simple([], [], [], self.source, self.at, self.at)
        first: str | None = None
        while True:
            self._blanks()
            char = self.char()
            redirection = self._redirection()
            if redirection is not None:
                command.redirections.append(redirection)
            elif char in ("", "\n", ";", "&", "|", ")", "#"):
                break
            elif char == "(":
                return self._named_function(command)
            else:
                self._command_word(command, first)
                if first is None and command.words:
                    word = command.words[0]
                    first = (word.literal or "") if isinstance(word, Word) else ""
            command.end = self.at
        if command.end == command.start:
            raise self.fail(f"syntax error near '{self.char()}'" if self.char() else "a command is missing")
        command.expands_commands = _expands_commands(command)
        return command

    def _command_word(self, command: Simple, first: str | None) -> None:
        if first is None or first in _DECLARING:
            assignment = self._assignment()
            if assignment is not None:
                (command.assignments if first is None else command.words).append(assignment)  # type: ignore[attr-defined]
                return
        command.words.append(self.word())

    def _named_function(self, command: Simple) -> Node:
        match = _FUNCTION.match(self.text, self.at, self.end)
        name = command.words[0].raw if len(command.words) == 1 and isinstance(command.words[0], Word) else ""
        if match is None or not name or command.assignments:
            raise self.fail("syntax error near '('")
        self.at = match.end()
        return self._function_body(name)

    def _assignment(self) -> Assignment | None:
        match = _ASSIGNED.match(self.text, self.at, self.end)
        if match is None:
            return None
        start = self.at
        index = None
        self.at = match.end()
        operator = match[2]
        if operator == "[":
            self.at = match.end() - 1
            index, operator = self._assigned_index()
            if index is None:
                self.at = start
                return None
        assignment = Assignment(match[1], None, start, self.source, operator == "+=", index)
        if self.char() == "(" and index is None:
            self.at += 1
            assignment.elements = self._elements()
        elif self.at < self.end and (self.char() not in METACHARACTERS or self.text.startswith(("<(", ">("), self.at, self.end)):
            assignment.value = self.word()
        return assignment

    def _assigned_index(self) -> tuple[Word | None, str]:
        """The subscript before `=`; nothing when the word is no assignment."""
        try:
            index = self.index()
        except ShellSyntaxError:
            return None, ""
        equals = _EQUALS.match(self.text, self.at, self.end)
        if equals is None:
            return None, ""
        self.at = equals.end()
        return index, equals[0]

    def _elements(self) -> list[Element]:
        elements: list[Element] = []
        while True:
            self._blank_lines()
            if self.char() == ")":
                self.at += 1
                return elements
            if self.at >= self.end:
                raise self.fail("the parenthesis of an array is not closed")
            start = self.at
            index = self._assigned_index()[0] if self.char() == "[" else None
            if index is None:
                self.at = start
                elements.append(Element(self.word()))
            elif self.char() in METACHARACTERS:
                elements.append(Element(Word([], self.source, self.at, self.at), index))
            else:
                elements.append(Element(self.word(), index))

    def _redirection(self) -> Redirection | None:
        match = _REDIRECTION.match(self.text, self.at, self.end)
        if match is None:
            return None
        self.at = match.end()
        self._blanks()
        redirection = Redirection(match[2], self.word(), match[1] or "")
        if match[2] in ("<<", "<<-"):
            self.pending.append(redirection)
        return redirection

    def _conditional(self) -> Node:
        self.at += 2
        test = self._test_or()
        self._blank_lines()
        if not self.starts("]]"):
            raise self.fail("']]' is missing")
        self.at += 2
        return self._redirected(Conditional(test))

    def _test_or(self) -> Test:
        test = self._test_and()
        while self._test_operator("||"):
            test = Test("||", [test, self._test_and()])
        return test

    def _test_and(self) -> Test:
        test = self._test_one()
        while self._test_operator("&&"):
            test = Test("&&", [test, self._test_one()])
        return test

    def _test_operator(self, operator: str) -> bool:
        self._blank_lines()
        found = self.starts(operator)
        self.at += len(operator) if found else 0
        return found

    def _test_one(self) -> Test:
        self.deeper()
        try:
            self._blank_lines()
            if self._reserved() == "!":
                self.at += 1
                return Test("!", [self._test_one()])
            if self.char() == "(":
                self.at += 1
                test = self._test_or()
                self._blank_lines()
                self._close(")")
                return test
            return self._test_words()
        finally:
            self.depth -= 1

    def _test_words(self) -> Test:
        left = self.word(patterns=True)
        self._blank_lines()
        if self.text.startswith(_TEST_END, self.at, self.end):
            return Test("-n", [left])
        if left.literal and _UNARY.match(left.literal) and not _TEST_BINARY.match(self.text, self.at, self.end):
            return Test(left.literal, [self.word()])
        match = _TEST_BINARY.match(self.text, self.at, self.end)
        if match is None:
            raise self.fail("the condition in [[ ]] is not understood")
        self.at = match.end()
        self._blanks()
        right = self.regular_expression() if match[1] == "=~" else self.word(patterns=True)
        return Test(match[1], [left, right])

    def _blanks(self) -> None:
        match = _BLANKS.match(self.text, self.at, self.end)
        if match:
            self.at = match.end()

    def _comment(self) -> None:
        match = _COMMENT.match(self.text, self.at, self.end)
        if match:
            self.at = match.end()

    def _blank_lines(self) -> None:
        while True:
            self._blanks()
            char = self.char()
            if char == "#":
                self._comment()
            elif char == "\n":
                self._newline()
            else:
                return

    def _newline(self) -> None:
        self.at += 1
        pending, self.pending = self.pending, []
        for redirection in pending:
            self._here_document(redirection)

    def _here_document(self, redirection: Redirection) -> None:
        """Read the lines up to the delimiter; quotes in the delimiter keep them as they are."""
        strips = redirection.operator == "<<-"
        raw = redirection.target.raw
        literal = re.search(r"['\"\\]", raw) is not None
        delimiter = re.sub(r"['\"\\]", "", raw)
        start, lines = self.at, []
        end = start
        while self.at < self.end:
            stop = self.text.find("\n", self.at, self.end)
            stop = self.end if stop < 0 else stop
            line = self.text[self.at : stop]
            end, self.at = self.at, min(stop + 1, self.end)
            if (line.lstrip("\t") if strips else line) == delimiter:
                break
            end = self.at
            lines.append(line.lstrip("\t") if strips else line)
        redirection.body = self._body_word(start, end, "\n".join(lines) + "\n" if lines else "", literal=literal)

    def _body_word(self, start: int, end: int, text: str, *, literal: bool) -> Word:
        if literal or not text:
            return Word([Literal(text, quoted=True)], self.source, start, end)
        inner = Parser(self.source.part(start, end, text))
        inner.depth = self.depth
        try:
            return inner.body()
        except ShellSyntaxError:
            return Word([BadSubstitution(text[:40])], self.source, start, end)


def _expands_commands(command: Simple) -> bool:
    """Whether expanding the words runs a command substitution, which may come out in more than one way."""
    text = command.source.text[command.start : command.end]
    return "$(" in text or "`" in text or any(isinstance(part, Substitution) for part in _body_parts(command))


def _body_parts(command: Simple) -> list[object]:
    return [part for redirection in command.redirections if redirection.body for part in redirection.body.parts]
