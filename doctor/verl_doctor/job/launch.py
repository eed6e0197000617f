"""What a launch command comes down to: the verl entry, its arguments, and what the programs before it change."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import msgspec

from verl_doctor.job.model import Argument, Source, Variable
from verl_doctor.job.variables import make_variable

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")


class NotAVerlLaunch(Exception):
    """The command does not start verl, or that cannot be told from the command alone; the message says what was found."""


class Launch(msgspec.Struct, kw_only=True):
    """A launch of verl.

    `launchers` are the programs before the entry, outermost first. `entry` is a dotted module, or the user's own script as
    given. `assignments` are set for the launched process by the command itself; with `ray job submit` for the submitting client
    only, and `entrypoint_assignments` are those after its `--`. `removed` are variables that the command takes away.
    The reasons are empty in the ordinary case: `drops_environment` says why the variables of the launching shell do not
    get to the launched process, `adds_environment` why it may have others besides, `unknown_python` why its packages cannot be
    looked at, `other_machine` why the files and processes of this machine are not those of the job.
    `directory` is where the command changes to before it starts verl, `working_dir` is that of `ray job submit`.
    """

    entry: str = ""
    arguments: list[Argument] = msgspec.field(default_factory=list)
    launchers: list[str] = msgspec.field(default_factory=list)
    assignments: list[Variable] = msgspec.field(default_factory=list)
    entrypoint_assignments: list[Variable] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)
    runtime_env: dict[str, Variable] = msgspec.field(default_factory=dict)
    submits_to_cluster: bool = False
    address: str = ""
    working_dir: str = ""
    directory: str = ""
    python: str = ""
    drops_environment: str = ""
    adds_environment: str = ""
    unknown_python: str = ""
    other_machine: str = ""

    def copy(self) -> Launch:
        """A copy whose lists can be changed without changing this one's."""
        return msgspec.structs.replace(
            self,
            launchers=list(self.launchers),
            assignments=list(self.assignments),
            entrypoint_assignments=list(self.entrypoint_assignments),
            removed=list(self.removed),
            runtime_env=dict(self.runtime_env),
        )

    def assign(self, argument: Argument, unknown: str = "") -> None:
        """Take a NAME=VALUE word."""
        name, _, value = argument.text.partition("=")
        source = Source("command", "launch command", argument.location)
        variable = make_variable(name, value, source, unknown or argument.unknown)
        (self.entrypoint_assignments if self.submits_to_cluster else self.assignments).append(variable)
        if name in self.removed:
            self.removed.remove(name)

    def remove(self, name: str) -> None:
        """Take a variable away, as `env -u` and `unset` do."""
        self.assignments = [variable for variable in self.assignments if variable.name != name]
        self.entrypoint_assignments = [variable for variable in self.entrypoint_assignments if variable.name != name]
        self.removed.append(name)

    def start_over(self, reason: str, *, others: str = "") -> None:
        """What comes next does not inherit the variables set so far; `others` says why it may have variables of its own."""
        self.drops_environment = self.drops_environment or reason
        self.adds_environment = self.adds_environment or others
        self.assignments, self.entrypoint_assignments = [], []

    def change_directory(self, path: str) -> None:
        """Follow `cd`."""
        self.directory = os.path.join(self.directory, path)


def is_assignment(argument: Argument) -> bool:
    """Whether the word is NAME=VALUE."""
    return _ASSIGNMENT.match(argument.text) is not None


def texts(arguments: Iterable[Argument]) -> list[str]:
    """The words as text."""
    return [argument.text for argument in arguments]
