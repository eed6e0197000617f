"""Which language to speak."""

from __future__ import annotations

from collections.abc import Mapping

LANGUAGES = ("en", "zh")


def preferred_language(environment: Mapping[str, str]) -> str:
    """`VERL_DOCTOR_LANG` when it is set, else the language of the locale when there are texts for it, else English."""
    for name in ("VERL_DOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = environment.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
