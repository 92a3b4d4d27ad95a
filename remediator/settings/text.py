"""YAML as people write it by hand: no key twice, no deeper and no longer than any real file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml

from remediator.settings.problems import Path

DEEPEST = 20
MOST_BYTES = 1024 * 1024
MOST_ENTRIES = 20_000


class Place(NamedTuple):
    """Where an entry begins and where its value does, lines and columns from 1; `style` is how the value is
    written (None: plain, `|`, `>`, or a quote).
    """

    line: int
    column: int
    value_line: int
    value_column: int
    style: str | None


def read(path: FilePath) -> bytes:
    """The file's bytes; OSError as ever, ValueError when it is longer than any file of this kind."""
    with path.open("rb") as file:
        found = file.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise ValueError(f"is longer than {MOST_BYTES} bytes")
    return found


def parse(text: bytes) -> tuple[Any, dict[Path, Place]]:
    """What stands there (None when nothing does) and the place of each entry; ValueError in one sentence,
    with its line where that is known.
    """
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None, {}
        places = dict(_counted(root))
        return loader.construct_document(root), places
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise NotYaml(str(error.problem), *((mark.line + 1, mark.column + 1) if mark else ())) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotYaml(type(error).__name__) from None


class NotYaml(ValueError):
    """A text that is no YAML a person meant: what is wrong, and where if that is known."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(f"not valid YAML ({problem})")
        self.line = line
        self.column = column


def _counted(root: yaml.Node) -> Iterator[tuple[Path, Place]]:
    """The places, as long as they are few: aliases of aliases make millions of entries out of ten lines."""
    places = _places(root)
    yield from islice(places, MOST_ENTRIES)
    if next(places, None) is not None:
        raise yaml.MarkedYAMLError(problem="too many entries", problem_mark=root.start_mark)


def _places(node: yaml.Node, path: Path = ()) -> Iterator[tuple[Path, Place]]:
    """Every path below `node` with its place; a key that stands twice or is not text is an error."""
    if len(path) > DEEPEST:
        raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=node.start_mark)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = _key(key, seen)
            yield (*path, name), _place(key, value)
            yield from _places(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), _place(value, value)
            yield from _places(value, (*path, index))


def _place(entry: yaml.Node, value: yaml.Node) -> Place:
    begins, there = entry.start_mark, value.start_mark
    style = value.style if isinstance(value, yaml.ScalarNode) else None
    return Place(begins.line + 1, begins.column + 1, there.line + 1, there.column + 1, style)


def _key(node: yaml.Node, seen: set[str]) -> str:
    if node.tag != "tag:yaml.org,2002:str":
        raise yaml.MarkedYAMLError(
            problem="a key must be text; put it in quotes", problem_mark=node.start_mark
        )
    name = str(node.value)
    if name in seen:
        raise yaml.MarkedYAMLError(problem=f"the key {name:.60} stands twice", problem_mark=node.start_mark)
    seen.add(name)
    return name
