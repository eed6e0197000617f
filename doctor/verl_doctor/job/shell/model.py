"""What was read in a launch script, as typed data."""

from __future__ import annotations

import msgspec

from verl_doctor.job.model import Argument, ScriptNote, Variable


class ScriptLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One command of the script that looks like a launch of verl.

    `arguments` are its words as bash passes them, `environment` the variables that it gets. `condition` is the text of the
    branches that could not be decided, empty when the command certainly runs. `unseen` says why variables that are not in
    `environment` may be set all the same (a file that could not be found was sourced), empty when they are not.
    """

    arguments: list[Argument]
    environment: dict[str, Variable]
    directory: str
    line: int
    condition: str = ""
    unseen: str = ""


class Script(msgspec.Struct):
    """A script that was read, never executed."""

    path: str
    launches: list[ScriptLaunch] = msgspec.field(default_factory=list)
    notes: list[ScriptNote] = msgspec.field(default_factory=list)


NOTE_KINDS = (
    "override-after-pipe",
    "continuation-ended-by-comment",
    "continuation-ended-by-blank",
    "continuation-ended-by-empty-line",
    "continuation-missing",
    "unquoted-list-glob",
    "override-split",
    "typographic-character",
    "empty-from-unset",
    "unset-under-u",
    "plaintext-credential",
    "export-after-launch",
    "delegated",
    "undecidable",
)
