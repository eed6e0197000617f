"""Reads YAML exactly as OmegaConf does, with libyaml where it is there, within limits, and remembers the line of every key."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import yaml

from verl_doctor.errors import BadInput

MAX_BYTES = 5 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 60
"""OmegaConf needs several Python frames a level; verl's own files are 7 deep."""
_MAX_NESTING = 20 * MAX_DEPTH  # what the parsers themselves survive; text inside quotes counts too, hence the distance
_BRACKET = re.compile(r"[\[\]{}]")


class Document:
    """A parsed file: its plain data, and where its keys stand."""

    def __init__(self, data: Any, root: yaml.Node | None) -> None:
        self.data = data
        self._root = root

    def line_of(self, path: tuple[str, ...]) -> int | None:
        """The line (from 1) of the key at this path, None when the file does not set it."""
        node, line = self._root, None
        for part in path:
            if not isinstance(node, yaml.MappingNode):
                return None
            pair = next((pair for pair in node.value if pair[0].value == part), None)
            if pair is None:
                return None
            line, node = pair[0].start_mark.line + 1, pair[1]
        return line

    def leaf_lines(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Every leaf (lists are one) with its line; empty mappings are leaves too."""
        if isinstance(self._root, yaml.MappingNode):
            yield from _leaf_lines(self._root, ())


def _leaf_lines(node: yaml.MappingNode, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    for key, value in node.value:
        below = (*path, str(key.value))
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _leaf_lines(value, below)
        else:
            yield below, key.start_mark.line + 1


def parse_yaml(text: bytes, file: str) -> Document:
    """Parse the text of a file; `file` is how it is called in messages.

    Raises BadInput with the line for text that is not UTF-8, not YAML, has duplicate keys, object tags or recursive aliases,
    or is too large, too deep or too large once its aliases are expanded.
    """
    if len(text) > MAX_BYTES:
        raise BadInput(
            f"{file}: the file is larger than {MAX_BYTES // 2**20} MB; give the job's configuration, not a data file"
        )
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{file}:{line}: the file is not UTF-8 text; save it as UTF-8") from error
    _refuse_depth(decoded, file)
    try:
        return _parse(_loader_class(), decoded, file)
    except yaml.YAMLError as error:
        return _parse_again(decoded, file, error)


def _parse_again(text: str, file: str, error: yaml.YAMLError) -> Document:
    """Libyaml refuses a few things that PyYAML takes, and OmegaConf uses PyYAML: its verdict counts where it is affordable."""
    if len(text) < 200_000:
        try:
            return _parse(_omegaconf_loader(), text, file)
        except yaml.YAMLError as same:
            error = same
    mark = getattr(error, "problem_mark", None)
    place = f"{file}:{mark.line + 1}" if mark else file
    problem = " ".join(str(getattr(error, "problem", None) or error).split())
    if "duplicate key" in problem:
        raise BadInput(f"{place}: {problem}; OmegaConf refuses a key that is set twice: keep one of them") from error
    if "could not determine a constructor" in problem:
        raise BadInput(f"{place}: {problem}; a configuration holds plain values: remove the tag") from error
    raise BadInput(f"{place}: not valid YAML: {problem}; correct this line") from error


def _parse(loader_class: Any, text: str, file: str) -> Document:
    loader = loader_class(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return Document(None, None)
        _count_nodes(root, file)
        return Document(loader.construct_document(root), root)
    except (ValueError, RecursionError, OverflowError) as error:
        raise BadInput(f"{file}: a value cannot be read: {error}; correct it") from error
    finally:
        loader.dispose()


def _refuse_depth(text: str, file: str) -> None:
    """Before any parser recurses: brackets and indentation bound the depth of a document from above."""
    depth = 0
    for number, line in enumerate(text.split("\n"), 1):
        deep = len(line) - len(line.lstrip(" -?")) > _MAX_NESTING
        for bracket in _BRACKET.findall(line):
            depth = depth + 1 if bracket in "[{" else max(depth - 1, 0)
            deep = deep or depth > _MAX_NESTING
        if deep:
            raise BadInput(f"{file}:{number}: the values are nested too deeply; a configuration of verl is 7 levels deep")


def _count_nodes(root: yaml.Node, file: str) -> None:
    """Refuse what grows beyond bounds once every alias is a copy, as it is in OmegaConf."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node, depth: int) -> int:
        line = node.start_mark.line + 1
        if id(node) in open_nodes:
            raise BadInput(f"{file}:{line}: an alias refers to the value that holds it; write the value out")
        if depth > MAX_DEPTH:
            raise BadInput(f"{file}:{line}: the values are nested deeper than {MAX_DEPTH} levels; flatten them")
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in sizes:
            return sizes[id(node)]
        open_nodes.add(id(node))
        total = 1
        for child in node.value:
            parts = child if isinstance(child, tuple) else (child,)
            total += sum(size(part, depth + 1) for part in parts)
            if total > MAX_NODES:
                raise BadInput(f"{file}:{line}: more than {MAX_NODES} values once its aliases are expanded; write less")
        open_nodes.discard(id(node))
        sizes[id(node)] = total
        return total

    size(root, 0)


@functools.cache
def _omegaconf_loader() -> Any:
    from omegaconf._utils import get_yaml_loader

    return get_yaml_loader()


@functools.cache
def _loader_class() -> Any:
    """OmegaConf's own loader with libyaml's parser before PyYAML's: same constructors, resolvers and duplicate-key check."""
    base = _omegaconf_loader()
    if not yaml.__with_libyaml__:
        return base
    parser: Any = yaml.cyaml.CParser  # type: ignore[attr-defined]

    def start(self: Any, stream: str) -> None:
        parser.__init__(self, stream)
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)

    return type("QuickLoader", (parser, base), {"__init__": start})
