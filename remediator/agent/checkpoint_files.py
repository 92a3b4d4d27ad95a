"""What makes a checkpoint complete, from its files alone. Pure: two looks at one checkpoint, and a verdict.

A pointer such as `latest` is believed only when the files agree: a job that was killed leaves it wrong.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["complete", "writing", "partial"]

LEAST_SIZE = 0.9  # checkpoints of one job are of one size; one that was cut off is smaller
TEMPORARY = re.compile(
    r"^tmp|(^|[._-])(tmp|temp|partial|incomplete|inprogress|unfinished|writing)([._-]|[0-9]*$)|\.part[0-9]*$|~$",
    re.IGNORECASE,
)
_SHARD = re.compile(r"(?P<at>[0-9]+)-of-(?P<all>[0-9]+)")
# Files that say "done" by being there.
_EMPTY_BY_INTENT = re.compile(
    r"[._]?(success|complete|completed|committed|commit_success|done)(\.txt)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One file: its name inside the checkpoint, its size, and when it was written (seconds)."""

    name: str
    size: int
    written: float


@dataclass(frozen=True, slots=True)
class Files:
    """One look at one checkpoint. `marked`: its marker is there and was written last, or at least is there
    (`"early"`); None where no marker is asked for.
    """

    name: str
    count: int
    size: int
    first: float
    last: float
    flaw: str
    marked: Literal["last", "early", "missing"] | None = None


def summary(name: str, found: Iterable[Seen], marker: str = "", *, ahead: bool = False) -> Files:
    """What the files of a checkpoint amount to. `ahead`: the pointer beside it names an older one."""
    files = list(found)
    data = [one for one in files if one.name != marker]
    written = [one.written for one in data] or [0.0]
    mark = next((one for one in files if one.name == marker), None)
    marked: Literal["last", "early", "missing"] | None = None
    if ahead:
        marked = "missing"
    elif marker:
        marked = "missing" if mark is None else "last" if mark.written >= max(written) else "early"
    return Files(
        name=name,
        count=len(data),
        size=sum(one.size for one in data),
        first=min(written),
        last=max([*written, *([mark.written] if mark else [])]),
        flaw=_flaw(name, data),
        marked=marked,
    )


def state(now: Files, before: Files | None, like: Files | None) -> State:
    """`before` is the last look at it, None at the first one; `like` the complete checkpoint before it."""
    still = before is not None and (now.count, now.size, now.last) == (before.count, before.size, before.last)
    whole = not now.flaw and now.marked != "missing"
    if whole and now.marked == "last":
        return "complete"
    if not still:
        return "writing"
    if whole and (now.marked == "early" or _is_full(now, like)):
        return "complete"
    return "partial"


def _is_full(now: Files, like: Files | None) -> bool:
    return like is None or (now.count >= like.count and now.size >= LEAST_SIZE * like.size)


def _flaw(name: str, data: list[Seen]) -> str:
    """What alone proves that it is unfinished."""
    if TEMPORARY.search(name) or any(TEMPORARY.search(part) for one in data for part in one.name.split("/")):
        return "a temporary name"
    if not data:
        return "no files"
    if any(not one.size and not _EMPTY_BY_INTENT.fullmatch(one.name.rpartition("/")[2]) for one in data):
        return "an empty file"
    return "a shard is missing" if _lacks_shards(data) else ""


def _lacks_shards(data: list[Seen]) -> bool:
    sets: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in data:
        found = _SHARD.search(one.name)
        if found:
            around = one.name[: found.start()] + one.name[found.end() :]
            sets[(around, int(found["all"]))].add(int(found["at"]))
    return any(len(there) < wanted for (_, wanted), there in sets.items())


def points_at(text: str, name: str) -> bool:
    """Whether a pointer's text (`step_1000`, or only `1000`) means the checkpoint of this name."""
    said = text.strip().rpartition("/")[2]
    digits = re.findall(r"[0-9]+", name)
    return bool(said) and (
        said == name or (said.isdecimal() and bool(digits) and int(digits[-1]) == int(said))
    )
