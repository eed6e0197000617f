"""Texts in the user's language. English is the source; Chinese texts are kept beside the checks and the engine."""

from __future__ import annotations

import importlib.resources
import sys
from typing import Any

from verl_doctor.report import Message


def read_texts(package: str, language: str, name: str) -> dict[str, Any]:
    """The tables of `locale/<language>/<name>.toml` in a package; empty when the package has no such file."""
    resource = importlib.resources.files(package) / "locale" / language / f"{name}.toml"
    return _parse_toml(resource.read_text(encoding="utf-8")) if resource.is_file() else {}


def _parse_toml(text: str) -> dict[str, Any]:
    tables: dict[str, Any]
    if sys.version_info >= (3, 11):
        import tomllib

        tables = tomllib.loads(text)
    else:
        import tomli

        tables = tomli.loads(text)
    return tables


class Translator:
    """Texts of one language. What has no translation is shown in English: a finding must never be lost for want of one."""

    def __init__(self, language: str, package: str) -> None:
        self.language = language
        self._package = package
        self._texts: dict[str, dict[str, Any]] = {}
        self._interface = {} if language == "en" else read_texts("verl_doctor", language, "interface")

    def interface(self, template: str, **values: Any) -> str:
        """A text of the tool itself."""
        return str(self._interface.get(template, template)).format_map(values)

    def message(self, code: str, message: Message) -> str:
        """A finding's text."""
        template = self._code(code).get("messages", {}).get(message.template, message.template)
        return str(template).format_map(message.values)

    def title(self, code: str, english: str) -> str:
        """The title of a code."""
        return str(self._code(code).get("title", english))

    def _code(self, code: str) -> dict[str, Any]:
        if self.language == "en":
            return {}
        topic = code.rstrip("0123456789")
        if topic not in self._texts:
            self._texts[topic] = read_texts(self._package, self.language, topic.lower())
        found = self._texts[topic].get(code, {})
        return found if isinstance(found, dict) else {}
