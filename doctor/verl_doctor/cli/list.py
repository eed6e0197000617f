"""`verl-doctor list`: every code, one line each."""

from __future__ import annotations

import json
import os

import click

from verl_doctor.catalog import load_catalog, text_of
from verl_doctor.language import LANGUAGES, preferred_language


@click.command("list")
@click.argument("topic", required=False)
@click.option("--lang", type=click.Choice(LANGUAGES), help="Language of the titles (default: from the locale).")
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(topic: str | None, lang: str | None, output_format: str) -> None:
    """List the codes, all of them or those of a TOPIC such as wandb, names or secrets."""
    entries = load_catalog()
    if topic is not None:
        chosen = [entry for entry in entries if topic.lower() in entry["tags"] or entry["code"].startswith(topic.upper())]
        if not chosen:
            topics = sorted({tag for entry in entries for tag in entry["tags"]})
            raise click.UsageError(f"no topic is called {topic!r}; there are: {', '.join(topics)}")
        entries = chosen
    if output_format == "json":
        click.echo(json.dumps(entries, ensure_ascii=False, indent=2))
        return
    language = lang or preferred_language(os.environ)
    width = max(len(entry["slug"]) for entry in entries)
    for entry in entries:
        click.echo(f"{entry['code']:<10} {entry['slug']:<{width}}  {entry['severity']:<8} {text_of(entry, 'title', language)}")
