"""Bursts: lines that tell one fault again. The first is pushed at once, of the rest the newest every 5 s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from remediator.model.signal import KernelEvent, PushedEvent

WINDOW_S = 180.0
"""A burst is over when its lines have stopped for so long."""
WINDOWS_S = {13: 15.0}
SPACING_S = 5.0
MOST = 1024
OFF_THE_BUS = 79

# The driver names whoever called it when the GPU did not answer: no part of what the fault is.
_NOBODYS = frozenset({OFF_THE_BUS, 119, 120})
_PARTS = ("sxid", "nvswitch", "sub_code", "link", "gpu_instance", "compute_instance", "recovery_to")
_Key = tuple[Any, ...]


@dataclass(slots=True)
class Burst:
    """Lines of one fault so far; seconds are those since the node booted, `held_at` those of this process."""

    last: float
    told: float
    lines: int = 1
    held: PushedEvent | None = None
    held_at: float = 0.0


class Bursts:
    """The bursts of one boot. A GPU off the bus is one fault, by its XID or by the lines without one."""

    def __init__(self) -> None:
        self._open: dict[_Key, Burst] = {}

    def clear(self) -> None:
        """Forget all: the node has booted, and its seconds begin anew."""
        self._open.clear()

    def lines(self, event: KernelEvent, at: float) -> tuple[int, bool]:
        """Which line of its burst the event is, counted from 1, and whether it is to be pushed."""
        key = self._key(event)
        burst = self._open.get(key)
        if burst is None or abs(at - burst.last) > WINDOWS_S.get(event.xid or 0, WINDOW_S):
            self._begin(key, at)
            return 1, True
        burst.lines, burst.last = burst.lines + 1, at
        due = abs(at - burst.told) >= SPACING_S
        if due:
            burst.told, burst.held = at, None
        return burst.lines, due

    def hold(self, line: PushedEvent, now: float) -> None:
        """Keep a line that came too soon after another: when none follows, it is the last of its burst."""
        burst = self._open[self._key(line.event)]
        if burst.held is None:
            burst.held_at = now
        burst.held = line

    def overdue(self, now: float) -> list[PushedEvent]:
        """The lines held for as long as lines are spaced, each given once."""
        found = []
        for burst in self._open.values():
            if burst.held and now - burst.held_at >= SPACING_S:
                found.append(burst.held)
                burst.told, burst.held = burst.last, None
        return found

    def _begin(self, key: _Key, at: float) -> None:
        self._open.pop(key, None)
        if len(self._open) >= MOST:
            del self._open[next(iter(self._open))]
        self._open[key] = Burst(last=at, told=at)

    def _key(self, event: KernelEvent) -> _Key:
        """A line that cannot name its GPU joins the burst of a GPU that is off the bus already."""
        key = key_of(event)
        if event.xid == OFF_THE_BUS and event.pci is None:
            return next((known for known in self._open if known[:2] == key[:2]), key)
        return key


def key_of(event: KernelEvent) -> _Key:
    """What makes two lines of a boot tell the same fault."""
    off = event.xid == OFF_THE_BUS
    pid = None if event.xid in _NOBODYS else event.pid
    return ("" if off else event.kind, event.xid, event.pci, pid, *map(event.extra.get, _PARTS))
