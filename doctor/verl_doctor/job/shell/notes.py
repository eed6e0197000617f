"""What deserves a look in a script although bash accepts it."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from verl_doctor.job.model import Argument
from verl_doctor.job.shell import scan, syntax
from verl_doctor.job.shell.lexer import Token
from verl_doctor.job.shell.patterns import has_magic
from verl_doctor.job.shell.words import Literal, parse_word
from verl_doctor.job.variables import brief
from verl_doctor.secrets import Secret, contains_token, is_sensitive_name, protect

if TYPE_CHECKING:
    from verl_doctor.job.shell.run import Shell
    from verl_doctor.job.shell.unit import Unit

_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_]\w*(?:[./@][\w@/]+)+=")
_EMPTY = re.compile(r"([+~]{0,2}[A-Za-z_][\w.@/]*)=(?:''|\"\")?")
_TRACKING = re.compile(
    r"(WANDB|MLFLOW|SWANLAB)_\w+|TENSORBOARD_DIR|TRACKIO_\w+|VERL_FILE_LOGGER_\w+|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY"
)
_HASH = re.compile(r"(?<![0-9A-Za-z_])[0-9a-f]{40}(?![0-9A-Za-z_])")
_QUOTES = "\u201c\u201d\u201e\u2018\u2019\u300c\u300d\uff02\uff07"
_BLANKS = "\u00a0\u3000\u2007\u202f\u200b\ufeff"
_DASHES = "\u2013\u2014\u2212\uff0d"
_SIGNS = "\uff0c\uff1d\uff3b\uff3d\uff1a\u3010\u3011"
_NAMES = {
    **dict.fromkeys(_QUOTES, "a typographic quote"), **dict.fromkeys(_BLANKS, "a blank that is not a space"),
    **dict.fromkeys(_DASHES, "a typographic dash"), **dict.fromkeys(_SIGNS, "a full-width sign"),
}  # fmt: skip


def looks_like_override(text: str) -> bool:
    """Whether a word has the form of a Hydra override of a nested key."""
    return _OVERRIDE.match(text) is not None


def _short(text: str) -> str:
    """The text, cut, on one line and without credentials."""
    return brief(text)[1:-1]


def note_launch(shell: Shell, statement: syntax.Simple, words: list[Argument]) -> None:
    """The notes about one launch: its words, and what stands after it."""
    if words[0].text != "noglob":
        for token in statement.words:
            _note_word(shell, token)
    for left, right in itertools.pairwise(words):
        _note_split(shell, left, right)
    for word in words:
        _note_empty(shell, word)
    _note_after(shell, statement)


def _note_word(shell: Shell, token: Token) -> None:
    raw, location = shell.raw(token), shell.unit.location(token.start)
    line = str(location.line)
    if not looks_like_override(raw) and not raw.startswith(tuple(_DASHES + _BLANKS + _QUOTES)):
        return
    danger = _glob_danger(shell)
    plain = _unquoted(raw)
    if danger and _OVERRIDE.match(raw) and has_magic([(char, quoted) for char, quoted in plain]):
        shell.note("unquoted-list-glob", {"word": _short(raw), "how": danger, "line": line}, location)
    found = _typographic(raw, plain)
    if found is not None:
        values = {
            "word": _short(raw),
            "character": raw[found],
            "name": _NAMES[raw[found]],
            "line": line,
            "column": str(found + 1),
        }
        shell.note("typographic-character", values, location)


def _unquoted(raw: str) -> list[tuple[str, bool]]:
    """The characters of a raw word with whether they are quoted; what expansions give is left out."""
    chars: list[tuple[str, bool]] = []
    for part in parse_word(raw):
        if isinstance(part, Literal):
            chars += [(char, part.quoted) for char in part.text]
    return chars


def _glob_danger(shell: Shell) -> str:
    """The shell or the option under which an unquoted list is not passed on."""
    options = shell.state.options
    if "zsh" in options and not options & {"nonomatch", "f", "nullglob"}:
        return "zsh"
    if "f" in options:
        return ""
    return next((option for option in ("failglob", "nullglob") if option in shell.state.options), "")


def _typographic(raw: str, plain: list[tuple[str, bool]]) -> int | None:
    """The position of a character that a web page or a word processor put there, None when all is well.

    Inside quotes such characters may be meant (a name in Chinese), unless they stand where a list has its quotes and commas.
    """
    for char, quoted in plain:
        if not quoted and char in _NAMES:
            return raw.index(char)
    value = "".join(char for char, _ in plain).partition("=")[2].strip()
    if value.startswith(("[", "\uff3b", "\u3010")):
        match = re.search(r"[\[,\s]([\u201c\u201d\u2018\u2019])|([\uff0c])\s*['\"\u201c\u2018]", value)
        if match:
            return raw.index(match[1] or match[2])
    return None


def _note_split(shell: Shell, left: Argument, right: Argument) -> None:
    text, following = left.text, right.text
    opened = text.count("[") + text.count("{") - text.count("]") - text.count("}")
    if not (looks_like_override(text) and opened > 0 and re.search(r"[\]}]\s*$", following)) or looks_like_override(following):
        return
    if text.endswith((",", "[", "{")) or following.startswith(","):
        location = left.location or shell.here()
        values = {"word": _short(text), "line": str(location.line)}
        shell.note("override-split", values, location)


def _note_empty(shell: Shell, word: Argument) -> None:
    match = _EMPTY.fullmatch(word.text)
    names = shell.empty_words.get((word.text, str(word.location))) or shell.empty_words.get((word.text, ""))
    if match and names and ("." in match[1] or match[1].isupper() is False):
        location = word.location or shell.here()
        values = {"word": match[1] + "=", "variable": ", ".join(sorted(names)), "line": str(location.line)}
        shell.note("empty-from-unset", values, location)


def _note_after(shell: Shell, statement: syntax.Simple) -> None:
    """Overrides that do not reach the launch: behind a pipe, or after a continuation that ended early."""
    unit = shell.unit
    tokens = unit.tree.lexed.tokens
    place = next(number for number, token in enumerate(tokens) if token.start >= statement.start)
    piped, last = False, tokens[place]
    while place < len(tokens):
        token = tokens[place]
        text = unit.text[token.start : token.end]
        if token.kind == "operator":
            if text in ("|", "|&"):
                piped = True
            else:
                break
        elif piped and token.kind == "word" and looks_like_override(text):
            values = {"word": _short(text), "goes_to": _program(unit, tokens, place), "line": str(unit.line(token.start))}
            shell.note("override-after-pipe", values, unit.location(token.start))
        last = token
        place += 1
    _note_continuation(shell, unit, last, place)


def _program(unit: Unit, tokens: list[Token], place: int) -> str:
    """The command that a word behind a pipe goes to."""
    while place > 0 and tokens[place - 1].kind in ("word", "redirection"):
        place -= 1
    return _short(unit.text[tokens[place].start : tokens[place].end])


def _note_continuation(shell: Shell, unit: Unit, last: Token, place: int) -> None:
    tokens = unit.tree.lexed.tokens
    lost = place + 1 if place < len(tokens) else place
    while lost < len(tokens) and unit.text[tokens[lost].start] == "\n":
        lost += 1
    if lost >= len(tokens) or tokens[lost].kind != "word":
        return
    following = unit.text[tokens[lost].start : tokens[lost].end]
    if not looks_like_override(following):
        return
    between = unit.text[last.end : tokens[lost].start]
    raw = unit.text[last.start : last.end]
    values = {"word": _short(following), "line": str(unit.line(last.start))}
    location = unit.location(tokens[lost].start)
    if re.match(r"(?:[ \t]*\\\n)+[ \t]*#", between):
        comment = last.end + between.index("#")
        values |= {"line": str(unit.line(comment)), "lost": following.partition("=")[0]}
        shell.note("continuation-ended-by-comment", values, unit.location(comment))
    elif re.search(r"(?<!\\)(?:\\\\)*\\[ \t\r\u00a0]$", raw):
        blank = "a carriage return" if raw.endswith("\r") else "a blank"
        shell.note("continuation-ended-by-blank", values | {"blank": blank}, unit.location(last.start))
    elif re.match(r"(?:[ \t]*\\\n)+[ \t]*\n", between):
        shell.note("continuation-ended-by-empty-line", values, location)
    elif "\n" in between:
        shell.note("continuation-missing", values, location)


def note_credential(shell: Shell, name: str, raw: str, position: int) -> None:
    """A credential that stands in the script as it is."""
    if re.search(r"[$`<>]|\A\(", raw) or not raw.strip("'\""):
        return
    try:
        value = "".join(part.text for part in parse_word(raw) if isinstance(part, Literal))
    except scan.Unclosed:
        return
    kept = protect(name, value)
    secret = isinstance(kept, Secret) and not kept.is_placeholder and kept.length >= 8
    if not secret and not is_sensitive_name(name):
        value = _HASH.sub("", value)  # 40 hexadecimal digits are a commit more often than a key
    if secret or contains_token(value) or _has_password(value):
        location = shell.unit.location(position)
        shell.note("plaintext-credential", {"word": name, "line": str(location.line)}, location)


def _has_password(value: str) -> bool:
    match = re.match(r"[A-Za-z][\w+.\-]*://[^/?#@\s:]*:([^/?#@\s]+)@", value)
    return match is not None and not re.fullmatch(r"(?i)(password|passwd|pass|pwd|x+|\*+|your.*)", match[1])


def note_export(shell: Shell, name: str) -> None:
    """Remember a tracking variable that is exported after a launch."""
    if _TRACKING.fullmatch(name) and shell.launches and not shell.in_function:
        location = shell.here()
        earlier = shell.launches[-1].environment.get(name)
        cell = shell.state.variables.get(name)
        same = earlier is not None and cell is not None and cell.inherited is earlier
        if not same:
            shell.late_exports.append((len(shell.launches), shell.others, name, location))


def note_late_exports(shell: Shell) -> None:
    """The exports after which no program is started any more, so that they can only have been meant for the launch."""
    for launches, others, name, location in shell.late_exports:
        if (launches, others) == (len(shell.launches), shell.others):
            shell.note("export-after-launch", {"word": name, "line": str(location.line)}, location)
