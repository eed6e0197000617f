"""The statements of a script, from the tree of tree-sitter-bash over the masked text."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable
from dataclasses import dataclass

import tree_sitter
import tree_sitter_bash

from verl_doctor.job.shell.lexer import Lexed, Token, cut

MAX_DEPTH = 60
"""Nested statements that are followed."""


@dataclass(frozen=True)
class Simple:
    """A command with its redirections; `words` are the tokens as written."""

    start: int
    end: int
    words: tuple[Token, ...]
    redirections: tuple[Token, ...]


@dataclass(frozen=True)
class Pipeline:
    """Commands joined by `|`."""

    start: int
    end: int
    parts: tuple[Statement, ...]


@dataclass(frozen=True)
class AndOr:
    """`left && right` or `left || right`."""

    start: int
    end: int
    left: Statement
    operator: str
    right: Statement


@dataclass(frozen=True)
class Not:
    """`! command`."""

    start: int
    end: int
    body: Statement


@dataclass(frozen=True)
class Background:
    """`command &`."""

    start: int
    end: int
    body: Statement


@dataclass(frozen=True)
class If:
    """`if` and `elif` as (condition, body), and the body of `else`."""

    start: int
    end: int
    branches: tuple[tuple[tuple[Statement, ...], tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True)
class While:
    """`while` or `until`."""

    start: int
    end: int
    condition: tuple[Statement, ...]
    body: tuple[Statement, ...]
    until: bool


@dataclass(frozen=True)
class For:
    """`for name in words`; `words` is None where `in` is left out. `header` is the text of a C-style loop, else empty."""

    start: int
    end: int
    name: str
    words: tuple[Token, ...] | None
    body: tuple[Statement, ...]
    header: str = ""
    select: bool = False


@dataclass(frozen=True)
class Case:
    """`case word in`; items as (patterns, body, how it ends: `;;`, `;&` or `;;&`)."""

    start: int
    end: int
    word: Token
    items: tuple[tuple[tuple[Token, ...], tuple[Statement, ...], str], ...]


@dataclass(frozen=True)
class Function:
    """A definition of a function."""

    start: int
    end: int
    name: str
    body: Statement


@dataclass(frozen=True)
class Group:
    """`{ ...; }`, or `( ... )` when `subshell`."""

    start: int
    end: int
    body: tuple[Statement, ...]
    subshell: bool = False


@dataclass(frozen=True)
class Unparsed:
    """Text that the grammar does not accept."""

    start: int
    end: int


Statement = Simple | Pipeline | AndOr | Not | Background | If | While | For | Case | Function | Group | Unparsed


@dataclass(frozen=True)
class Tree:
    """The statements of a text with what they are made of."""

    text: str
    lexed: Lexed
    statements: tuple[Statement, ...]


@functools.cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> Tree:
    """The statements of a script; text that cannot be parsed is `Unparsed`."""
    lexed = cut(text)
    root = _parser().parse(lexed.masked.encode("ascii", "replace")).root_node
    statements = _Reader(text, lexed).body(root, 0)
    if lexed.broken is not None:
        statements = (*statements, Unparsed(lexed.broken, len(text)))
    return Tree(text, lexed, statements)


_SKIPPED = frozenset({"then", "do", "done", "fi", "{", "}", "(", ")", ";", ";;", ";&", ";;&", "\n", "else", "elif", "comment"})


class _Reader:
    def __init__(self, text: str, lexed: Lexed) -> None:
        self.text = text
        self.tokens = lexed.tokens
        self.starts = [token.start for token in lexed.tokens]

    def body(self, node: tree_sitter.Node, depth: int) -> tuple[Statement, ...]:
        return self.sequence(node.children, depth)

    def sequence(self, nodes: list[tree_sitter.Node], depth: int) -> tuple[Statement, ...]:
        """The statements of sibling nodes; `&` puts the one before it in the background."""
        found: list[Statement] = []
        for node in nodes:
            if node.type == "&" and found:
                found.append(Background(found[-1].start, node.end_byte, found.pop()))
            elif node.type not in _SKIPPED:
                found.append(self.statement(node, depth + 1))
        return tuple(found)

    def statement(self, node: tree_sitter.Node, depth: int) -> Statement:
        if (
            depth > MAX_DEPTH
            or node.type == "ERROR"
            or any(child.type == "ERROR" or child.is_missing for child in node.children)
        ):
            return Unparsed(node.start_byte, node.end_byte)
        reader = _READERS.get(node.type)
        return reader(self, node, depth) if reader else Unparsed(node.start_byte, node.end_byte)

    def words_between(self, start: int, end: int) -> tuple[Token, ...]:
        first = bisect.bisect_left(self.starts, start)
        last = bisect.bisect_left(self.starts, end)
        return tuple(token for token in self.tokens[first:last] if token.kind == "word")

    def _command(self, node: tree_sitter.Node, _depth: int) -> Statement:
        first = last = bisect.bisect_left(self.starts, node.start_byte)
        while first > 0 and self.tokens[first - 1].kind == "redirection":
            first -= 1
        while last < len(self.tokens) and self.tokens[last].kind in ("word", "redirection"):
            last += 1
        run = self.tokens[first:last]
        words = tuple(token for token in run if token.kind == "word")
        if not words or words[-1].end < node.end_byte:
            return Unparsed(node.start_byte, node.end_byte)
        redirections = tuple(token for token in run if token.kind == "redirection")
        return Simple(words[0].start, run[-1].end, words, redirections)

    def _pipeline(self, node: tree_sitter.Node, depth: int) -> Statement:
        parts = [self.statement(child, depth + 1) for child in node.children if child.type not in ("|", "|&", "\n")]
        if isinstance(parts[0], Not):  # `!` negates the whole pipeline
            return Not(node.start_byte, node.end_byte, Pipeline(node.start_byte, node.end_byte, (parts[0].body, *parts[1:])))
        return Pipeline(node.start_byte, node.end_byte, tuple(parts))

    def _list(self, node: tree_sitter.Node, depth: int) -> Statement:
        children = [child for child in node.children if child.type not in ("\n", "comment")]
        if len(children) != 3:
            return Unparsed(node.start_byte, node.end_byte)
        left, operator, right = children
        return AndOr(
            node.start_byte,
            node.end_byte,
            self.statement(left, depth + 1),
            operator.type,
            self.statement(right, depth + 1),
        )

    def _negated_command(self, node: tree_sitter.Node, depth: int) -> Statement:
        return Not(node.start_byte, node.end_byte, self.statement(node.children[-1], depth + 1))

    def _compound_statement(self, node: tree_sitter.Node, depth: int) -> Statement:
        return Group(node.start_byte, node.end_byte, self.body(node, depth))

    def _subshell(self, node: tree_sitter.Node, depth: int) -> Statement:
        return Group(node.start_byte, node.end_byte, self.body(node, depth), subshell=True)

    def _function_definition(self, node: tree_sitter.Node, depth: int) -> Statement:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return Unparsed(node.start_byte, node.end_byte)
        text = self.text[name.start_byte : name.end_byte]
        return Function(node.start_byte, node.end_byte, text, self.statement(body, depth + 1))

    def _if_statement(self, node: tree_sitter.Node, depth: int) -> Statement:
        branches: list[tuple[tuple[Statement, ...], tuple[Statement, ...]]] = []
        otherwise: tuple[Statement, ...] = ()
        own = [child for child in node.children if child.type not in ("elif_clause", "else_clause")]
        branches.append(self._branch(own, depth))
        for child in node.children:
            if child.type == "elif_clause":
                branches.append(self._branch(child.children, depth))
            elif child.type == "else_clause":
                otherwise = self.body(child, depth)
        return If(node.start_byte, node.end_byte, tuple(branches), otherwise)

    def _branch(self, nodes: list[tree_sitter.Node], depth: int) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        split = next((place for place, child in enumerate(nodes) if child.type == "then"), len(nodes))
        condition = [child for child in nodes[:split] if child.type not in ("if", "elif")]
        return self.sequence(condition, depth), self.sequence(nodes[split:], depth)

    def _while_statement(self, node: tree_sitter.Node, depth: int) -> Statement:
        body = node.child_by_field_name("body")
        condition = [child for child in node.children if child.type not in ("while", "until", "do_group")]
        return While(
            node.start_byte,
            node.end_byte,
            self.sequence(condition, depth),
            self.body(body, depth) if body else (),
            node.children[0].type == "until",
        )

    def _for_statement(self, node: tree_sitter.Node, depth: int) -> Statement:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return Unparsed(node.start_byte, node.end_byte)
        name = self.text[variable.start_byte : variable.end_byte]
        first = bisect.bisect_left(self.starts, variable.end_byte)
        has_in = self.tokens[first].kind == "keyword" and self.text.startswith("in", self.tokens[first].start)
        return For(
            node.start_byte,
            node.end_byte,
            "" if name.startswith("((") else name,
            self.words_between(variable.end_byte, body.start_byte) if has_in else None,
            self.body(body, depth),
            name[2:-2] if name.startswith("((") else "",
            node.children[0].type == "select",
        )

    def _case_statement(self, node: tree_sitter.Node, depth: int) -> Statement:
        word = self.words_between(node.start_byte, node.end_byte)[0]
        items = [self._case_item(child, depth) for child in node.children if child.type == "case_item"]
        return Case(node.start_byte, node.end_byte, word, tuple(items))

    def _case_item(self, node: tree_sitter.Node, depth: int) -> tuple[tuple[Token, ...], tuple[Statement, ...], str]:
        close = next((place for place, child in enumerate(node.children) if child.type == ")"), len(node.children) - 1)
        patterns = self.words_between(node.start_byte, node.children[close].start_byte)
        body = self.sequence(node.children[close + 1 :], depth)
        end = bisect.bisect_left(self.starts, node.children[-1].start_byte)
        token = self.tokens[end] if end < len(self.tokens) else None
        written = self.text[token.start : token.end] if token else ""
        return patterns, body, written if written in (";&", ";;&") else ";;"


_READERS: dict[str, Callable[[_Reader, tree_sitter.Node, int], Statement]] = {
    "command": _Reader._command,
    "pipeline": _Reader._pipeline,
    "list": _Reader._list,
    "negated_command": _Reader._negated_command,
    "compound_statement": _Reader._compound_statement,
    "subshell": _Reader._subshell,
    "function_definition": _Reader._function_definition,
    "if_statement": _Reader._if_statement,
    "while_statement": _Reader._while_statement,
    "for_statement": _Reader._for_statement,
    "case_statement": _Reader._case_statement,
}
