"""What stands in the launch script besides the launch itself."""

from __future__ import annotations

from typing import Any

from verl_doctor.api import Location, Request, ScriptNote, fact


def _notes(plain: list[dict[str, Any]] | None) -> list[ScriptNote]:
    place = Location("run.sh", 12, 1)
    return [ScriptNote(note["kind"], {"word": "", "line": "12"} | note.get("values", {}), place) for note in plain or []]


@fact(example=_notes)
def script_notes(request: Request) -> list[ScriptNote]:
    """The notes of the script reader, with the first launch of the script."""
    return request.notes
