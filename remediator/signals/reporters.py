"""The table of conditions that other tools write on nodes: what each means, and how far it is trusted."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from remediator.errors import BadInput
from remediator.kube.conditions import Condition
from remediator.model.base import Ours
from remediator.model.signal import CONDITION
from remediator.settings.text import read
from remediator.signals.plain import bus, small

BUILTIN = Path(__file__).resolve().parents[2] / "policies" / "catalogue" / "node_conditions.csv"
NEXT = "mend it, or take the file of the installed version again"
Reads = Literal["kernel-log", "dcgm", "nvidia-smi", "counters", "slurm", "system"]
Meaning = Literal["bad", "good", "unknown"]


def _numbers(written: object) -> object:
    return written.split() if isinstance(written, str) else written


def _pattern(written: object) -> object:
    try:
        return re.compile(written) if isinstance(written, str) and written else None
    except re.error as error:
        raise ValueError(f"is no pattern: {error}") from None


class Row(Ours):
    """One condition type of one reporter, or of it only those reasons that match `reason` (`*`: any text).

    `bad` is the status that means trouble. `code` is the fault it always stands for, `find` reads codes out
    of its reason and message; with neither it is a mere word about health, which supports only the codes in
    `supports`. `alone`: it may interrupt jobs without a second witness.
    """

    type: str = Field(min_length=1)
    reason: str = "*"
    on: Literal["node", "pod"]
    bad: Literal["True", "False"]
    reporter: str = Field(min_length=3)
    reads: Reads
    means: str = Field(pattern=r"^[a-z][a-z0-9-]{2,30}$")
    tier: Literal["by-code", "T1", "record"]
    kind: Literal["xid", "sxid", "condition"]
    code: Annotated[int | None, BeforeValidator(lambda written: written or None)] = None
    find: Annotated[re.Pattern[str] | None, BeforeValidator(_pattern)] = None
    supports: Annotated[tuple[int, ...], BeforeValidator(_numbers)] = ()
    alone: Literal["yes", "no"]
    trap: str = Field(min_length=3)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a bad condition says: one fault, by its code where it names one."""

    row: Row
    kind: str
    code: int | None = None
    pci: str | None = None


class Table:
    """All rows, by type; of several rows of a type the first whose reason matches speaks."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        by_type: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            by_type[row.type].append(row)
        self._by_type: Mapping[str, list[Row]] = dict(by_type)

    def knows(self, kind: str) -> bool:
        """Whether any row speaks of this type of condition."""
        return kind in self._by_type

    def state(self, condition: Condition) -> Meaning:
        """Whether it says that something is wrong; neither True nor False says nothing, and so does a type
        that nobody here knows.
        """
        rows = self._by_type.get(condition.kind)
        if rows is None or condition.status not in {"True", "False"}:
            return "unknown"
        return "bad" if condition.status == rows[0].bad else "good"

    def readings(self, condition: Condition) -> tuple[Reading, ...]:
        """What it says is wrong: each code once, or one mere word; nothing unless it is bad."""
        if self.state(condition) != "bad":
            return ()
        rows = self._by_type[condition.kind]
        row = next((row for row in rows if fnmatchcase(condition.reason, row.reason)), None)
        if row is None:
            return ()
        found = dict.fromkeys(_coded(row, f"{condition.reason} {condition.message}"))
        return tuple(found) or (Reading(row, CONDITION),)


def _coded(row: Row, text: str) -> Iterator[Reading]:
    named = False
    for match in row.find.finditer(text) if row.find else ():
        groups = match.groupdict()
        code = row.code if row.code is not None else small(int(groups["code"]))
        if code is not None:
            named = True
            yield Reading(row, row.kind, code, bus(groups.get("pci") or ""))
    if row.code is not None and not named:
        yield Reading(row, row.kind, row.code)


def load(path: Path = BUILTIN, overlay: Path | None = None) -> Table:
    """Read and check the table, and a site's rows if the folder `overlay` has a file of the same name: they
    stand before all others, and take the place of one of the same type and reason. BadInput names the file,
    the line and the column.
    """
    site = overlay / path.name if overlay is not None else None
    first = _rows(site) if site is not None and site.exists() else {}
    table = Table((first | {name: row for name, row in _rows(path).items() if name not in first}).values())
    _agree(site if first and site else path, table)
    return table


def _rows(path: Path) -> dict[tuple[str, str], Row]:
    try:
        lines = list(csv.DictReader(io.StringIO(read(path).decode())))
    except OSError as error:
        raise BadInput(str(path), f"cannot be read: {error.strerror}; {NEXT}") from error
    except (ValueError, csv.Error) as error:
        raise BadInput(str(path), f"{error}; {NEXT}") from error
    found: dict[tuple[str, str], Row] = {}
    for number, line in enumerate(lines, 2):
        row = _row(path, number, line)
        if (row.type, row.reason) in found:
            raise BadInput(f"{path}:{number}: {row.type} {row.reason}", f"stands twice; {NEXT}")
        found[row.type, row.reason] = row
    if not found:
        raise BadInput(str(path), f"has no rows; {NEXT}")
    return found


def _row(path: Path, number: int, line: dict[str, str]) -> Row:
    try:
        return Row.model_validate({key: value for key, value in line.items() if value != ""})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "row"
        raise BadInput(f"{path}:{number}: {where}", f"{first['msg']}; {NEXT}") from error


def _agree(path: Path, table: Table) -> None:
    """One type has one bad value and stands on nodes or on pods."""
    seen: dict[str, Row] = {}
    for row in table.rows:
        first = seen.setdefault(row.type, row)
        if (first.bad, first.on) != (row.bad, row.on):
            raise BadInput(f"{path}: {row.type}", f"two rows disagree about bad or on; {NEXT}")
        if row.find is not None and row.code is None and "code" not in row.find.groupindex:
            raise BadInput(f"{path}: {row.type}", f"find names no group `code`; {NEXT}")
