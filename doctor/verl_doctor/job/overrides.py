"""The words after the entry module: Hydra's own options taken apart from the overrides, and each override parsed by itself."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from verl_doctor.errors import BadInput
from verl_doctor.job.grammar import explain
from verl_doctor.job.model import UNKNOWN, Argument, ConfigProblem, Source
from verl_doctor.job.refusal import Refusal
from verl_doctor.secrets import scrub

MAX_ARGUMENTS = 5000
MAX_ELEMENTS = 10_000
"""Hydra's parser takes time with the square of a list's length: a second for 5000 elements."""
MAX_CHARACTERS = 2 * 2**20
"""What a Linux kernel takes as arguments of one process by default (ARG_MAX)."""
MAX_DEPTH = 60
"""Hydra's parser and OmegaConf overflow Python's stack soon after that; the deepest key of verl has 7 parts."""

_BRACKET = re.compile(r"[\[\]{}()]")

_TAKE_A_VALUE = {
    "--config-path": "config_path", "-cp": "config_path", "--config-name": "config_name", "-cn": "config_name",
    "--config-dir": "config_dir", "-cd": "config_dir", "--cfg": "", "-c": "", "--package": "", "-p": "",
    "--experimental-rerun": "",
}  # fmt: skip
_FLAGS = {
    "--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun", "-m",
    "--shell-completion", "-sc", "--info", "-i",
}  # fmt: skip


class HydraArguments(msgspec.Struct, kw_only=True):
    """The words of a Hydra program: its overrides, and what its own options say (None: not given).

    `unknown` are the words that may set anything, `given` the words of the options by what they set.
    """

    overrides: list[Argument] = msgspec.field(default_factory=list)
    unknown: list[Argument] = msgspec.field(default_factory=list)
    config_path: str | None = None
    config_name: str | None = None
    config_dir: str | None = None
    multirun: bool = False
    problems: list[ConfigProblem] = msgspec.field(default_factory=list)
    given: dict[str, Argument] = msgspec.field(default_factory=dict)


class Given:
    """An override that Hydra can parse, with the argument that it was."""

    def __init__(self, argument: Argument, override: Any) -> None:
        self.argument = argument
        self.override = override
        self.source = override_source(argument)

    @property
    def text(self) -> str:
        """The override as it was given."""
        return self.argument.text

    @property
    def unknown(self) -> str:
        """Why its value is unknown, empty when it is known."""
        return self.argument.unknown or ("a part of it is known only when the job runs" if UNKNOWN in self.text else "")

    @property
    def key(self) -> str:
        """The key or group, without `+`, `~` and package."""
        return str(self.override.key_or_group)


def override_source(argument: Argument) -> Source:
    """The source of what an argument sets."""
    return Source("override", "override", argument.location)


def refuse_excess(arguments: list[Argument]) -> None:
    """Raises BadInput for more words than a launch of verl can have; the longest known launch has 160."""
    if len(arguments) > MAX_ARGUMENTS:
        raise BadInput(f"{len(arguments)} arguments were given, more than {MAX_ARGUMENTS}; put the settings into a YAML file")
    if sum(argument.text.count(",") for argument in arguments) > MAX_ELEMENTS:
        raise BadInput(f"the overrides hold lists of more than {MAX_ELEMENTS} elements; put the settings into a YAML file")
    if sum(len(argument.text) for argument in arguments) > MAX_CHARACTERS:
        raise BadInput(
            "the arguments are longer than 2 MB, more than a process can be given; put the settings into a YAML file"
        )


def split_hydra_arguments(arguments: list[Argument]) -> HydraArguments:
    """Take Hydra's own options out of the words of a Hydra program, with the verdict of Hydra's own command line.

    (hydra-core 1.3, _internal/utils.py, get_args_parser; argparse accepts unambiguous beginnings of the long options.)
    """
    arguments = [_printable(argument) for argument in arguments]
    result = HydraArguments()
    if not any(argument.text.startswith("-") for argument in arguments):
        result.overrides = arguments
    else:
        _split(arguments, result)
        if not result.problems:
            _ask_hydra(arguments, result)
    result.unknown = [argument for argument in result.overrides if _key_is_unknown(argument)]
    result.overrides = [argument for argument in result.overrides if not _key_is_unknown(argument)]
    return result


def _split(arguments: list[Argument], result: HydraArguments) -> None:
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument.text == "--":
            result.overrides += rest
            return
        if not argument.text.startswith("-") or argument.text == "-":
            result.overrides.append(argument)
            continue
        name, equals, value = argument.text.partition("=")
        option = _full_option(name)
        if option in _FLAGS and not equals:
            result.multirun = result.multirun or option in {"--multirun", "-m"}
            continue
        if option not in _TAKE_A_VALUE or (not equals and not rest):
            result.problems.append(_unknown_option(argument, option))
            if not equals and rest and "=" not in rest[0].text and not rest[0].text.startswith("-"):
                rest.pop(0)  # most likely the value of the option
            continue
        if not equals:
            value = rest.pop(0).text
        _take(result, _TAKE_A_VALUE[option], value, argument)


def _take(result: HydraArguments, field: str, value: str, argument: Argument) -> None:
    if field:
        setattr(result, field, value)
        result.given[field] = argument


def _full_option(name: str) -> str:
    """The option that argparse takes a beginning for, or the name itself."""
    if not name.startswith("--") or name in _TAKE_A_VALUE or name in _FLAGS:
        return name
    matches = [option for option in (*_TAKE_A_VALUE, *_FLAGS) if option.startswith(name)]
    return matches[0] if len(matches) == 1 else name


def _unknown_option(argument: Argument, option: str) -> ConfigProblem:
    text = argument.text
    corrected = None
    if option in _TAKE_A_VALUE:
        reason = f"'{option}' needs a value"
    elif "--config-name".startswith(option):
        reason = f"'{option}' could mean --config-path, --config-name or --config-dir; Hydra takes no file this way"
    else:
        reason = f"Hydra has no option '{scrub(option)}'; an override is written key=value, without dashes"
        plain = text.lstrip("-")
        if "." in option and "=" in plain and not _refuses(plain):
            corrected = scrub(plain)
    return ConfigProblem(
        kind="unknown-option",
        override=scrub(text),
        key=scrub(option),
        reason=reason,
        source=override_source(argument),
        corrected=corrected,
    )


class _CommandLineError(Exception):
    pass


def _ask_hydra(arguments: list[Argument], result: HydraArguments) -> None:
    """What Hydra's argparse refuses beyond unknown options: overrides on both sides of an option, values out of a choice."""
    from hydra._internal.utils import get_args_parser

    if any(_full_option(argument.text) in {"--version", "--help", "-h"} for argument in arguments):
        return

    def refuse(message: str) -> None:
        raise _CommandLineError(message)

    parser = get_args_parser()
    parser.error = refuse
    texts = [argument.text for argument in arguments if not _key_is_unknown(argument)]
    try:
        parser.parse_args(texts)
    except _CommandLineError as error:
        strays = str(error).removeprefix("unrecognized arguments: ")
        behind = strays != str(error)
        stray = next((item for item in arguments if behind and strays.startswith(item.text)), arguments[0])
        reason = "one of Hydra's own options stands before it, behind other overrides; put the options before all overrides"
        result.problems.append(
            ConfigProblem(
                kind="unknown-option",
                override=scrub(stray.text),
                key=scrub(stray.text.partition("=")[0]),
                reason=reason if behind else scrub(str(error)),
                source=override_source(stray),
            )
        )


