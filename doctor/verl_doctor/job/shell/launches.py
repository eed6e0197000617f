"""Which simple commands of a script are launches of verl, and the environment that they get."""

from __future__ import annotations

import re

from verl_doctor.job.entries import is_hydra_launch
from verl_doctor.job.model import Argument, Source, Variable
from verl_doctor.job.shell.parameters import directory_value
from verl_doctor.job.shell.state import State
from verl_doctor.job.variables import make_variable

_MODULE = re.compile(r"(verl|recipe)\.[\w.]+\Z")
_SCRIPT = re.compile(r"(?:.*/)?(main_\w+|\w*sft_trainer)\.py\Z")
_INNER = re.compile(
    r"(^|\s)-m\s+(verl|recipe)\.[\w.]+|(?:^|\s)(?:python[0-9.]*|torchrun)\s(?:\S+\s+)*?(?:\S*/)?(main_\w+|\w*sft_trainer)\.py(\s|$)"
)
_STARTS_PYTHON = re.compile(r"(?:.*/)?(python[0-9.]*|torchrun|uv|accelerate|deepspeed|srun|ray)\Z")
_NO_LAUNCHERS = frozenset((
    "tee", "cat", "grep", "sed", "awk", "ls", "rm", "cp", "mv", "mkdir", "touch", "pip", "pip3", "git", "find", "xargs", "head",
    "tail", "kill", "pkill", "pgrep", "ps", "chmod", "ln", "tar", "curl", "wget", "py.test", "pytest", "vim", "diff", "wc",
))  # fmt: skip


def is_launch(words: list[Argument]) -> bool:
    """Whether the words of a command look like a launch of verl; whether they are one is decided elsewhere."""
    texts = [word.text for word in words]
    if not texts or texts[0].rsplit("/", 1)[-1] in _NO_LAUNCHERS:
        return False
    if any(
        text.rsplit("/", 1)[-1] == "ray" and texts[place + 1 : place + 3] == ["job", "submit"]
        for place, text in enumerate(texts)
    ):
        return True
    for place, text in enumerate(texts):
        if place and texts[place - 1] in ("-m", "--module") and _MODULE.match(text):
            return True
        if " " in text.strip() and _INNER.search(text):
            return True
    starts_python = any(_STARTS_PYTHON.match(text) for text in texts)
    return starts_python and (any(_SCRIPT.match(text) for text in texts) or is_hydra_launch(words))


def exported(state: State) -> dict[str, Variable]:
    """The variables that a command gets."""
    found: dict[str, Variable] = {}
    for name, cell in state.variables.items():
        if not cell.exported or cell.scalar is None:
            continue
        if cell.inherited is not None:
            found[name] = cell.inherited
            continue
        value = cell.scalar
        source = Source("script", "script", cell.location)
        found[name] = make_variable(name, value.text, source, value.unknown)
    if "PWD" in found:
        directory = directory_value(state)
        found["PWD"] = Variable("PWD", directory.text, found["PWD"].source, directory.unknown)
    return found
