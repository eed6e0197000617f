"""The parts of a shell program, as bash's grammar has them (bash 5.2, parse.y)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from verl_doctor.job.script.shell_text import ShellText


@dataclass(slots=True, eq=False)
class Literal:
    """Text that stands for itself; `quoted` text is neither split nor a pattern."""

    text: str
    quoted: bool = False


@dataclass(slots=True, eq=False)
class Quoted:
    """What stands between double quotes."""

    parts: list[Part]


@dataclass(slots=True, eq=False)
class Parameter:
    """`$name` or `${...}`. `operator` is the one after the name, empty for none; `length` is `${#name}`, `indirect` `${!name}`."""

    name: str
    index: Word | None = None
    operator: str = ""
    argument: Word | None = None
    second: Word | None = None
    length: bool = False
    indirect: bool = False


@dataclass(slots=True, eq=False)
class Substitution:
    """`$(...)` or backquotes."""

    commands: Sequence
    source: ShellText
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Arithmetic:
    """`$((...))`."""

    expression: Word


@dataclass(slots=True, eq=False)
class ProcessFile:
    """`<(...)` or `>(...)`: the path of a pipe."""

    commands: Sequence


@dataclass(slots=True, eq=False)
class BadSubstitution:
    """`${...}` that bash refuses when it gets there."""

    text: str


Part = Union[Literal, Quoted, Parameter, Substitution, Arithmetic, ProcessFile, BadSubstitution]


@dataclass(slots=True, eq=False)
class Word:
    """One word as written, with its place."""

    parts: list[Part]
    source: ShellText
    start: int
    end: int
    braced: list[Word] | None = None

    @property
    def literal(self) -> str | None:
        """The text of an unquoted plain word, None for any other."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Literal) and not self.parts[0].quoted:
            return self.parts[0].text
        return None

    @property
    def raw(self) -> str:
        """The word as it is written."""
        return self.source.text[self.start : self.end]


@dataclass(slots=True, eq=False)
class Element:
    """One entry between the parentheses of an array: `word`, or `[index]=word`."""

    word: Word
    index: Word | None = None


@dataclass(slots=True, eq=False)
class Assignment:
    """`name=value`, `name+=value`, `name[index]=value` or `name=(...)`."""

    name: str
    value: Word | None
    start: int
    source: ShellText
    append: bool = False
    index: Word | None = None
    elements: list[Element] | None = None


@dataclass(slots=True, eq=False)
class Redirection:
    """`>file`, `2>&1`, `<<EOF`, `<<<word`. `body` is the text of a here-document."""

    operator: str
    target: Word
    descriptor: str = ""
    body: Word | None = None


@dataclass(slots=True, eq=False)
class Simple:
    """Assignments, a command with its words, redirections."""

    assignments: list[Assignment]
    words: list[Word | Assignment]
    redirections: list[Redirection]
    source: ShellText
    start: int
    end: int = 0
    expands_commands: bool = False


@dataclass(slots=True, eq=False)
class Pipeline:
    """Commands joined by `|`, or one command after `!`."""

    commands: list[Node]
    negated: bool = False


@dataclass(slots=True, eq=False)
class AndOr:
    """`left && right` or `left || right`."""

    left: Node
    operator: str
    right: Node
    source: ShellText
    start: int
    middle: int


@dataclass(slots=True, eq=False)
class Background:
    """A command followed by `&`."""

    command: Node


@dataclass(slots=True, eq=False)
class Sequence:
    """Commands one after another."""

    items: list[Node]


@dataclass(slots=True, eq=False)
class Group:
    """`{ ...; }`, or `( ... )` when `subshell`."""

    body: Sequence
    subshell: bool
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Branch:
    """The condition and the commands of one `if` or `elif`."""

    condition: Sequence
    body: Sequence
    source: ShellText
    start: int
    end: int


@dataclass(slots=True, eq=False)
class If:
    """`if ...; then ...; elif ...; else ...; fi`."""

    branches: list[Branch]
    otherwise: Sequence | None
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Clause:
    """One clause of `case`; `end` is `;;`, `;&` or `;;&`."""

    patterns: list[Word]
    body: Sequence
    end: str


@dataclass(slots=True, eq=False)
class Case:
    """`case word in ... esac`."""

    subject: Word
    clauses: list[Clause]
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class For:
    """`for name in words`; `words` is None for the positional parameters. `select` reads an answer from a person."""

    name: str
    words: list[Word] | None
    body: Sequence
    source: ShellText
    start: int
    select: bool = False
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ForArithmetic:
    """`for ((first; condition; step))`."""

    first: Word
    condition: Word
    step: Word
    body: Sequence
    source: ShellText
    start: int
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class While:
    """`while` or `until`."""

    condition: Sequence
    body: Sequence
    until: bool
    source: ShellText
    start: int
    end: int
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Function:
    """The definition of a function."""

    name: str
    body: Node


@dataclass(slots=True, eq=False)
class ArithmeticCommand:
    """`((...))`."""

    expression: Word
    redirections: list[Redirection] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Test:
    """An expression of `[[ ... ]]`: `operator` is `!`, `&&`, `||`, a unary or a binary operator."""

    operator: str
    operands: list[Test | Word]


@dataclass(slots=True, eq=False)
class Conditional:
    """`[[ ... ]]`."""

    test: Test
    redirections: list[Redirection] = field(default_factory=list)


Node = Union[
    Simple,
    Pipeline,
    AndOr,
    Background,
    Sequence,
    Group,
    If,
    Case,
    For,
    ForArithmetic,
    While,
    Function,
    ArithmeticCommand,
    Conditional,
]
