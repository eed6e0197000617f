"""What the codes mean, from the generated catalogue: `explain` and `list` answer from it without loading any check."""

from __future__ import annotations

import difflib
import json
import os
from typing import Any

Entry = dict[str, Any]
"""code, slug, severity, tags, title, why, fix, see, and `zh` with title, why and fix."""

CATALOG_FILE = "catalog.json"

BUILT_IN_PACKAGE = "verl_doctor_checks"
"""The package of checks that this distribution ships. It lists its own modules; the engine names none of them."""


class UnknownCode(Exception):
    """No code or slug of this name; the message suggests one."""


def load_catalog(package: str = BUILT_IN_PACKAGE) -> list[Entry]:
    """Every code that the package of checks declares, in code order."""
    import importlib.util

    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {package} is not installed")
    with open(os.path.join(os.path.dirname(spec.origin), CATALOG_FILE), encoding="utf-8") as file:
        entries: list[Entry] = json.load(file)
    return entries


def find_entry(entries: list[Entry], name: str) -> Entry:
    """The entry of a code (in any case) or a slug; raises UnknownCode."""
    for entry in entries:
        if name.upper() == entry["code"] or name.lower() == entry["slug"]:
            return entry
    names = [entry["code"].lower() for entry in entries] + [entry["slug"] for entry in entries]
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = ""
    if close:
        near = find_entry(entries, close[0])
        hint = f"; did you mean {near['code']} ({near['slug']})?"
    raise UnknownCode(f"no code or slug is called {name!r}{hint} (`verl-doctor list` shows all)")


def text_of(entry: Entry, part: str, language: str) -> str:
    """The title, why or fix of an entry in a language, English where there is no translation."""
    translated = entry.get(language, {}) if language != "en" else {}
    return str(translated.get(part) or entry[part])
