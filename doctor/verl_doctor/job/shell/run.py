"""Walking through a script as bash would, without ever running a command of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from verl_doctor.job.model import UNKNOWN, Argument, ScriptNote
from verl_doctor.job.shell import braces, builtins, calls, commands, control, declarations, notes, scan, syntax
from verl_doctor.job.shell.assignments import Assigner, is_assignment
from verl_doctor.job.shell.conditions import DoubleBracket
from verl_doctor.job.shell.expand import Expander
from verl_doctor.job.shell.launches import exported, is_launch
from verl_doctor.job.shell.lexer import Token
from verl_doctor.job.shell.model import Script, ScriptLaunch
from verl_doctor.job.shell.state import CHARACTERS_A_STEP, Array, Cell, Reason, State, Value, merge, unknown
from verl_doctor.job.shell.syntax import Statement
from verl_doctor.job.shell.unit import Unit
from verl_doctor.job.shell.words import Command
from verl_doctor.job.variables import brief
from verl_doctor.report import Location

MAX_STEPS = 20_000
_WORD_LIMIT = 200_000


class OutOfSteps(Exception):
    """The script does more than is followed."""


class Shell:
    """Reads statements and keeps the state. `conditions` are the texts of the undecided branches that it is in."""

    def __init__(self, script: str, state: State, found: Script) -> None:
        self.script = script
        self.script_path = script
        self.state = state
        self.sources = [script]
        self.units: list[Unit] = []
        self.expander = Expander(self)
        self.assigner = Assigner(self)
        self.conditions: list[str] = []
        self.launches = found.launches
        self.notes = found.notes
        self.steps = 0
        self.last_line = 1
        self.calls = 0
        self.exempt = 0
        self.parked: list[State] = []
        self.position = 0
        self.unset_names: set[str] = set()
        self.element_places: dict[str, Location] = {}  # where the elements of arrays are written, by their text
        self.empty_sources: dict[str, set[str]] = {}
        self.empty_words: dict[tuple[str, str], set[str]] = {}
        self.late_exports: list[tuple[int, int, str, Location]] = []
        self.others = 0
        self.reported: set[str] = set()

    @property
    def unit(self) -> Unit:
        """The text that is being read."""
        return self.units[-1]

    @property
    def in_function(self) -> bool:
        """Whether a function of the script runs."""
        return bool(self.assigner.frames)

    def here(self) -> Location:
        """Where the present command is."""
        return self.unit.location(self.position)

    def note(self, kind: str, values: dict[str, str], location: Location | None = None) -> None:
        """Record something that deserves a look, once a place."""
        note = ScriptNote(kind, values, location or self.here())
        if note not in self.notes:
            self.notes.append(note)

    def read(self, unit: Unit) -> None:
        """Go through all statements of a text."""
        self.units.append(unit)
        before = self.position
        try:
            self.run_all(unit.tree.statements)
        finally:
            self.units.pop()
            self.position = before

    def run_all(self, statements: tuple[Statement, ...]) -> None:
        """Go through statements until one stops the shell, the function or the loop."""
        for statement in statements:
            if self.state.stopped:
                return
            self.run(statement)

    def spend(self, steps: int) -> None:
        """Count work that was done; raises OutOfSteps when it was too much."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            self.last_line = self.here().line or 1
            raise OutOfSteps

    def run(self, statement: Statement) -> None:
        """Go through one statement."""
        self.position = statement.start
        self.spend(1)
        if isinstance(statement, syntax.Simple):
            self.simple(statement)
        else:
            control.RUNNERS[type(statement)](self, statement)

    # Branches

    def either(self, paths: list[tuple[str, Callable[[], None]]], line: int) -> None:
        """Go through branches of which it is not known which one runs, and merge what they leave behind."""
        start, ends = self.state, []
        for condition, path in paths:
            self.state = start.copy()
            with self.under(condition):
                path()
            ends.append(self.state)
        self.join(ends, line, [condition for condition, _ in paths])

    @contextmanager
    def under(self, condition: str) -> Iterator[None]:
        """Note that what follows depends on a condition."""
        if condition:
            self.conditions.append(condition)
        try:
            yield
        finally:
            if condition:
                self.conditions.pop()

    def join(self, ends: list[State], line: int, conditions: list[str] | None = None) -> None:
        """One state out of several that may be the present one."""
        reason = f"set differently in the branches of line {line}"
        labels = {id(end): condition for end, condition in zip(ends, conditions or [], strict=False)}
        running = [end for end in ends if not end.stopped]
        leaving = [end for end in ends if end.stopped and end.stopped != "exit"]
        if not running and leaving:
            kind = (leaving[0].stopped, leaving[0].levels)
            running = [end for end in leaving if (end.stopped, end.levels) == kind]
            leaving = [end for end in leaving if (end.stopped, end.levels) != kind]
        self.parked += leaving
        if not running:
            self.state = ends[0]
            return
        merged = running[0]
        for other in running[1:]:
            merged = merge(merged, other, Reason(reason, labels.get(id(merged), ""), labels.get(id(other), "")))
        self.state = merged

    def text_of(self, statements: tuple[Statement, ...]) -> str:
        """The text of a condition, for people."""
        if not statements:
            return ""
        text = self.unit.text[statements[0].start : statements[-1].end]
        return brief(" ".join(text.split()))

    # Kinds of statements

    def simple(self, statement: syntax.Simple) -> None:
        """An assignment or a command."""
        first = self.raw(statement.words[0])
        if first.startswith("((") and first.endswith("))"):
            value = self.expander.number(first[2:-2])
            self.finish(None if not value.known else value.text != "0")
        elif first.startswith("[[") and first[2:3] in (" ", "\t", "\n"):
            try:
                self.finish(DoubleBracket(first[2:-2], self.expander, self.state).result())
            except scan.Unclosed:
                self.finish(None)
        else:
            try:
                self._command(statement)
            except scan.Unclosed:
                control.unparsed(self, syntax.Unparsed(statement.start, statement.end))

    def raw(self, token: Token) -> str:
        """The text of a token."""
        return self.unit.text[token.start : token.end]

    def finish(self, status: bool | None) -> None:
        """Set the status; under `set -e` a failure ends the shell."""
        self.state.status = status
        if status is False and not self.exempt and "e" in self.state.options:
            self.state.stopped = "exit"

    def _command(self, statement: syntax.Simple) -> None:
        count = 0
        while count < len(statement.words) and is_assignment(self.raw(statement.words[count])):
            count += 1
        assignments, rest = statement.words[:count], statement.words[count:]
        if not rest:
            self.state.status = True
            for token in assignments:
                self.assigner.assign(self.raw(token), self.unit.location(token.start))
                self.note_credential(token)
            self.finish(self.state.status)
            return
        alternatives = self._alternatives(rest[0])
        if alternatives:
            name, choices = alternatives
            paths = [(condition, self._choose(statement, name, content)) for condition, content in choices]
            self.either(paths, self.unit.line(statement.start))
            return
        words = self._words(rest)  # before the assignments in front, as bash does
        with self._prefixed(assignments):
            if words:
                self.dispatch(words, statement)
            else:
                self.finish(True)

    def _alternatives(self, token: Token) -> tuple[str, tuple[tuple[str, Array], ...]] | None:
        """What the array may be that a command starts with, when branches set it differently."""
        match = re.fullmatch(r'"?\$\{([A-Za-z_]\w*)\[@\]\}"?', self.raw(token))
        cell = self.state.variables.get(match[1]) if match else None
        return (match[1], cell.alternatives) if match and cell is not None and cell.alternatives else None

    def _choose(self, statement: syntax.Simple, name: str, content: Array) -> Callable[[], None]:
        def run() -> None:
            self.state.variables[name] = Cell(content, location=self.state.variables[name].location)
            self._command(statement)

        return run

    @contextmanager
    def _prefixed(self, tokens: tuple[Token, ...]) -> Iterator[None]:
        """Variables set for one command only."""
        before: dict[str, Cell | None] = {}
        for token in tokens:
            raw = self.raw(token)
            self.note_credential(token)
            name = re.split(r"[+=\[]", raw, maxsplit=1)[0]
            before.setdefault(name, self.state.variables.get(name))
            self.assigner.assign(raw, self.unit.location(token.start))
            self.state.variables[name] = replace(self.state.variables[name], exported=True)
        try:
            yield
        finally:
            for name, cell in before.items():
                if cell is None:
                    self.state.variables.pop(name, None)
                else:
                    self.state.variables[name] = cell

    def _words(self, tokens: tuple[Token, ...]) -> list[Argument]:
        words: list[Argument] = []
        name = self.raw(tokens[0])
        declares = name in declarations.DECLARATIONS or (
            name in ("command", "builtin") and len(tokens) > 1 and self.raw(tokens[1]) in declarations.DECLARATIONS
        )
        size = 0
        for token in tokens:
            location = self.unit.location(token.start)
            raw = self.raw(token)
            self.note_credential(token)
            if declares and is_assignment(raw):
                words += self._declared(raw, location)
                continue
            self.unset_names = set()
            for value in self.expander.fields(raw):
                size += len(value.text)
                self.remember_empty(value, str(location))
                written = self.element_places.get(value.text, location) if "[@]" in raw else location
                words.append(Argument(value.text, written, value.unknown if not value.known else ""))
        self.spend(size // CHARACTERS_A_STEP)
        return words

    def note_credential(self, token: Token) -> None:
        """Look for a credential in a word as written."""
        name, equals, rest = self.raw(token).partition("=")
        if equals and re.fullmatch(r"[+~]{0,2}[\w.@/\-]+", name):
            notes.note_credential(self, name.lstrip("+~"), rest, token.start)
        else:
            notes.note_credential(self, "an argument", self.raw(token), token.start)

    def _declared(self, raw: str, location: Location) -> list[Argument]:
        """An assignment after `export` and the like: arrays are left as written, other values are expanded but not split."""
        if re.match(r"[A-Za-z_]\w*\+?=\(", raw):
            return [Argument(raw, location, declarations.AS_WRITTEN)]
        words = []
        choices = braces.expand(raw)
        if len(choices) > 1:  # no longer taken for an assignment, so it is split like any word
            values = [value for word in choices for value in self.expander.fields(word)]
            return [Argument(value.text, location, value.unknown) for value in values]
        for word in choices:
            name, equals, rest = word.partition("=")
            value = self.expander.text(rest, assignment=True)
            words.append(Argument(name + equals + value.text, location, value.unknown))
        return words

    def dispatch(self, words: list[Argument], statement: syntax.Simple) -> None:
        """Run a function, a builtin, or pass over another command."""
        name = words[0].text
        if UNKNOWN in name:
            self.external(words, statement)
        elif name in self.state.functions:
            calls.call(self, name, words[1:])
        elif name in builtins.BUILTINS:
            builtins.BUILTINS[name](self, words, statement)
        else:
            self.external(words, statement)

    def external(self, words: list[Argument], statement: syntax.Simple) -> None:
        """A command that is not run: a launch, another script, or one of the few whose output is known."""
        self.state.status = None
        if commands.follow_script(self, words):
            return
        if is_launch(words):
            self.record(words)
            notes.note_launch(self, statement, words)
        else:
            self.others += 1
        output = commands.known_output(words, self.state)
        if output is not None:
            self.state.status = output.status
        self.print(
            output.text if output is not None else unknown(f"the output of {brief(words[0].text, 30)} is not known"), statement
        )
        if commands.runs_in_place(words):
            self.state.stopped = "exit"

    def record(self, words: list[Argument]) -> None:
        """Keep a launch."""
        line = words[0].location.line if words[0].location and words[0].location.line else 1
        self.launches.append(
            ScriptLaunch(
                arguments=list(words),
                environment=exported(self.state),
                directory=self.state.directory,
                line=line,
                condition=" and ".join(self.conditions),
                unseen=self.state.unseen,
            )
        )

    def print(self, value: Value, statement: syntax.Simple | None = None) -> None:
        """Add to what a command substitution collects, unless it goes to a file."""
        if self.state.output is None:
            return
        if statement is not None and any(_takes_output(self.raw(token)) for token in statement.redirections):
            return
        before = self.state.output
        if len(before.text) > _WORD_LIMIT:
            raise OutOfSteps
        self.state.output = Value(before.text + value.text, before.unknown or value.unknown)

    def subshell(self, body: Callable[[], None], *, captures: bool) -> None:
        """Run statements of which only the status and the output are kept."""
        outer, parked = self.state, self.parked
        self.state, self.parked = outer.copy(), []
        if not captures:
            self.state.output = None
        frames = self.assigner.frames
        self.assigner.frames = [dict(frame) for frame in frames]
        try:
            body()
        finally:
            inner, self.state, self.parked, self.assigner.frames = self.state, outer, parked, frames
        outer.status = inner.status
        if captures and outer.output is not None:
            outer.output = inner.output

    # What the expander asks for

    def assign(self, name: str, value: Value) -> None:
        """Set a variable."""
        self.assigner.put(name, value, self.here())

    def run_substitution(self, command: Command) -> Value:
        """What a command substitution prints."""
        return calls.run_substitution(self, command)

    def report_unset(self, name: str, message: bool) -> None:
        """A variable without a value under `set -u`, or `${name:?message}`: bash stops here."""
        if not self.conditions and name not in self.reported:
            self.reported.add(name)
            how = ":?" if message else "set -u"
            self.note("unset-under-u", {"word": name, "how": how, "line": str(self.here().line)})

    def report_empty(self, name: str) -> None:
        """Remember the variables that gave an empty text in the present word."""
        self.unset_names |= self.empty_sources.get(name, {name})

    def remember_empty(self, value: Value, place: str = "") -> None:
        """Remember that a word such as `key=` has no value because variables are not set."""
        if self.unset_names and value.text.endswith(("=", "''", '""')):
            self.empty_words[value.text, place] = set(self.unset_names)


def _takes_output(raw: str) -> bool:
    """Whether a redirection moves the standard output."""
    return re.match(r"1?>>?\|?(?!&1)|1?>&(?!1)|&>", raw) is not None
