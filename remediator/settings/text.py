"""YAML as people write it by hand: no key twice, no deeper and no longer than any real file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

import yaml

from remediator.settings.problems import Path

DEEPEST = 20
MOST_BYTES = 1024 * 1024
MOST_ENTRIES = 20_000


def read(path: FilePath) -> bytes:
    """The file's bytes; OSError as ever, ValueError when it is longer than any file of this kind."""
    with path.open("rb") as file:
        found = file.read(MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise ValueError(f"is longer than {MOST_BYTES} bytes")
    return found


def parse(text: bytes) -> tuple[Any, dict[Path, int]]:
    """What stands there (None when nothing does) and the line of each entry; ValueError in one sentence,
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
        raise NotYaml(
            str(error.problem), error.problem_mark.line + 1 if error.problem_mark else None
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotYaml(type(error).__name__, None) from None


class NotYaml(ValueError):
    """A text that is no YAML a person meant: what is wrong, and in which line if that is known."""

    def __init__(self, problem: str, line: int | None) -> None:
        super().__init__(f"not valid YAML ({problem})")
        self.line = line


def _counted(root: yaml.Node) -> Iterator[tuple[Path, int]]:
    """The lines, as long as they are few: aliases of aliases make millions of entries out of ten lines."""
    lines = _lines(root)
    yield from islice(lines, MOST_ENTRIES)
    if next(lines, None) is not None:
        raise yaml.MarkedYAMLError(problem="too many entries", problem_mark=root.start_mark)


def _lines(node: yaml.Node, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Every path below `node` with its line; a key that stands twice or is not text is an error."""
    if len(path) > DEEPEST:
        raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=node.start_mark)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = _key(key, seen)
            yield (*path, name), key.start_mark.line + 1
            yield from _lines(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), value.start_mark.line + 1
            yield from _lines(value, (*path, index))


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
