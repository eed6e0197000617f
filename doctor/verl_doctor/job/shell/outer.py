"""Shell inside other files: blocks of SkyPilot, Kubernetes, Ray and dstack YAML, and fenced code of Markdown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from verl_doctor.errors import BadInput
from verl_doctor.job.model import UNKNOWN, Source, Variable
from verl_doctor.job.shell.unit import Unit
from verl_doctor.job.variables import brief, make_variable
from verl_doctor.report import Location

YAML_SUFFIXES = (".yaml", ".yml")
MARKDOWN_SUFFIXES = (".md", ".markdown")

_MAX_NODES = 50_000
_SHELL_KEYS = frozenset({"run", "setup", "entrypoint", "script", "command", "commands", "args"})
_RUNS_TEXT = re.compile(r"(?:.*/)?(ba|z|da|k)?sh")
_FENCE = re.compile(r"[ \t]*(?:>[ \t]*)?(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n`]*")
_SHELL_FENCES = frozenset({"", "bash", "sh", "shell", "zsh", "console", "shell-session", "terminal"})
_PROMPT = re.compile(r"([ \t]*)(\$|%|\w*@[\w.-]*[:~/\w.-]*[$#]) ")


@dataclass
class Block:
    """A shell of its own: texts that it reads one after the other, and the variables that the file sets for it.

    `elsewhere`: it runs on a machine that has nothing of the present environment.
    """

    units: list[Unit]
    variables: dict[str, Variable] = field(default_factory=dict)
    elsewhere: bool = False


def yaml_blocks(text: str, file: str) -> list[Block]:
    """The blocks of shell of a YAML file. Raises BadInput for what is no YAML."""
    if text.count("[") + text.count("{") > 5000:
        raise BadInput(f"{brief(file)}: too many brackets for a job file; give the launch script")
    blocks: list[Block] = []
    whole = Unit("", file=file)
    try:
        for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if isinstance(document, yaml.MappingNode):
                reader = _YamlReader(text.split("\n"), file, whole)
                blocks += reader.blocks(document, _sky_variables(document, file))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise BadInput(f"{brief(file)}{line}: not valid YAML; give a shell script or a file that parses") from error
    except RecursionError as error:
        raise BadInput(f"{brief(file)}: nested too deep for a job file") from error
    return blocks


class _YamlReader:
    def __init__(self, lines: list[str], file: str, whole: Unit) -> None:
        self.lines = lines
        self.file = file
        self.whole = whole
        self.seen: set[int] = set()

    def blocks(self, node: yaml.Node, variables: dict[str, Variable]) -> list[Block]:
        """The blocks below a node, which an alias may name again."""
        if id(node) in self.seen or len(self.seen) > _MAX_NODES:
            return []
        self.seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            return [block for item in node.value for block in self.blocks(item, variables)]
        if not isinstance(node, yaml.MappingNode):
            return []
        variables = variables | _container_variables(node, self.file)
        found: list[Block] = []
        command: list[yaml.Node] = []
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name in ("command", "args") and isinstance(value, yaml.SequenceNode):
                command += value.value
            elif name == "commands" and isinstance(value, yaml.SequenceNode):
                found.append(
                    Block(
                        [self.unit(item) for item in value.value if isinstance(item, yaml.ScalarNode)],
                        variables,
                        elsewhere=True,
                    )
                )
            elif name in _SHELL_KEYS and isinstance(value, yaml.ScalarNode):
                found.append(Block([self.unit(value)], variables, elsewhere=True))
            else:
                found += self.blocks(value, variables)
        unit = self._command(command)
        return [*found, Block([unit], variables, elsewhere=True)] if unit else found

    def _command(self, nodes: list[yaml.Node]) -> Unit | None:
        """A container's `command` and `args`: words, or a shell with a text."""
        words = [node for node in nodes if isinstance(node, yaml.ScalarNode)]
        if not words:
            return None
        if _RUNS_TEXT.fullmatch(words[0].value):
            text = next((node for node in words[1:] if not node.value.startswith("-")), None)
            return self.unit(text) if text is not None else None
        return self._made(shlex.join(node.value for node in words), words[0])

    def unit(self, node: yaml.ScalarNode) -> Unit:
        """The text of a scalar, with its place in the file."""
        line = node.start_mark.line + 1
        if node.style != "|":
            return self._made(node.value, node)
        indent = next((len(text) - len(text.lstrip(" ")) for text in self.lines[line:] if text.strip()), 0)
        return Unit(node.value, file=self.file, first_line=line + 1, indent=indent)

    def _made(self, text: str, node: yaml.Node) -> Unit:
        """A text that is not in the file as it is: all of it is where the node is."""
        place = Unit("", file=self.file, first_line=node.start_mark.line + 1, indent=node.start_mark.column)
        return Unit(text, outer=place)


