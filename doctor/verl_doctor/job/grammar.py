"""Why Hydra's grammar refuses an override: the character, its column, and forms that may have been meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

from verl_doctor.job.model import Argument
from verl_doctor.job.refusal import Refusal

# What editors, chats and web pages put in the place of ASCII characters.
_LOOK_ALIKES = str.maketrans(
    {
        "“": '"', "”": '"', "„": '"', "‟": '"', "«": '"', "»": '"', "＂": '"', "″": '"', "「": '"', "」": '"',
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "＇": "'", "′": "'", "`": "'",
        "，": ",", "、": ",", "［": "[", "］": "]", "【": "[", "】": "]", "｛": "{", "｝": "}", "（": "(", "）": ")",
        "：": ":", "＝": "=", "．": ".", "。": ".", "＋": "+", "－": "-", "–": "-", "—": "-", "−": "-", "～": "~",
        "\u00a0": " ", "\u3000": " ", "\u2009": " ", "\u202f": " ", "\u200b": "", "\u200c": "", "\u200d": "", "\ufeff": "",
        "\r": "",
    }
)  # fmt: skip
_NAMES = {
    "\n": "a line break", "\r": "a carriage return", "\u00a0": "a no-break space", "\u3000": "a full-width space",
    "\u200b": "an invisible zero-width space", "\ufeff": "an invisible byte order mark", "\ufffd": "bytes that are not UTF-8",
}  # fmt: skip
_MAX_CORRECTED = 2000
"""Characters up to which a correction is worth looking for."""
_CLOSING = {"[": "]", "{": "}", "(": ")"}


def explain(argument: Argument, text: str, error: Exception, refuses: Callable[[str], str] | None) -> Refusal:
    """Describe why `text` was refused; `refuses` is Hydra's grammar, asked about possible corrections if it is given."""
    key = text.partition("=")[0].strip("+~ ")
    if isinstance(error, RecursionError):
        return Refusal(kind="grammar", argument=argument, key=key, reason="the value is nested too deeply")
    column, reason = _place_and_reason(text, error)
    character = text[column - 1] if column is not None and column <= len(text) else ""
    candidates: list[str] = []
    if refuses and len(text) <= _MAX_CORRECTED:
        candidates = [form for form in _forms(text) if form != text and not refuses(form)]
    return Refusal(
        kind="grammar",
        argument=argument,
        key=key,
        reason=reason,
        column=column if character else None,
        character=character,
        candidates=candidates,
    )


def _place_and_reason(text: str, error: Exception) -> tuple[int | None, str]:
    start = text.find("=") + 1
    value = text[start:]
    if not start:
        return _without_equals(text)
    place = _error_index(text, error)
    if "Unknown function" in str(error) or "while evaluating" in str(error):
        place = text.index("(", start)
        return place + 1, f"'(' makes Hydra call a function: {_first_line(error)}; a text that holds '(' must be quoted"
    if place is not None and place < start - 1:
        return place + 1, f"{describe(text[place])} cannot stand in a key"
    unclosed = _unclosed(value)
    at_the_unclosed = unclosed is not None and (value[unclosed] in "'\"" or place == start + unclosed)
    if place is None or place >= len(text) or at_the_unclosed:
        if unclosed is not None:
            what = "quote" if value[unclosed] in "'\"" else "bracket"
            return start + unclosed + 1, f"the {what} '{value[unclosed]}' is not closed"
        return None, f"the value is not complete: {_first_line(error)}"
    return place + 1, _why(text[place], value)


def _without_equals(text: str) -> tuple[int | None, str]:
    if not text.strip():
        return None, "it is blank: often a backslash with a space behind it, which does not continue the line"
    for place, character in enumerate(text):
        if character == "＝":
            return place + 1, "the full-width '＝' is not an equals sign"
    if any(character in text for character in "[]\"',"):
        return None, "it has no '=': it looks like part of a value that the shell split at a space; quote the whole override"
    return None, "it has no '=': an override is written key=value"


def _error_index(text: str, error: Exception) -> int | None:
    """The index of the first character that the lexer or the parser could not use, None when Hydra does not say."""
    cause: Any = error.__cause__
    if cause is None:
        return _located(text)
    if hasattr(cause, "startIndex") and getattr(cause, "offendingToken", None) is None:
        return int(cause.startIndex)
    token = getattr(cause, "offendingToken", None)
    if token is None:
        return None
    return len(text) if token.type == -1 else int(token.start)


