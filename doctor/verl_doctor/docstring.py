"""The grammar of a check's docstring, which is the documentation of its code.

First line: what is wrong, as a sentence. Then one or more paragraphs that say why it matters. Then `Fix:`, and optionally
`See:` with one source a line.
"""

from __future__ import annotations

import inspect


class Documentation:
    """The parts of a code's documentation, as plain text with Markdown code spans."""

    def __init__(self, title: str, why: str, fix: str, see: list[str]) -> None:
        self.title = title
        self.why = why
        self.fix = fix
        self.see = see


def parse(text: str, code: str) -> Documentation:
    """Split a docstring into its parts; raises ValueError that names the code when a part is missing."""
    paragraphs = [paragraph.strip() for paragraph in inspect.cleandoc(text).split("\n\n") if paragraph.strip()]
    if len(paragraphs) < 3:
        raise ValueError(f"{code}: the docstring needs a title, a paragraph that says why, and a paragraph `Fix: …`")
    title, *rest = paragraphs
    if "\n" in title or not title.endswith(".") or len(title) > 100:
        raise ValueError(f"{code}: the title must be one sentence on one line of at most 100 characters")
    fix = [_body(part, "Fix:") for part in rest if part.startswith("Fix:")]
    see = [_body(part, "See:") for part in rest if part.startswith("See:")]
    why = [part for part in rest if not part.startswith(("Fix:", "See:"))]
    if len(fix) != 1 or len(see) > 1 or not why:
        raise ValueError(f"{code}: the docstring needs exactly one `Fix:`, at most one `See:`, and a paragraph that says why")
    sources = [line.strip() for line in see[0].splitlines()] if see else []
    return Documentation(title, "\n\n".join(why), fix[0], sources)


def _body(paragraph: str, label: str) -> str:
    return inspect.cleandoc(paragraph[len(label) :].strip())
