"""`export`, `declare`, `typeset`, `local`, `readonly` and `unset`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.shell import notes
from verl_doctor.job.shell.state import Cell, Value, unknown
from verl_doctor.job.shell.syntax import Simple

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell

DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly"})
AS_WRITTEN = "as written"
"""Marks a word of a declaration that is not expanded yet: an array."""
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def declare(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    """`export`, `declare`, `typeset`, `local`, `readonly`."""
    kind, place, flags, removed = words[0].text, 1, "", ""
    while place < len(words) and re.fullmatch(r"[-+][A-Za-z]+", words[place].text) and words[place].unknown != AS_WRITTEN:
        if words[place].text[0] == "-":
            flags += words[place].text[1:]
        else:
            removed += words[place].text[1:]
        place += 1
    shell.state.status = True
    if "p" in flags or "f" in flags or "F" in flags:
        return
    refused = False
    for word in words[place:]:
        name = re.split(r"[+=\[]", word.text, maxsplit=1)[0]
        if not _NAME.match(name):
            refused = refused or UNKNOWN not in name
            continue
        local = kind == "local" or (kind in ("declare", "typeset") and "g" not in flags)
        if local and shell.assigner.frames:
            shell.assigner.make_local(name)
        _attributes(shell, kind, name, flags, removed)
        location = word.location or shell.here()
        if word.unknown == AS_WRITTEN:
            shell.assigner.assign(word.text, location, associative="A" in flags)
        elif "=" in word.text:
            left, _, text = word.text.partition("=")
            shell.assigner.put_named(left, Value(text, word.unknown), location)
        if kind == "export" or "x" in flags:
            notes.note_export(shell, name)
        if kind == "readonly" or "r" in flags:
            shell.assigner.update(name, readonly=True)
    shell.finish(not refused)  # the status of a substitution in a declaration is lost


def _attributes(shell: Shell, kind: str, name: str, flags: str, removed: str) -> None:
    changes: dict[str, Any] = {}
    if kind == "export" or "x" in flags:
        changes["exported"] = not (kind == "export" and "n" in flags)
    if "x" in removed:
        changes["exported"] = False
    if kind != "export":
        if "i" in flags:
            changes["integer"] = True
        if "A" in flags:
            changes["associative"] = True
        if "l" in flags or "u" in flags:
            changes["case"] = ",," if "l" in flags else "^^"
        if "n" in flags:  # a name reference: what it stands for is not followed
            shell.assign(name, unknown("a name reference is not followed"))
    if changes:
        shell.assigner.update(name, **changes)
    if "exported" in changes:
        cell = shell.state.variables[name]
        if cell.inherited is not None and not cell.exported:
            shell.assigner.update(name, inherited=None)


def unset(shell: Shell, words: list[Argument], _statement: Simple) -> None:
    """`unset`: of variables, elements of arrays and functions."""
    functions_only = any(word.text == "-f" for word in words)
    for word in words[1:]:
        if word.text.startswith("-"):
            continue
        if UNKNOWN in word.text:
            shell.note("undecidable", {"word": "unset", "line": str(shell.here().line)})
            continue
        element = re.fullmatch(r"([A-Za-z_]\w*)\[(.+)\]", word.text)
        if element:
            _unset_element(shell, element[1], element[2])
            continue
        if functions_only:
            shell.state.functions.pop(word.text, None)
            continue
        cell = shell.state.variables.get(word.text)
        if cell is None or not cell.readonly:
            shell.state.variables[word.text] = Cell(None)  # kept: what is unset here is not set by a scheduler either
    shell.state.status = True


def _unset_element(shell: Shell, name: str, index: str) -> None:
    cell = shell.state.variables.get(name)
    if cell is None or not isinstance(cell.content, dict):
        return
    key = Value(index.strip("'\"")) if cell.associative else shell.expander.number(index)
    if not key.known or cell.unsure or key.text in ("@", "*"):
        shell.assigner.update(name, unsure=key.unknown or cell.unsure or "elements of it are unset")
        return
    content = dict(cell.content)
    content.pop(key.text if cell.associative else int(key.text), None)
    shell.state.variables[name] = Cell(content, cell.exported, cell.location, cell.associative)
