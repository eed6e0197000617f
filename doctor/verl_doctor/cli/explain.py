"""`verl-doctor explain`: the documentation of a code."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from verl_doctor.catalog import UnknownCode, find_entry, load_catalog, text_of
from verl_doctor.language import LANGUAGES, preferred_language

_WORDS = {
    "en": {"severity": "severity", "topics": "topics", "fix": "Fix", "see": "See"},
    "zh": {"severity": "级别", "topics": "主题", "fix": "修复", "see": "参考"},
}
_SEVERITY = {
    "en": {"error": "error", "warning": "warning", "info": "info"},
    "zh": {"error": "错误", "warning": "警告", "info": "提示"},
}


@click.command("explain")
@click.argument("code")
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the text (default: from the locale).")
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(code: str, lang: str | None, output_format: str) -> None:
    """Explain CODE, a code such as WANDB001 or its name such as wandb-key-missing."""
    try:
        entry = find_entry(load_catalog(), code)
    except UnknownCode as error:
        raise click.UsageError(str(error)) from None
    if output_format == "json":
        click.echo(json.dumps(entry, ensure_ascii=False, indent=2))
    else:
        click.echo(_as_text(entry, lang or preferred_language(os.environ)))


def _as_text(entry: dict[str, Any], language: str) -> str:
    words = _WORDS[language]
    lines = [
        f"{entry['code']} {entry['slug']}",
        text_of(entry, "title", language),
        "",
        f"{words['severity']}: {_SEVERITY[language][entry['severity']]}    {words['topics']}: {', '.join(entry['tags'])}",
        "",
        text_of(entry, "why", language),
        "",
        f"{words['fix']}: {text_of(entry, 'fix', language)}",
    ]
    if entry["see"]:
        lines += ["", f"{words['see']}:", *(f"  {source}" for source in entry["see"])]
    return "\n".join(lines)
