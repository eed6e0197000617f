"""What a launch script itself gets wrong: words that never reach verl, continuations that end early, values that are empty."""

from __future__ import annotations

from collections.abc import Iterator

from verl_doctor.api import Finding, Fix, Message, ScriptNote, Severity, check


def _found(notes: list[ScriptNote], kind: str, template: str, fix: str, severity: Severity | None = None) -> Iterator[Finding]:
    for note in notes:
        if note.kind == kind:
            yield Finding(
                message=Message(template, dict(note.values)),
                target=note.values["word"],
                source="script",
                location=note.location,
                fix=Fix(Message(fix, dict(note.values))),
                severity=severity,
            )


def _row(kind: str, word: str = "", **values: str) -> dict[str, list[dict[str, object]]]:
    return {"script_notes": [{"kind": kind, "values": {"word": word, **values}}]}


@check(
    "LAUNCH020",
    "override-after-pipe",
    tags={"launch", "logger"},
    severity=Severity.WARNING,
    good=[{}, _row("override-split", "'wandb']")],
    bad=[_row("override-after-pipe", "trainer.resume_mode=disable")],
)
def override_after_pipe(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """An override stands after a pipe or a redirection and never reaches verl.

    The shell gives it to the program behind the pipe, usually `tee`, which makes a file of that name. verl runs with its
    default: a run that was meant to start anew resumes, for example. Nothing says so.

    Fix: move the override in front of the pipe.

    See: GNU Bash manual, Pipelines
    """
    yield from _found(
        script_notes,
        "override-after-pipe",
        "{word} stands behind a pipe or redirection: verl never gets it",
        "Move it in front of the pipe",
    )


@check(
    "LAUNCH021",
    "continuation-ends-early",
    tags={"launch", "logger"},
    good=[{}, _row("empty-from-unset", "trainer.nnodes=")],
    bad=[
        _row("continuation-ended-by-comment", "trainer.logger=[console]"),
        _row("continuation-ended-by-blank", "trainer.logger=[console]"),
        _row("continuation-ended-by-empty-line", "trainer.logger=[console]"),
        _row("continuation-missing", "trainer.logger=[console]"),
    ],
)
def continuation_ends_early(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """The launch ends before its last lines, so the overrides on them are lost.

    A comment or an empty line between continued lines ends the command, and so does a backslash with a blank behind it or a
    line without one. The lines that follow are commands of their own: the shell fails on them after the training, or not at
    all.

    Fix: take the comment or the empty line out of the command, and let each line but the last end in a backslash.

    See: GNU Bash manual, Escape Character and Comments
    """
    yield from _found(
        script_notes,
        "continuation-ended-by-comment",
        "a comment ends the launch here: {word} and what follows never reach verl",
        "Move the comment in front of the command",
    )
    yield from _found(
        script_notes,
        "continuation-ended-by-blank",
        "a blank behind the backslash ends the launch here: {word} and what follows never reach verl",
        "Remove the blank behind the backslash",
    )
    yield from _found(
        script_notes,
        "continuation-ended-by-empty-line",
        "an empty line ends the launch before this one: {word} and what follows never reach verl",
        "Remove the empty line",
    )
    yield from _found(
        script_notes,
        "continuation-missing",
        "the line before ends without a backslash: {word} and what follows never reach verl",
        "End the line before with a backslash",
    )


@check(
    "LAUNCH022",
    "list-is-a-file-pattern",
    tags={"launch", "logger"},
    good=[{}],
    bad=[_row("unquoted-list-glob", "trainer.logger=[console]", how="zsh")],
)
def list_is_a_file_pattern(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """An unquoted list in brackets is a file pattern for this shell.

    zsh stops with `no matches found`, bash does with `shopt -s failglob`, and with `shopt -s nullglob` bash drops the word
    without a message. Plain bash hands it on unchanged.

    Fix: quote the override: `'trainer.logger=["console","wandb"]'`.

    See: https://github.com/verl-project/verl/issues/2509
    """
    yield from _found(
        script_notes,
        "unquoted-list-glob",
        "{word} is not quoted, and this script's shell takes its brackets for a file pattern",
        "Quote the override",
    )


@check(
    "LAUNCH023",
    "override-split-by-blank",
    tags={"launch", "logger"},
    good=[{}],
    bad=[_row("override-split", "trainer.logger=['console',")],
)
def override_split_by_blank(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """A blank after a comma splits an override into two words.

    The shell ends the word at the blank. Hydra gets half a list and a stray word, and refuses both.

    Fix: quote the whole override, or remove the blank.

    See: verl 0.9.1 docs/advance/rollout_trace.rst, which shows a list with a blank
    """
    yield from _found(
        script_notes,
        "override-split",
        "the blank behind {word} splits the override into two words",
        "Quote the override, or remove the blank",
    )


@check(
    "LAUNCH024",
    "typographic-character",
    tags={"launch", "logger"},
    good=[{}],
    bad=[_row("typographic-character", "trainer.logger=[“console”]", character="“")],
)
def typographic_character(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """The launch holds a typographic quote, a full-width character or a blank that is none.

    Articles on the web replace plain quotes, commas and blanks by printed ones. For the shell and for Hydra these are letters
    like any other: they end up in names, or the launch is refused.

    Fix: type the character again in ASCII.

    See: hydra 1.3 grammar, OverrideLexer
    """
    yield from _found(
        script_notes,
        "typographic-character",
        "{word} holds the character '{character}', which the shell does not take for a quote, comma or blank",
        "Type it again in ASCII",
    )


@check(
    "LAUNCH025",
    "value-from-unset-variable",
    tags={"launch", "logger", "names"},
    severity=Severity.WARNING,
    good=[{}],
    bad=[_row("empty-from-unset", "trainer.experiment_name=", variable="EXP")],
)
def value_from_unset_variable(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """An override is empty because a variable of the script is not set.

    Without `set -u` the shell puts nothing in the place of a variable that is not set. An empty name is shared by all runs
    that have it; an empty number stops the job when it is read.

    Fix: give the variable a default, `${NAME:-value}`, or set it before the launch.

    See: GNU Bash manual, Shell Parameter Expansion
    """
    yield from _found(
        script_notes,
        "empty-from-unset",
        "{word} is empty: the variable {variable} is not set here",
        "Set {variable}, or give it a default in the script",
    )


@check(
    "LAUNCH026",
    "script-stops-at-unset-variable",
    tags={"launch", "logger"},
    severity=Severity.WARNING,
    good=[{}],
    bad=[_row("unset-under-u", "DATA_HOME", how="set -u")],
)
def script_stops_at_unset_variable(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """The script stops before the launch, at a variable that is not set.

    It uses a variable that is not set under `set -u`, or demands it with `${NAME:?}`. What comes after was not judged.

    Fix: set the variable, in the shell or with `--env NAME=VALUE`.

    See: GNU Bash manual, The Set Builtin
    """
    yield from _found(
        script_notes,
        "unset-under-u",
        "the script stops at line {line}: the variable {word} is not set",
        "Set {word}, here with `--env {word}=VALUE`",
    )


@check(
    "LAUNCH027",
    "credential-in-script",
    tags={"launch", "secrets", "logger"},
    severity=Severity.WARNING,
    good=[{}],
    bad=[_row("plaintext-credential", "WANDB_API_KEY")],
)
def credential_in_script(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """A credential stands in the launch script in plain text.

    Scripts are committed, copied to shared disks and pasted into issues, and the credential goes with them.

    Fix: read it from the environment or from a file that only you can read, and replace the credential that was shown.

    See: https://github.com/verl-project/verl/issues/3365
    """
    yield from _found(
        script_notes,
        "plaintext-credential",
        "the script holds the value of {word} in plain text",
        "Set {word} outside of the script, and replace the credential",
    )


@check(
    "LAUNCH028",
    "export-after-launch",
    tags={"launch", "logger"},
    severity=Severity.WARNING,
    good=[{}],
    bad=[_row("export-after-launch", "WANDB_MODE")],
)
def export_after_launch(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """A tracking variable is exported after the launch.

    The launched process has got its environment already; the export changes nothing for it.

    Fix: move the export in front of the launch.

    See: POSIX, Shell Execution Environment
    """
    yield from _found(
        script_notes,
        "export-after-launch",
        "{word} is exported after the launch, which therefore does not see it",
        "Move the export in front of the launch",
    )


@check(
    "LAUNCH029",
    "script-part-not-understood",
    tags={"launch", "logger"},
    severity=Severity.INFO,
    good=[{}],
    bad=[_row("undecidable", "eval")],
)
def script_part_not_understood(script_notes: list[ScriptNote]) -> Iterator[Finding]:
    """A part of the script cannot be understood without running it.

    It may change the launch in a way that is not seen here: `eval`, a file that is sourced and does not exist here, or syntax
    that was not recognised. `verl-doctor run -- bash SCRIPT` judges the launch as it really is.

    Fix: use `verl-doctor run` for this script.

    See: `verl-doctor run --help`
    """
    yield from _found(
        script_notes,
        "undecidable",
        "line {line} cannot be understood without running it: {word}",
        "`verl-doctor run -- bash SCRIPT` judges the real launch",
    )
