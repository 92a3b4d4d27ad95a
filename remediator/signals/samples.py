"""What raw samples of one reading say about a threshold: it holds, it has passed, or nobody knows. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from remediator.errors import BadInput
from remediator.model.base import Foreign

LEAST = 3
FRESH_S = 60.0
AHEAD_S = 5.0  # for which a sample may be later than this machine's clock says
GAP_S = 120.0  # two scrapes a minute apart, and one of them lost
COVERED = 0.75  # of the window: from its first sample on

Outcome = Literal["holds", "passed", "unknown"]
Reason = Literal[
    "", "absent", "shape", "implausible", "few", "stale", "gap", "short", "clock", "conflict", "frozen",
    "unit", "limit", "siblings", "identity", "backwards", "boot", "another", "no-answer", "no-prometheus",
]  # fmt: skip
"""Why nobody knows; empty when somebody does."""


class _Row(Foreign):
    """One series of an answer with raw samples."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Series:
    """One time series: its labels, and (second, value) as scraped, oldest first; NaN and Inf are values."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Band:
    """What counts as beyond: values outside `low` to `high` are no readings; `share` of the samples of
    `window_s` seconds must be beyond the limit (`below`: under it).
    """

    low: float
    high: float
    window_s: float
    share: float = 1.0
    below: bool = False

    def is_plausible(self, value: float) -> bool:
        """Whether a sensor can have said so."""
        return math.isfinite(value) and self.low <= value <= self.high

    def is_beyond(self, value: float, limit: float) -> bool:
        """Whether this value is on the wrong side of the limit."""
        return value < limit if self.below else value > limit


@dataclass(frozen=True, slots=True)
class Answer:
    """`value` is the median of what was judged, `since` the second of its oldest sample, `implausible` how
    many samples were dropped.
    """

    outcome: Outcome
    reason: Reason = ""
    value: float | None = None
    since: float | None = None
    implausible: int = 0


def unknown(reason: Reason, implausible: int = 0) -> Answer:
    """Nobody knows."""
    return Answer("unknown", reason, implausible=implausible)


def read_series(rows: Any) -> list[Series]:
    """The series of an answer with raw samples; BadInput when it is none."""
    if not isinstance(rows, list):
        raise BadInput("result", "is not a list of series")
    try:
        found = [_Row.model_validate(row) for row in rows]
        return [
            Series(row.metric, tuple(sorted((at, float(text)) for at, text in row.values))) for row in found
        ]
    except ValueError:  # pydantic's too
        raise BadInput("result", "is not a list of raw samples") from None


def judge(series: Iterable[Series], band: Band, limit: float, now: float) -> Answer:
    """Of one reading of one GPU, as all who tell it see it: exporters, restarted ones, HA duplicates.

    Those that know must agree; one that does not know says nothing against another that does.
    """
    answers = [_judge(view, band, limit, now) for view in views(series)]
    known = [answer for answer in answers if answer.outcome != "unknown"]
    dropped = sum(answer.implausible for answer in answers)
    if len({answer.outcome for answer in known}) > 1:
        return unknown("conflict", dropped)
    told = known or answers or [unknown("absent")]
    first = told[0]
    return Answer(first.outcome, first.reason, first.value, first.since, dropped)


def views(series: Iterable[Series]) -> list[list[tuple[float, float]]]:
    """Samples in time, one list for each who tells them: what begins after another ended goes on with it."""
    found: list[list[tuple[float, float]]] = []
    for one in sorted((one for one in series if one.samples), key=lambda one: one.samples[0]):
        before = next((view for view in found if view[-1][0] < one.samples[0][0]), None)
        if before is None:
            found.append(list(one.samples))
        else:
            before.extend(one.samples)
    return found


def still(series: Iterable[Series]) -> bool:
    """Whether everybody tells the same value all the time."""
    values = {value for one in series for _, value in one.samples}
    count = max((len(one.samples) for one in series), default=0)
    return count >= LEAST and len(values) == 1


def _judge(view: Sequence[tuple[float, float]], band: Band, limit: float, now: float) -> Answer:
    told = [sample for sample in view if band.is_plausible(sample[1])]
    dropped = len(view) - len(told)
    why = doubt(told, dropped, now)
    if why:
        return unknown(why, dropped)
    inside = sum(at >= now - band.window_s for at, _ in told)
    last = told[-max(inside, LEAST) :]
    beyond = [band.is_beyond(value, limit) for _, value in last]
    value = median(value for _, value in last)
    if not any(beyond[-LEAST:]):
        return Answer("passed", "", value, last[0][0], dropped)
    why = _too_soon(last, beyond, band, now)
    if why:
        return unknown(why, dropped)
    return Answer("holds", "", value, last[0][0], dropped)


def doubt(told: Sequence[tuple[float, float]], dropped: int, now: float) -> Reason:
    """Why samples say nothing about the present; empty when they do. `told` are the plausible ones."""
    if not told:
        return "implausible" if dropped else "absent"
    if told[-1][0] > now + AHEAD_S:
        return "clock"
    if told[-1][0] < now - FRESH_S:
        return "stale"
    if dropped > len(told):
        return "implausible"
    return "few" if len(told) < LEAST else ""


def _too_soon(last: Sequence[tuple[float, float]], beyond: Sequence[bool], band: Band, now: float) -> Reason:
    """It may hold, and has not been seen to do so for long enough."""
    if any(later[0] - earlier[0] > GAP_S for earlier, later in pairwise(last)):
        return "gap"
    covered = last[0][0] <= now - COVERED * band.window_s
    return "" if covered and sum(beyond) >= band.share * len(beyond) else "short"
