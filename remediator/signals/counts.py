"""How often counters counted in a window, as their raw samples say, or that nobody knows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from remediator.signals.samples import COVERED, Answer, Reason, Series, doubt, unknown, views

BLANK = 2_147_483_632.0
"""From here on a value is one of DCGM's ways to say that there is none."""

Samples = Sequence[tuple[float, float]]
Step = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Window:
    """So much (`least`) must have been counted in `window_s` seconds, in `parts` different parts of it of
    `part_s` seconds each; `per_s`: in each second, on average.
    """

    window_s: float
    least: float = 1.0
    part_s: float = 0.0
    parts: int = 1
    per_s: bool = False


@dataclass(frozen=True, slots=True)
class _Counted:
    """What one counter did within the window: when it moved by how much, and the seconds it was read for."""

    steps: tuple[Step, ...]
    read_s: float

    @property
    def sum(self) -> float:
        return sum(by for _, by in self.steps)


def count(counters: Iterable[Iterable[Series]], window: Window, now: float) -> Answer:
    """What all counters together say, each told by some who scrape it (replicas, restarted exporters).

    Of those the one that has seen least counts. A counter that nobody knows of counts nothing, and what is
    too little without it is unknown.
    """
    known: list[_Counted] = []
    why: Reason = ""
    dropped = 0
    for tellers in counters:
        found, reason, bad = _counted(tellers, window, now)
        dropped += bad
        why = why or reason
        known += [found] if found else []
    if not known:
        return unknown(why or "absent", dropped)
    steps = sorted(step for one in known for step in one.steps)
    amount = sum(by for _, by in steps)
    read_s = max(one.read_s for one in known)
    if window.per_s and read_s < COVERED * window.window_s:
        return unknown("short", dropped)
    amount = amount / read_s if window.per_s else amount
    if amount >= window.least and _parts(steps, window) >= window.parts:
        return Answer("holds", "", amount, steps[0][0], dropped)
    return unknown(why, dropped) if why else Answer("passed", "", amount, now - window.window_s, dropped)


def falls(samples: Samples) -> list[tuple[float, float]]:
    """How often a state has gone from 1 to 0, up to each sample."""
    found, times, before = [], 0, math.nan
    for at, value in samples:
        times += before == 1 and value == 0
        before = value
        found.append((at, float(times)))
    return found


def _counted(tellers: Iterable[Series], window: Window, now: float) -> tuple[_Counted | None, Reason, int]:
    """None, and why, if nobody who is read at present knows."""
    known, dropped = [], 0
    why: Reason = ""
    for view in views(tellers):
        told = [(at, value) for at, value in view if math.isfinite(value) and 0 <= value < BLANK]
        dropped += len(view) - len(told)
        reason = doubt(told, len(view) - len(told), now)
        steps = None if reason else _steps(told)
        if steps is None:
            why = why or reason or "backwards"
            continue
        began = now - window.window_s
        read_s = told[-1][0] - max(began, told[0][0])
        known.append(_Counted(tuple(step for step in steps if step[0] > began and step[1]), read_s))
    return min(known, key=lambda one: one.sum, default=None), "" if known else why, dropped


def _steps(told: Samples) -> list[Step] | None:
    """When it moved up by how much; None for one that went backwards. A reset to less than half is none, and
    hides what it hides; a value that is back at once was never reset.
    """
    found: list[Step] = []
    lost = math.inf  # what it stood at before its last reset, until it has moved since
    for (_, before), (at, value) in pairwise(told):
        if value < before:
            if value > before / 2:
                return None
            lost = before
        elif value > before:
            if value >= lost:
                return None
            lost = math.inf
        found.append((at, max(value - before, 0.0)))
    return found


def _parts(steps: Sequence[Step], window: Window) -> int:
    if not window.part_s:
        return min(len(steps), 1)
    return len({math.ceil(at / window.part_s) for at, _ in steps})
