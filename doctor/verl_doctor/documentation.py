"""Generates what is derived from the declared checks: `python -m verl_doctor.documentation` in a checkout rewrites it.

error_codes.md, the catalogue that `explain` reads, the JSON Schema of the report, and the table of codes in the README.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from verl_doctor.catalog import BUILT_IN_PACKAGE, CATALOG_FILE
from verl_doctor.registry import Check, Registry, load_built_in
from verl_doctor.translation import read_texts
from verl_doctor.writers import json as json_writer

REGENERATE = "python -m verl_doctor.documentation"
_TABLE = re.compile(r"(<!-- codes:begin -->\n).*?(<!-- codes:end -->)", re.DOTALL)


def generate(root: Path) -> dict[Path, str]:
    """The text of every generated file of the checkout at `root`."""
    registry = load_built_in()
    entries = catalog(registry)
    package = root / "checks" / BUILT_IN_PACKAGE
    files = {
        root / "error_codes.md": _error_codes(registry, entries),
        package / CATALOG_FILE: json.dumps(entries, ensure_ascii=False, indent=1) + "\n",
        root / "doctor" / "verl_doctor" / "report.schema.json": json.dumps(json_writer.schema(), indent=2) + "\n",
    }
    for name, language in (("README.md", "en"), ("README.zh.md", "zh")):
        text = (root / name).read_text(encoding="utf-8")
        files[root / name] = _with_table(text, _topic_table(entries, language))
    return files


def _with_table(text: str, table: str) -> str:
    return _TABLE.sub(lambda match: match[1] + table + match[2], text)


def catalog(registry: Registry) -> list[dict[str, Any]]:
    """One entry a code, in code order, in the form that `verl_doctor.catalog` reads."""
    return [_entry(registry.checks[code]) for code in sorted(registry.checks)]


def _entry(check: Check) -> dict[str, Any]:
    chinese = read_texts(BUILT_IN_PACKAGE, "zh", check.topic.lower()).get(check.code, {})
    documentation = check.documentation
    return {
        "code": check.code,
        "slug": check.slug,
        "severity": check.severity.value,
        "tags": sorted(check.tags),
        "title": documentation.title,
        "why": documentation.why,
        "fix": documentation.fix,
        "see": documentation.see,
        "zh": {part: str(chinese.get(part, "")).strip() for part in ("title", "why", "fix")},
    }


def _error_codes(registry: Registry, entries: list[dict[str, Any]]) -> str:
    lines = [
        "# Error codes",
        "",
        f"Generated from the checks by `{REGENERATE}`; do not edit. `verl-doctor explain CODE` prints the same text,",
        "`--lang zh` in Chinese.",
        "",
        "| code | name | severity | what is wrong |",
        "|---|---|---|---|",
    ]
    lines += [f"| [{e['code']}](#{e['code'].lower()}) | `{e['slug']}` | {e['severity']} | {e['title']} |" for e in entries]
    for entry in entries:
        lines += ["", *_section(registry.checks[entry["code"]], entry)]
    return "\n".join(lines) + "\n"


def _section(check: Check, entry: dict[str, Any]) -> list[str]:
    lines = [
        f"## {entry['code']}",
        "",
        f"**{entry['title']}** `{entry['slug']}`, {entry['severity']}, topics: {', '.join(entry['tags'])}.",
        "",
        entry["why"],
        "",
        f"**Fix:** {entry['fix']}",
        "",
        f"Found in: {_row(check.bad[0])}",
        "",
        f"Not found in: {_row(check.good[0])}",
        "",
        f"**{entry['zh']['title']}** {entry['zh']['why']}",
        "",
        f"**修复:** {entry['zh']['fix']}",
    ]
    if entry["see"]:
        lines += ["", "See: " + "; ".join(entry["see"])]
    return lines


def _row(row: dict[str, Any]) -> str:
    return f"`{json.dumps(row, ensure_ascii=False, default=str)}`"


def _topic_table(entries: list[dict[str, Any]], language: str) -> str:
    topics: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        topics.setdefault(entry["code"].rstrip("0123456789"), []).append(entry)
    heading = "| codes | number | for example |" if language == "en" else "| 错误码 | 数量 | 例如 |"
    lines = [heading, "|---|---|---|"]
    for topic, members in sorted(topics.items()):
        first = next((e for e in members if e["severity"] == "error"), members[0])
        title = first["title"] if language == "en" else first["zh"]["title"]
        lines.append(f"| {topic} | {len(members)} | {first['code']} `{first['slug']}`: {title} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the generated files of the checkout in the current directory."""
    for path, text in generate(Path.cwd()).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
