"""From the words of a launch command to the verl entry that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from verl_doctor.job import ray_submit
from verl_doctor.job.entries import describe_entry, is_hydra_launch, script_entry, verl_module
from verl_doctor.job.launch import Launch, NotAVerlLaunch, is_assignment, texts
from verl_doctor.job.launchers import BUILTINS, EFFECTS, TAKES_MODULES, unrecognised
from verl_doctor.job.model import UNKNOWN, Argument
from verl_doctor.job.shell_line import NotSimple, split_line
from verl_doctor.job.variables import brief

__all__ = ["Launch", "NotAVerlLaunch", "parse_command"]

_PYTHON = re.compile(r"(python|pypy)[0-9.]*(t|w)?(\.exe)?\Z")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_TORCHRUN = frozenset({"torchrun", "torchrun.exe"})
_TORCHRUN_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_TORCHRUN_FLAGS = frozenset(
    {"--standalone", "--no-python", "--no_python", "--run-path", "--run_path", "--use_env", "--use-env"}
)
_MODULE = ("-m", "--module")
_FLAGS = "bBdEhiIOPqRsSuvVx?"
_MAX_DEPTH = 30
_MAX_PROGRAMS = 12
_MAX_STEPS = 300
_MAX_OPTIONS = 500
_SCRIPT_HINT = "use `verl-doctor check --script FILE` for a launch script"


def parse_command(arguments: list[Argument], directory: str = "") -> Launch:
    """The verl launch that the words of a command start; files that it names are relative to `directory`.

    Raises NotAVerlLaunch when they start something else or when that cannot be told, and BadInput for a runtime_env file of
    `ray job submit` that cannot be read.
    """
    if not arguments:
        raise NotAVerlLaunch("the launch command is empty")
    return _Parser(directory).parse(list(arguments), Launch(), 0)


class _Parser:
    """Goes through the programs of a command, outermost first; each method returns the launch or raises NotAVerlLaunch."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.steps = 0

    def parse(self, words: list[Argument], launch: Launch, depth: int) -> Launch:
        self.steps += 1
        if depth > _MAX_DEPTH or self.steps > _MAX_STEPS:
            raise NotAVerlLaunch("the command names too many programs one in another to tell what it starts")
        if len(words) == 1 and re.search(r"\s", words[0].text.strip()):
            return self._line(words[0], launch, depth)
        if words and words[0].text == "$":  # the prompt of a shell, copied with the command
            words = words[1:]
        words = _take_assignments(words, launch)
        if not words:
            raise NotAVerlLaunch("the command sets variables and starts nothing")
        first, rest = words[0], words[1:]
        if first.text.startswith("-"):
            raise NotAVerlLaunch(f"the command has the option {brief(first.text)} where a program should be")
        name = program_name(first)
        if name == "env":
            return self._env(rest, launch, depth)
        if name == "ray":
            return self._ray(rest, launch, depth)
        if name in _SHELLS:
            return self._shell(first, rest, launch, depth)
        if _is_python(first, rest):
            return self._python(first, rest, launch, depth)
        if name in _TORCHRUN:
            launch.launchers.append(name)
            launch.python = first.text
            return self._torchrun(rest, launch, depth)
        if name.endswith(".py"):
            launch.python = first.text
            return _script(first, rest, launch)
        return self._wrapper(first, rest, launch, depth)

    def _env(self, words: list[Argument], launch: Launch, depth: int) -> Launch:
        launch.launchers.append("env")
        while words and words[0].text.startswith("-"):
            option, words = words[0], words[1:]
            text = option.text
            if text in ("-i", "-", "--ignore-environment"):
                launch.start_over("'env -i' starts with an empty environment")
            elif text in ("-u", "--unset", "-C", "--chdir", "-S", "--split-string") and words:
                value, words = words[0], words[1:]
                words = _env_option(text, value, words, launch)
            elif text.startswith(("--unset=", "--chdir=", "--split-string=")):
                name, _, rest = text.partition("=")
                words = _env_option(name, Argument(rest, option.location, option.unknown), words, launch)
            elif text.startswith("-u") and len(text) > 2:
                launch.remove(text[2:])
            elif text == "--":
                break
        return self.parse(words, launch, depth + 1)

    def _ray(self, words: list[Argument], launch: Launch, depth: int) -> Launch:
        if texts(words[:2]) != ["job", "submit"]:
            raise NotAVerlLaunch(f"the command is {brief(' '.join(['ray', *texts(words[:2])]))}, which starts no training")
        launch.launchers.append("ray job submit")
        entrypoint = ray_submit.read_options(words[2:], launch, self.directory)
        return self.parse(entrypoint, launch, depth + 1)

    def _shell(self, first: Argument, words: list[Argument], launch: Launch, depth: int) -> Launch:
        name = program_name(first)
        for place, word in enumerate(words):
            if place and _takes_value(words[place - 1].text):
                continue
            if not word.text.startswith(("-", "+")):
                raise NotAVerlLaunch(f"the command runs the script {brief(word.text)}: use `verl-doctor check --script` for it")
            if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text:
                launch.launchers.append(name)
                if place + 1 < len(words):
                    return self._line(words[place + 1], launch, depth, name)
        raise NotAVerlLaunch(f"the command starts {name} without a script: {_SCRIPT_HINT}")

    def _line(self, line: Argument, launch: Launch, depth: int, shell: str = "the quoted command") -> Launch:
        """The last launch of verl among the commands of a line, with the exports before it."""
        try:
            commands = split_line(line)
        except NotSimple as error:
            raise NotAVerlLaunch(f"{shell} holds {error}, which only a shell can follow: {_SCRIPT_HINT}") from error
        failure: NotAVerlLaunch | None = None
        for place in range(len(commands) - 1, max(-1, len(commands) - 1 - _MAX_PROGRAMS), -1):
            attempt = launch.copy()
            for command in commands[:place]:
                _follow(command, attempt)
            try:
                return self.parse(commands[place], attempt, depth + 1)
            except NotAVerlLaunch as error:
                if failure is None or _may_launch(commands[place][0]):
                    failure = error
        raise failure or NotAVerlLaunch(f"{shell} is empty")

    def _python(self, first: Argument, words: list[Argument], launch: Launch, depth: int) -> Launch:
        launch.launchers.append(program_name(first))
        launch.python = first.text
        while words and words[0].text.startswith("-") and words[0].text != "-":
            option, words = words[0], words[1:]
            kind, value = _python_option(option.text)
            if kind in ("W", "X", "--check-hash-based-pycs"):
                words = words if value else words[1:]
            elif kind == "m":
                module = Argument(value, option.location, option.unknown) if value else (words or [Argument("")])[0]
                return self._module(module, words if value else words[1:], launch, depth)
            elif kind == "c":
                raise NotAVerlLaunch("the command runs code given with `python -c`, which is not read")
        if not words or words[0].text == "-":
            raise NotAVerlLaunch("the command starts Python without a program")
        return _script(words[0], words[1:], launch)

    def _module(self, module: Argument, words: list[Argument], launch: Launch, depth: int) -> Launch:
        if module.text in _TORCHRUN_MODULES:
            launch.launchers.append(module.text)
            return self._torchrun(words, launch, depth)
        inner = None if verl_module(module.text) else self._inside_module(module, words, launch)
        if inner is not None:
            return inner
        if verl_module(module.text) or is_hydra_launch(words):
            return _entry(module, words, launch)
        raise NotAVerlLaunch(describe_entry(module.text, words))

    def _inside_module(self, module: Argument, words: list[Argument], launch: Launch) -> Launch | None:
        """The verl module that another module starts: `-m cProfile -m verl...`, `-m plugin.launch verl...`."""
        for place, word in enumerate(words[:_MAX_OPTIONS]):
            if not verl_module(word.text):
                continue
            if place == 0 or words[place - 1].text in _MODULE:
                launch.launchers.append(module.text)
                return _entry(word, words[place + 1 :], launch)
        return None

    def _torchrun(self, words: list[Argument], launch: Launch, depth: int) -> Launch:
        as_module = False
        while words and words[0].text.startswith("-"):
            option, words = words[0], words[1:]
            if option.text in _MODULE:
                as_module = True
            elif option.text == "--":
                break
            elif option.text not in _TORCHRUN_FLAGS and "=" not in option.text:
                words = words[1:]
        if not words:
            raise NotAVerlLaunch("the command starts torchrun without a program")
        if as_module:
            return self._module(words[0], words[1:], launch, depth)
        return _script(words[0], words[1:], launch)

    def _wrapper(self, first: Argument, words: list[Argument], launch: Launch, depth: int) -> Launch:
        """A program that starts another: try each word that may be the next program, from the left."""
        name = program_name(first)
        launch.launchers.append(name.replace(UNKNOWN, "?"))
        effect = EFFECTS.get(name, unrecognised)
        failure: NotAVerlLaunch | None = None
        for place, kind in _next_programs(name, words):
            attempt = launch.copy()
            effect(name, words[:place], attempt)
            if kind in ("module", "script"):
                attempt.python = first.text
            try:
                return self._start(kind, words[place:], attempt, depth)
            except NotAVerlLaunch as error:
                failure = failure or error
        raise failure or NotAVerlLaunch(describe_entry(first.text, words))

    def _start(self, kind: str, words: list[Argument], launch: Launch, depth: int) -> Launch:
        if kind == "module":
            return self._module(words[1], words[2:], launch, depth)
        if kind == "script":
            return _script(words[0], words[1:], launch)
        if kind == "line":
            line = re.sub(r"\A-[\w\-]+=", "", words[0].text)
            return self._line(Argument(line, words[0].location, words[0].unknown), launch, depth)
        return self.parse(words, launch, depth + 1)


