"""Credentials that can be reasoned about but not printed.

A value becomes a `Secret` the moment it is captured. What remains visible is what a diagnosis needs: its length, its public
prefix, a short salted fingerprint to compare two places, and a few traits of its shape. The value itself stays in this process
only, outside every object that can be printed or serialised.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

import msgspec

_values: dict[str, str] = {}
_originals: dict[tuple[str, str], str | None] = {}
_salt = os.urandom(16)

_SENSITIVE_NAME = re.compile(
    r"(^|[_.\-])(api[_\-]?keys?|access[_\-]?keys?(_id)?|secret([_\-]?key|_access_key)?s?|token|passwords?|passwd|pwd"
    r"|credentials?|private[_\-]?key)$",
    re.IGNORECASE,
)
_TOKEN_OF_A_TOKENIZER = re.compile(
    r"(^|_)(pad|eos|bos|sep|mask|unk|cls|special|stop|image|video|audio|think|per|next|first|last)_token$", re.IGNORECASE
)
_PLAIN_VALUE = re.compile(r"(true|false|null|none|[+\-]?\d+(\.\d+)?)", re.IGNORECASE)

# Forms that are credentials wherever they stand. Each is long and specific enough not to hit ordinary text.
_TOKEN_FORMS = re.compile(
    r"(?<![A-Za-z0-9_])("
    r"wandb_v\d+_[A-Za-z0-9_]{20,}"
    r"|(?:local|[a-z]{2,10})-[0-9a-f]{40}"
    r"|[0-9a-f]{40}"
    r"|hf_[A-Za-z0-9]{20,}"
    r"|sk-[A-Za-z0-9_\-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{30,}"
    r"|glpat-[A-Za-z0-9_\-]{20,}"
    r"|AKIA[0-9A-Z]{16}"
    r"|dapi[0-9a-f]{32}"
    r"|eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{5,}"
    r")(?![A-Za-z0-9_])"
)
_USERINFO = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)(?P<userinfo>[^/?#@\s'\"]*(?:@(?=[^/?#\s'\"]*@)[^/?#@\s'\"]*)*)@"
)
# A password in which # or / was not escaped: the address is broken, and the password would else be taken for a path.
_UNESCAPED_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)[^/?#@:\[\s'\"]*:(?!\d{1,5}(?:[/?]|$))[^\s'\"]*@")
_BARE_USERINFO = re.compile(r"(?<!\w)(?P<user>[\w.\-]+):[^\s:/@'\"]+@(?=[\w\[])")
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.\-]*)(?P<glue>[\"']?\s*[:=]\s*[\"']?)(?P<value>[^\s\"',;}\]]+)")
_PLACEHOLDER = re.compile(
    r"^(<.*>|\$?\{.*\}|\.{2,}|x{3,}|\*{3,}|.*(your|paste|replace|change)[_\- ]?.*"
    r"|(todo|none|null|secret|key|token|placeholder|dummy|fake|test)|.*你的.*)$",
    re.IGNORECASE,
)


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A captured credential, without its value.

    `body_length` counts the characters after the first dash (all of them when there is none), which is what wandb's own
    validation looks at (wandb 0.31.0, sdk/lib/wbauth/validation.py).
    """

    length: int
    prefix: str = ""
    fingerprint: str = ""
    body_length: int = 0
    word_characters: bool = True
    is_jwt: bool = False
    is_placeholder: bool = False
    has_blank: bool = False
    is_quoted: bool = False

    def reveal(self) -> str | None:
        """The value, for a probe in this process; None when the secret came from a saved report."""
        return _values.get(self.fingerprint)

    def __bool__(self) -> bool:
        return self.length > 0

    def __str__(self) -> str:
        return f"<secret of {self.length} characters>"

    __repr__ = __str__


