"""Slurm's node and job states, taken apart into one base state and a set of flags.

REST sends a list of names, other sources one string (`IDLE+DRAIN`, `IDLE*`, `DRAINED`). Nothing here
raises: an unknown name is kept as a flag, and a drain is never hidden.
"""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN = "UNKNOWN"
NODE_BASES = frozenset({"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"})
QUIET_NODE_BASES = frozenset({"DOWN", "IDLE", "FUTURE"})
CHANGE_FLAGS = frozenset({"UNDRAIN", "POWER_DOWN", "POWERING_DOWN"})
POWER_FLAGS = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"})
JOB_BASES = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
    }
)
JOB_ALIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED"})

# Names that sinfo joins out of a base and a flag, and the marks it appends.
_JOINED = {
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "COMP": ("COMPLETING",),
    "MAINT": ("MAINTENANCE",),
}
_MARKS = {
    "*": "NOT_RESPONDING",
    "$": "MAINTENANCE",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


def node_state(raw: object) -> tuple[str, frozenset[str]]:
    """Base state and flags of a node; the base is UNKNOWN when none is named."""
    names = _names(raw)
    if isinstance(raw, str) and [name.rstrip("".join(_MARKS)) for name in names] == ["DRAIN"]:
        names = ["IDLE", *names]  # sinfo's short word for DRAINED; in REST's lists it is a flag
    return _split(_expanded(names), NODE_BASES)


def job_state(raw: object) -> tuple[str, frozenset[str]]:
    """Base state and state flags of a job; the base is UNKNOWN when none is named."""
    return _split(_names(raw), JOB_BASES)


def _names(raw: object) -> list[str]:
    if isinstance(raw, str):
        raw = raw.split("+")
    if not isinstance(raw, list | tuple | set | frozenset):
        return []
    return [name.strip().upper() for name in raw if isinstance(name, str) and name.strip()]


def _expanded(names: Iterable[str]) -> list[str]:
    out: list[str] = []
    for name in names:
        bare = name.rstrip("".join(_MARKS))
        out.extend(_JOINED.get(bare, (bare,)) if bare else ())
        out.extend(_MARKS[mark] for mark in name[len(bare) :])
    return out


def _split(names: list[str], bases: frozenset[str]) -> tuple[str, frozenset[str]]:
    found = [name for name in names if name in bases]
    base = found[0] if len(set(found)) == 1 else UNKNOWN
    return base, frozenset(name for name in names if name not in bases)