def _located(text: str) -> int | None:
    """Parse again with a listener that keeps the place: ANTLR reports a surplus or missing token without an exception."""
    from antlr4.error.ErrorListener import ErrorListener
    from hydra.core.override_parser.overrides_parser import CommonTokenStream, InputStream, OverrideLexer, OverrideParser

    places: list[int] = []

    class Listener(ErrorListener):  # type: ignore[misc]
        def syntaxError(self, recognizer: Any, symbol: Any, *rest: Any) -> None:  # noqa: ARG002, N802 - ANTLR's name
            places.append(len(text) if symbol is None or symbol.type == -1 else symbol.start)

    lexer = OverrideLexer(InputStream(text))
    lexer.removeErrorListeners()
    parser = OverrideParser(CommonTokenStream(lexer))
    parser.removeErrorListeners()
    parser.addErrorListener(Listener())
    parser.override()
    return places[0] if places else None


def _unclosed(value: str) -> int | None:
    """The index of the quote or bracket that is not closed, None when all are."""
    open_at: list[int] = []
    quote: int | None = None
    for place, character in enumerate(value):
        escaped = place > 0 and value[place - 1] == "\\"
        if quote is not None:
            quote = None if character == value[quote] and not escaped else quote
        elif character in "'\"" and not escaped:
            quote = place
        elif character in _CLOSING and not escaped:
            open_at.append(place)
        elif open_at and character == _CLOSING[value[open_at[-1]]]:
            open_at.pop()
    return quote if quote is not None else (open_at[-1] if open_at else None)


def _why(character: str, value: str) -> str:
    named = describe(character)
    if character in "]})" and _CLOSING.get(value[:1]) != character:
        return f"{named} closes nothing; a text that holds it must be quoted"
    if ord(character) in _LOOK_ALIKES:
        ascii_form = character.translate(_LOOK_ALIKES)
        instead = f"; ASCII has {ascii_form!r}" if ascii_form.strip() and ascii_form != character else ""
        return f"{named} is not a character of Hydra's grammar{instead}"
    if value.lstrip()[:1] in {"[", "{"}:
        return f"{named} cannot stand here; quote the element of the list or mapping that holds it"
    return f"{named} cannot stand in an unquoted value"


def describe(character: str) -> str:
    """The character as a person reads it: itself in quotes, or what it is when it cannot be seen."""
    if character in _NAMES:
        return _NAMES[character]
    if unicodedata.category(character)[0] in "CZ" and character != " ":
        return f"the invisible character U+{ord(character):04X}"
    return f"'{character}'"


def _first_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error).splitlines()[0] if str(error) else "it ends too early")


def _forms(text: str) -> list[str]:
    """What may have been meant, likeliest first."""
    ascii_text = text.translate(_LOOK_ALIKES)
    key, equals, value = (ascii_text if "=" not in text else text).partition("=")
    key = key.translate(_LOOK_ALIKES).strip().replace(" ", "")
    if not equals:
        return []
    value = value.strip()
    forms = [f"{key}={value}", f"{key}={value.translate(_LOOK_ALIKES).strip()}"]
    if not value.startswith(("[", "{")):
        if "${" in value and "}" not in value:
            forms.append(f"{key}={value}}}")
        return [*forms, f"{key}={_quoted(_without_quotes(value))}", f"{key}={_quoted(value)}"]
    plain = value.translate(_LOOK_ALIKES).strip()
    if plain.endswith(","):  # the rest is another word of the command: no form of this one alone is right
        return []
    open_at = _unclosed(plain)
    if open_at is not None and plain[open_at] in _CLOSING:
        forms.append(f"{key}={plain}{_CLOSING[plain[open_at]]}")
    inner = plain[1:].removesuffix("]")
    if plain.startswith("[") and not re.search(r"[\[\]{}]", inner):
        elements = re.split(r"\s*,\s*", inner.strip())
        forms.append(f"{key}=[{','.join(_quoted(_without_quotes(element)) for element in elements)}]")
    return [*forms, f"{key}={_quoted(value)}"]


def _without_quotes(text: str) -> str:
    return text.strip().strip("'\"") if text.strip()[:1] in {"'", '"'} else text.strip()


def _quoted(text: str) -> str:
    from hydra.core.override_parser.types import Quote, QuotedString

    return str(QuotedString(text=text, quote=Quote.double).with_quotes())