def capture(value: str) -> Secret:
    """Turn a credential into a `Secret`; the value is kept in this process for `Secret.reveal` and `scrub`."""
    fingerprint = hashlib.blake2b(value.encode("utf-8", "surrogateescape"), key=_salt, digest_size=4).hexdigest()
    if value:
        _values[fingerprint] = value
    prefix, dash, body = value.partition("-")
    body = body if dash else value
    known_prefix = prefix if dash and re.fullmatch(r"[a-z]{2,10}", prefix) else ""
    return Secret(
        length=len(value),
        prefix=known_prefix or ("wandb_v1_" if value.startswith("wandb_v1_") else ""),
        fingerprint=fingerprint,
        body_length=len(body),
        word_characters=re.fullmatch(r"[A-Za-z0-9_\-]+", body) is not None,
        is_jwt=re.fullmatch(r"[\w\-]+\.[\w\-]+\.[\w\-]+", value) is not None,
        is_placeholder=_PLACEHOLDER.match(value.strip()) is not None,
        has_blank=value != value.strip(),
        is_quoted=len(value) > 1 and value[0] == value[-1] and value[0] in "'\"",
    )


def is_sensitive_name(name: str) -> bool:
    """Whether a variable or configuration key of this name holds a credential."""
    last = name.rsplit(".", 1)[-1]
    if name == "PWD":  # every shell sets it: the working directory
        return False
    return _SENSITIVE_NAME.search(last) is not None and _TOKEN_OF_A_TOKENIZER.search(last) is None


def protect(name: str, value: Any) -> Any:
    """The value as it may be kept under this name: a `Secret` when the name says so, else text with credentials scrubbed."""
    if not isinstance(value, str):
        return value
    if value and is_sensitive_name(name) and not _PLAIN_VALUE.fullmatch(value):
        return capture(value)
    kept = scrub(value)
    if kept != value and _originals.setdefault((name, kept), value) != value:
        _originals[name, kept] = None
    return kept


def original(name: str, kept: str) -> str | None:
    """The text that `protect` scrubbed under this name, for a probe in this process, which needs the password in a URL.

    None when it is not known: the text came from a saved report, or two texts of this name look the same without credentials.
    """
    return _originals.get((name, kept), None if "***" in kept else kept)


def contains_token(text: str) -> bool:
    """Whether the text holds something that has the form of a credential, whatever it is called."""
    return _TOKEN_FORMS.search(text) is not None


def scrub(text: str) -> str:
    """The text with every known or recognisable credential replaced by `***`."""
    for value in sorted(_values.values(), key=len, reverse=True):
        if len(value) >= 6 and value in text:
            text = text.replace(value, "***")
    if "://" in text:
        text = _UNESCAPED_USERINFO.sub(r"\g<scheme>***@", text)
        text = _USERINFO.sub(lambda match: match["scheme"] + ("***@" if match["userinfo"] else "@"), text)
    if "@" in text:
        text = _BARE_USERINFO.sub(r"\g<user>:***@", text)
    if "=" in text or ":" in text:
        text = _ASSIGNMENT.sub(_scrub_assignment, text)
    return _TOKEN_FORMS.sub("***", text)


def _scrub_assignment(match: re.Match[str]) -> str:
    plain = match["value"].startswith(("$", "***", "<secret")) or _PLAIN_VALUE.fullmatch(match["value"])
    if plain or not is_sensitive_name(match["name"]) or _is_prose(match):
        return match[0]
    return match["name"] + match["glue"] + "***"


def _is_prose(match: re.Match[str]) -> bool:
    """`SWANLAB_API_KEY: with it …` is a sentence; a credential after a colon has a digit, a quote or many characters."""
    return match["glue"] == ": " and len(match["value"]) < 16 and not any(character.isdigit() for character in match["value"])


def scrub_all(value: Any) -> Any:
    """`scrub` applied to every string in plain data (dicts, lists, strings)."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(key) if isinstance(key, str) else key: scrub_all(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub_all(item) for item in value]
    return value
