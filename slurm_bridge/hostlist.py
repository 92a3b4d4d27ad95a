"""Slurm's hostlist notation: `gpu-[0-3,7],cpu1` to names. Pure, bounded, refuses what it cannot read."""

from __future__ import annotations

import re

from remediator.errors import BadInput

MAX_HOSTS = 65_536
_PART = re.compile(r"(?:[A-Za-z0-9._-]|\[[0-9,-]+\])+")
_PIECE = re.compile(r"\[([0-9,-]+)\]|([A-Za-z0-9._-]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expand(hostlist: str) -> tuple[str, ...]:
    """The names in order, without repeats; BadInput for junk or more than 65,536 names."""
    names: dict[str, None] = {}
    for part in _parts(hostlist):
        names.update(dict.fromkeys(_expand_part(part)))
        _check_size(len(names))
    return tuple(names)


def _parts(hostlist: str) -> list[str]:
    """Split at the commas outside brackets."""
    if not hostlist:
        return []
    parts = re.split(r",(?![^\[\]]*\])", hostlist)
    if any(not _PART.fullmatch(part) for part in parts):
        raise BadInput("hostlist", f"cannot read {hostlist[:80]!r}")
    return parts


def _expand_part(part: str) -> list[str]:
    names = [""]
    for ranges, literal in _PIECE.findall(part):
        tails = _expand_ranges(ranges) if ranges else [literal]
        _check_size(len(names) * len(tails))
        names = [name + tail for name in names for tail in tails]
    return names


def _expand_ranges(text: str) -> list[str]:
    out: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise BadInput("hostlist", f"cannot read the range {piece[:40]!r}")
        low, high = match[1], match[2] or match[1]
        _check_size(int(high) - int(low) + 1)
        if int(high) < int(low):
            raise BadInput("hostlist", f"the range {piece!r} runs backwards")
        out.extend(str(n).zfill(len(low)) for n in range(int(low), int(high) + 1))
    return out


def _check_size(count: int) -> None:
    if count > MAX_HOSTS:
        raise BadInput("hostlist", f"more than {MAX_HOSTS} names")
