"""A table as data: a CSV file behind a head of `# name: value` lines: version, date, number of rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import Field, ValidationError

from remediator.model.base import Ours
from remediator.policy.files import NEXT, PolicyError
from remediator.policy.rule import spread
from remediator.settings.problems import Problem
from remediator.settings.text import read

SOURCE = "source "


class Row(Ours):
    """What every row says: our action, why, where vendors disagree, and its source, a word of the head."""

    our_action: str
    why: str = Field(min_length=3)
    disagreement: str
    source: str


class Head(Ours):
    """The head: `catalogue` is the day of what it was made from."""

    version: Literal["1"]
    catalogue: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    rows: int


Kind = TypeVar("Kind", bound=Row)


@dataclass(frozen=True, slots=True)
class Table(Generic[Kind]):
    """A table that was read and checked; `sources` says what the words in the column `source` stand for."""

    path: Path
    head: Head
    sources: Mapping[str, str]
    lines: Sequence[tuple[int, Kind]]

    def by_code(self, column: str) -> dict[int, Kind]:
        """The rows by code, spans spread; PolicyError when a code has two."""
        found: dict[int, Kind] = {}
        for line, row in self.lines:
            for code in _codes(self.path, line, getattr(row, column)):
                if code in found:
                    raise refused(self.path, f"{column} {code} has a row already", line)
                found[code] = row
        return found


def load_table(path: Path, model: type[Kind]) -> Table[Kind]:
    """Read and check a table; PolicyError names file, line and column of the first thing that is wrong."""
    text = _text(path)
    said, first = _said(text)
    try:
        head = Head.model_validate({name: value for name, value in said.items() if " " not in name})
    except ValidationError as error:
        one = error.errors(include_url=False)[0]
        raise refused(path, f"head, {'.'.join(map(str, one['loc']))}: {one['msg']}") from error
    sources = {name.removeprefix(SOURCE): value for name, value in said.items() if name.startswith(SOURCE)}
    lines = _rows(path, text, first, model)
    if len(lines) != head.rows:
        raise refused(path, f"has {len(lines)} rows, but its head says {head.rows}", first)
    for line, row in lines:
        if row.source not in sources:
            raise refused(path, f"source {row.source:.40} is not in the head", line)
    return Table(path, head, sources, lines)


def refused(path: Path, text: str, line: int = 1, column: int = 1) -> PolicyError:
    """What is wrong with a table, as the error to raise."""
    return PolicyError([Problem("catalogue", text, NEXT, f"{path}:{line}:{column}")])


def _text(path: Path) -> str:
    try:
        return read(path).decode()
    except OSError as error:
        raise refused(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise refused(path, str(error)) from error


def _said(text: str) -> tuple[dict[str, str], int]:
    """The head's `# name: value` lines, and the number of the line with the names of the columns."""
    said: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            return said, number
        name, colon, value = line[1:].partition(":")
        name = name.strip()
        if colon and (name in Head.model_fields or name.startswith(SOURCE)):
            said[name] = value.strip()
    return said, 1


def _rows(path: Path, text: str, first: int, model: type[Kind]) -> list[tuple[int, Kind]]:
    names, *rows = csv.reader(text.splitlines()[first - 1 :], strict=True)
    found = []
    for number, fields in enumerate(rows, first + 1):
        if len(fields) != len(names):
            raise refused(path, f"has {len(fields)} fields, not {len(names)}", number)
        try:
            found.append((number, model.model_validate(dict(zip(names, fields, strict=True)))))
        except ValidationError as error:
            one = error.errors(include_url=False)[0]
            name = str(one["loc"][0])
            column = _column(fields, names.index(name) if name in names else 0)
            raise refused(path, f"{name}: {one['msg']}", number, column) from error
    return found


def _column(fields: Sequence[str], index: int) -> int:
    """Where a field begins in its line."""
    before = io.StringIO()
    csv.writer(before, lineterminator=",").writerow(fields[:index])
    return len(before.getvalue()) + 1 if index else 1


def _codes(path: Path, line: int, said: str) -> list[int]:
    try:
        return [int(code) for code in spread([said if "-" in said else int(said)])]
    except ValueError as error:
        raise refused(path, str(error), line) from error