def program_name(word: Argument) -> str:
    """The name of a program without its folder."""
    return word.text.rstrip("/").rsplit("/", 1)[-1]


def _takes_value(option: str) -> bool:
    """Whether the next word belongs to this option of a shell: `-o pipefail`, `-euo pipefail`, `--rcfile x`."""
    return option in ("--rcfile", "--init-file") or re.match(r"[-+][A-Za-z]*[oO]\Z", option) is not None


def _take_assignments(words: list[Argument], launch: Launch) -> list[Argument]:
    count = 0
    while count < len(words) and is_assignment(words[count]):
        launch.assign(words[count])
        count += 1
    return words[count:]


def _env_option(name: str, value: Argument, words: list[Argument], launch: Launch) -> list[Argument]:
    if name in ("-u", "--unset"):
        launch.remove(value.text)
    elif name in ("-C", "--chdir"):
        launch.change_directory(value.text)
    else:
        try:
            split = split_line(value)
        except NotSimple as error:
            raise NotAVerlLaunch(f"`env {name}` holds {error}: {_SCRIPT_HINT}") from error
        return [*(split[0] if split else []), *words]
    return words


def _is_python(first: Argument, rest: list[Argument]) -> bool:
    """Whether the program is Python; one that is not known (`$PYTHON`) is, when a module of verl is what it gets."""
    if _PYTHON.match(program_name(first)):
        return True
    return UNKNOWN in first.text and len(rest) > 1 and rest[0].text == "-m" and verl_module(rest[1].text)


