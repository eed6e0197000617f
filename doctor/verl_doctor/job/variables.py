"""Making `Variable`s out of text, and reading them from a dotenv file, from NAME=VALUE words and from this shell."""

from __future__ import annotations

import os
import re
from typing import Any

from verl_doctor.errors import BadInput
from verl_doctor.job.model import UNKNOWN, Source, Variable
from verl_doctor.report import Location
from verl_doctor.secrets import protect, scrub

MAX_FILE_BYTES = 1_000_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REFERENCE = re.compile(r"\$\{?[A-Za-z_]")
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z')
_SINGLE_QUOTED = re.compile(r"'([^']*)'\s*(?:#.*)?\Z")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def make_variable(name: str, value: str, source: Source, unknown: str = "") -> Variable:
    """A variable as it may be kept: a `Secret` when the name says so, else scrubbed text without undecodable bytes."""
    kept: Any = protect(name, value)
    if isinstance(kept, str):
        kept = printable(kept)
    return Variable(name, kept, source, unknown)


def printable(text: str) -> str:
    """The text with undecodable bytes (lone surrogates) replaced, so that it can be printed and encoded."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def brief(text: str, limit: int = 80) -> str:
    """The text in quotes, cut to `limit` characters and without credentials, for a message of one line.

    Of a long path the end is kept, which tells more.
    """
    is_path = "/" in text and " " not in text and "=" not in text
    part = text[-4 * limit :] if is_path else text[: 4 * limit]
    shown = printable(scrub(part).replace("\n", " ").replace(UNKNOWN, "?"))
    if len(shown) <= limit:
        return f"'{shown}'"
    return f"'...{shown[-limit:]}'" if is_path else f"'{shown[:limit]}...'"


def shell_environment() -> dict[str, Variable]:
    """The variables of this process, which are those of the shell that started it."""
    source = Source("shell", "environment")
    return {name: make_variable(name, value, source) for name, value in os.environ.items()}


def read_assignment(text: str) -> Variable:
    """The variable of a NAME=VALUE word of `--env`; raises BadInput when it has another form."""
    name, equals, value = text.partition("=")
    if not equals or not _NAME.match(name):
        raise BadInput(f"--env {brief(name)}: expected NAME=VALUE")
    return make_variable(name, value, Source("option", "--env"))


def read_text(path: str, what: str) -> str:
    """The text of a small UTF-8 file; raises BadInput that says what the file was to be."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{what} {brief(path)} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_FILE_BYTES:
        raise BadInput(f"{what} {brief(path)} is larger than {MAX_FILE_BYTES // 1_000_000} MB: is it the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{what} {brief(path)}, line {line}: not UTF-8; save the file as UTF-8") from error


def read_env_file(path: str) -> list[Variable]:
    """The variables of a dotenv file: NAME=VALUE lines, `export` before them, quotes, comments.

    Values that refer to other variables are kept as unknown. Raises BadInput that names the file and the line.
    """
    variables: list[Variable] = []
    for number, line in enumerate(read_text(path, "the env file").splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            variables.append(_read_line(text, path, number))
    return variables


def _read_line(text: str, path: str, number: int) -> Variable:
    name, equals, rest = re.sub(r"\Aexport\s+", "", text).partition("=")
    name, rest = name.strip(), rest.strip()
    if not equals or not _NAME.match(name):
        raise BadInput(f"the env file {brief(path)}, line {number}: expected NAME=VALUE, found {brief(name, 30)}")
    value, literal = _unquote(rest, path, number)
    source = Source("env-file", "--env-file", Location(path, number))
    unknown = "it refers to another variable" if not literal and _REFERENCE.search(value) else ""
    return make_variable(name, value, source, unknown)


def _unquote(text: str, path: str, number: int) -> tuple[str, bool]:
    """The value of the right-hand side, and whether it is literal (single-quoted)."""
    if text.startswith("'"):
        single = _SINGLE_QUOTED.match(text)
        if single:
            return single[1], True
    elif text.startswith('"'):
        double = _DOUBLE_QUOTED.match(text)
        if double:
            return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), double[1]), False
    else:
        return re.split(r"\s+#", text, maxsplit=1)[0].rstrip() if not text.startswith("#") else "", False
    raise BadInput(f"the env file {brief(path)}, line {number}: the quote is not closed on the same line")