def _pairs(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, value


def _variable(name: str, node: yaml.Node, file: str, what: str) -> Variable:
    source = Source("script", what, Location(file, node.start_mark.line + 1, node.start_mark.column + 1))
    absent = not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null"
    if absent:
        return Variable(name, UNKNOWN, source, f"{what} gives {name} no value here")
    return make_variable(name, node.value, source)


def _sky_variables(document: yaml.MappingNode, file: str) -> dict[str, Variable]:
    """`envs:` and `secrets:` of SkyPilot, `env:` of dstack."""
    found: dict[str, Variable] = {}
    for key, node in _pairs(document):
        if key in ("envs", "secrets", "env"):
            found |= {name: _variable(name, value, file, key) for name, value in _pairs(node)}
        if key == "env" and isinstance(node, yaml.SequenceNode):
            found |= _listed_variables(node, file)
    return found


def _listed_variables(node: yaml.SequenceNode, file: str) -> dict[str, Variable]:
    """`- NAME=value`; `- NAME` takes the value from the shell that submits."""
    found: dict[str, Variable] = {}
    for item in node.value:
        name, equals, value = str(item.value).partition("=") if isinstance(item, yaml.ScalarNode) else ("", "", "")
        if equals and re.fullmatch(r"\w+", name):
            source = Source("script", "env", Location(file, item.start_mark.line + 1, item.start_mark.column + 1))
            found[name] = make_variable(name, value, source)
    return found


def _container_variables(node: yaml.MappingNode, file: str) -> dict[str, Variable]:
    """`env: [{name:, value:}]` of a container."""
    found: dict[str, Variable] = {}
    for key, value in _pairs(node):
        if key != "env" or not isinstance(value, yaml.SequenceNode):
            continue
        for item in value.value:
            entry = dict(_pairs(item))
            name = entry.get("name")
            if isinstance(name, yaml.ScalarNode):
                found[name.value] = _variable(name.value, entry.get("value", item), file, "env")
    return found


def markdown_blocks(text: str, file: str) -> list[Block]:
    """The fenced blocks of shell of a Markdown file. A prompt before a command is left out, and so is the output after it."""
    blocks: list[Block] = []
    lines = text.split("\n")
    place = 0
    while place < len(lines):
        opening = _FENCE.match(lines[place])
        place += 1
        if opening is None:
            continue
        start = place
        closing = re.compile(rf"[ \t]*(?:>[ \t]*)?{re.escape(opening[1])}")
        while place < len(lines) and not closing.match(lines[place]):
            place += 1
        if opening[2].lower() in _SHELL_FENCES:
            inner = "\n".join(_without_prompts(lines[start:place]))
            blocks.append(Block([Unit(inner + "\n", file=file, first_line=start + 1)]))
        place += 1
    return blocks


def _without_prompts(lines: list[str]) -> list[str]:
    """The commands alone, at the same columns."""
    if not any(_PROMPT.match(line) for line in lines):
        return lines
    kept: list[str] = []
    continues = False
    for line in lines:
        prompt = _PROMPT.match(line)
        if prompt:
            kept.append(" " * prompt.end() + line[prompt.end() :])
        elif continues:
            kept.append(re.sub(r"\A([ \t]*)>(?= )", r"\1 ", line))
        else:
            kept.append("")
        continues = kept[-1].rstrip(" ").endswith("\\")
    return kept