def _key_is_unknown(argument: Argument) -> bool:
    return UNKNOWN in argument.text.partition("=")[0]


def _printable(argument: Argument) -> Argument:
    """Bytes that are not UTF-8 come as lone surrogates, which no output can hold."""
    try:
        argument.text.encode()
    except UnicodeEncodeError:
        text = argument.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return msgspec.structs.replace(argument, text=text)
    return argument


@functools.cache
def _parser() -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def _refuses(text: str) -> str:
    """Why Hydra's grammar refuses an override, empty when it does not."""
    from hydra.errors import HydraException

    try:
        _parser().parse_override(text)
    except HydraException as error:
        return str(error) or "not an override"
    except RecursionError:
        return "nested too deeply"
    return ""


def parse_override(argument: Argument, *, advise: bool = True) -> Given | Refusal:
    """Parse one override with Hydra's grammar; `advise`: look for what may have been meant when it is refused.

    Where a part of the value is unknown, a stand-in is parsed and the whole value becomes unknown: what surrounds the part
    cannot be judged without it.
    """
    from hydra.errors import HydraException

    text = argument.text
    if _depth(text) > MAX_DEPTH:
        reason = f"it is nested deeper than {MAX_DEPTH} levels"
        return Refusal(kind="other", argument=argument, key=text.partition("=")[0][:80], reason=reason)
    unknown = UNKNOWN in text
    if unknown:
        text = text.partition("=")[0] + "=unknown"
    try:
        override = _parser().parse_override(text)
    except (HydraException, RecursionError) as error:
        return explain(argument, text, error, _refuses if advise else None)
    if not override.key_or_group:
        return Refusal(
            kind="grammar", argument=argument, key="", reason="there is no key before '='", column=1, character=text[:1]
        )
    if unknown:
        _make_unknown(override)
    return Given(argument, override)


def _depth(text: str) -> int:
    key, _, value = text.partition("=")
    deepest = depth = 0
    for bracket in _BRACKET.findall(value):
        depth += 1 if bracket in "[{(" else -1
        deepest = max(deepest, depth)
    return max(key.count("."), deepest)


def _make_unknown(override: Any) -> None:
    """Give it a value that marks itself and whatever is interpolated from it; adding it to what exists may be a legal merge."""
    from hydra.core.override_parser.types import OverrideType

    override._value = None if override.is_delete() else f"{UNKNOWN}{override.key_or_group}{UNKNOWN}"
    if override.is_add():
        override.type = OverrideType.FORCE_ADD