def _python_option(text: str) -> tuple[str, str]:
    """An option of Python as its kind and the value that is attached to it."""
    if text.startswith("--"):
        name, _, value = text.partition("=")
        return name, value
    for place, letter in enumerate(text[1:], start=1):
        if letter not in _FLAGS:
            return letter, text[place + 1 :]
    return "", ""


def _script(script: Argument, words: list[Argument], launch: Launch) -> Launch:
    module = script_entry(script.text)
    if verl_module(script.text):
        raise NotAVerlLaunch(f"{brief(script.text)} is a module: it is started with -m before it")
    if verl_module(module):
        return _entry(Argument(module, script.location), words, launch)
    if is_hydra_launch(words):
        return _entry(script, words, launch)
    raise NotAVerlLaunch(describe_entry(script.text, words))


def _entry(module: Argument, words: list[Argument], launch: Launch) -> Launch:
    problem = describe_entry(module.text, words, refuse_only=True)
    if UNKNOWN in program_name(module):
        problem = f"which program the command starts is not known: {module.unknown}"
    if problem:
        raise NotAVerlLaunch(problem)
    launch.entry = module.text
    launch.arguments = words
    return launch


def _next_programs(name: str, words: list[Argument]) -> Iterator[tuple[int, str]]:
    """Places of words that may be the program which a wrapper starts, at most `_MAX_PROGRAMS`, and how it would start it."""
    found = 0
    for place, word in enumerate(words[:_MAX_OPTIONS]):
        kind = _kind_of_program(name, words, place)
        if kind:
            found += 1
            yield place, kind
        elif re.search(r"\s", word.text) and "verl" in word.text:
            found += 1
            yield place, "line"
        if found >= _MAX_PROGRAMS:
            return


def _kind_of_program(name: str, words: list[Argument], place: int) -> str:
    word = words[place]
    program = program_name(word)
    if name in TAKES_MODULES:
        if word.text in _MODULE and place + 1 < len(words):
            return "module"
        if word.text.endswith(".py"):
            return "script"
    if place and words[place - 1].text in ("--python", "-p"):
        return ""
    known = _may_launch(word) and program not in BUILTINS
    return "program" if known or _is_python(word, words[place + 1 :]) else ""


def _may_launch(word: Argument) -> bool:
    """Whether the program is one that starts others."""
    program = program_name(word)
    return program in EFFECTS or program in _SHELLS or program in _TORCHRUN or program in ("env", "ray") or _is_python(word, [])


def _follow(command: list[Argument], launch: Launch) -> None:
    """Take what a command before the launch changes for it."""
    words = texts(command)
    if all(is_assignment(word) for word in command):
        for word in command:
            launch.assign(word, unknown="it is set but not exported: it gets to the job only when it was exported before")
    elif words[0] in ("export", "declare", "typeset"):
        for word in command[1:]:
            if is_assignment(word):
                launch.assign(word)
    elif words[0] == "unset":
        for name in words[1:]:
            launch.remove(name)
    elif words[0] == "cd" and len(words) > 1:
        launch.change_directory(words[-1])
    elif words[0] in ("source", ".", "eval", "module", "ml", "conda", "mamba", "micromamba"):
        reason = f"the command runs '{words[0]}' first"
        launch.adds_environment = launch.adds_environment or f"{reason}, which may set it"
        launch.unknown_python = launch.unknown_python or reason
    elif any(program_name(word) in ("pip", "pip3", "uv") for word in command[:3]):
        launch.unknown_python = launch.unknown_python or f"the command runs {brief(' '.join(words[:3]))} first"
