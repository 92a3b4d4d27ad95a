"""Asks Prometheus for the raw samples behind a threshold, of one GPU or port, and says what they say."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median

from remediator.errors import BadInput
from remediator.model.machine import Machine
from remediator.signals.recount import Recount
from remediator.signals.samples import (
    FRESH_S,
    Answer,
    Band,
    Series,
    judge,
    read_series,
    still,
    unknown,
)
from remediator.signals.thresholds import (
    BELIEVED_C,
    LIMITS,
    PULSE,
    QUESTIONS,
    SLOWED_AT_ALL,
    Labels,
    Measure,
    Spelling,
)

BEFORE_S = 120.0  # of samples beyond the window: three are wanted, however seldom one comes
SIBLINGS = 3

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/@-]{0,252}")
_UUIDS = ("uuid", "UUID")

Ask = Callable[[str, float], object]
"""A query at a second; Retry when nobody answers."""


class Inquiry:
    """One look at second `now`: what was asked for is not asked for again. `labels` are an alert's, from
    outside: those that name machine and GPU are taken if they look like names, and quoted.
    """

    def __init__(self, ask: Ask, now: float) -> None:
        self._ask = ask
        self._now = now
        self._known: dict[str, list[Series]] = {}
        self._since = 0.0
        self.asked: list[str] = []

    def answer(self, fault: str, labels: Mapping[str, str], since: float = 0.0) -> Answer:
        """Whether every measure of this heat holds; the first one that does not is the answer. Samples from
        before `since` are another machine's.
        """
        self._since = since
        return self._asked(lambda: self._heat(fault, labels))

    def recount(self, fault: str, witness: str, labels: Mapping[str, str], machine: Machine) -> Answer:
        """Whether a fault of a port, a link or memory holds on this machine, by the samples of the witness
        that told of it.
        """
        recount = Recount(self._fetch, _quoted, machine, self._now)
        return self._asked(lambda: recount.answer(fault, witness, labels))

    def _asked(self, question: Callable[[], Answer]) -> Answer:
        self.asked = []
        try:
            return question()
        except BadInput as error:
            return unknown("identity" if error.field == "labels" else "shape")

    def _heat(self, fault: str, labels: Mapping[str, str]) -> Answer:
        first: Answer | None = None
        for measure in QUESTIONS[fault]:
            found = self._measure(measure, labels)
            if found.outcome != "holds":
                return found
            first = first or found
        return self._doubted(QUESTIONS[fault][0], labels, first or unknown("absent"))

    def _measure(self, measure: Measure, labels: Mapping[str, str]) -> Answer:
        limit = self._limit(measure, labels)
        if limit is None:
            return unknown("limit")
        reach = measure.band.window_s + BEFORE_S
        if not measure.above_siblings:
            return judge(self._series(measure.spellings, labels, reach), measure.band, limit, self._now)
        whole = self._series(measure.spellings, labels, reach, machine=True)
        own = [one for one in whole if _is_of(one, labels)]
        others = _medians([one for one in whole if not _is_of(one, labels)], measure.band, self._now)
        if own and len(others) < SIBLINGS:
            return unknown("siblings")
        above = [_above(one, median(others), measure.band) for one in own]
        wide = Band(-measure.band.high, measure.band.high, measure.band.window_s, measure.band.share)
        return judge(above, wide, limit, self._now)

    def _limit(self, measure: Measure, labels: Mapping[str, str]) -> float | None:
        """None when it is unknown, or says what no limit can be."""
        if isinstance(measure.limit, float):
            return measure.limit
        own = self._newest(self._series(measure.own_limit, labels, BEFORE_S)) if measure.own_limit else set()
        told = {value for value in own if measure.least <= value <= measure.most}
        if not told:
            told = self._newest(self._fetch(f"{LIMITS}{{of={_quoted(measure.limit)}}}", BEFORE_S))
        known = told.pop() if len(told) == 1 else math.nan
        return known if measure.least <= known <= measure.most else None

    def _newest(self, series: Iterable[Series]) -> set[float]:
        last = [one.samples[-1] for one in series if one.samples]
        return {value for at, value in last if abs(self._now - at) <= FRESH_S}

    def _doubted(self, measure: Measure, labels: Mapping[str, str], held: Answer) -> Answer:
        """What holds by its numbers, and cannot be believed."""
        reach = measure.band.window_s + BEFORE_S
        if still(self._series(measure.spellings, labels, reach)) and still(
            self._series(PULSE, labels, reach)
        ):
            return unknown("frozen", held.implausible)
        slowed = (held.value or 0.0) <= BELIEVED_C or self._measure(SLOWED_AT_ALL, labels).outcome == "holds"
        return held if slowed else unknown("unit", held.implausible)

    def _series(
        self, spellings: Sequence[Spelling], labels: Mapping[str, str], reach: float, *, machine: bool = False
    ) -> list[Series]:
        """By every exporter that can be asked for this GPU, or for all of its machine; BadInput for none."""
        found: list[Series] = []
        asked = False
        for by, group in groupby(spellings, key=lambda one: one.labels):
            alike = list(group)
            names = _matchers(by, labels, machine=machine)
            if names:
                asked = True
                found += _read(self._fetch(_selector(alike, names), reach), alike)
        if not asked:
            raise BadInput("labels", "name no GPU of one machine")
        return [Series(one.labels, tuple(s for s in one.samples if s[0] >= self._since)) for one in found]

    def _fetch(self, selector: str, reach: float) -> list[Series]:
        query = f"{selector}[{reach:.0f}s]"
        self.asked.append(query)
        if query not in self._known:
            self._known[query] = read_series(self._ask(query, self._now))
        return self._known[query]


def _matchers(by: Labels, labels: Mapping[str, str], *, machine: bool) -> list[tuple[str, str]]:
    uuid = next((labels[name] for name in _UUIDS if labels.get(name)), "")
    if uuid and not machine:
        return [(by.uuid, uuid)]
    of_machine = [(name, labels[name]) for name in by.machine if labels.get(name)]
    of_gpu = [(name, labels[name]) for name in by.gpu if labels.get(name)]
    if machine:
        return of_machine
    return of_machine + of_gpu if of_machine and of_gpu else []


def _selector(spellings: Sequence[Spelling], names: Sequence[tuple[str, str]]) -> str:
    metrics = "|".join(one.metric for one in spellings)
    parts = [f'__name__=~"{metrics}"', *(f"{name}={_quoted(value)}" for name, value in names)]
    label, values = spellings[0].only
    if label:
        parts.append(f'{label}=~"{"|".join(values)}"')
    return f"{{{','.join(parts)}}}"


def _quoted(value: str) -> str:
    """A label's value as PromQL writes it; BadInput for what is no name of a machine or GPU."""
    if not _NAME.fullmatch(value):
        raise BadInput("labels", "have a value that names nothing")
    return json.dumps(value)


def _read(series: Iterable[Series], spellings: Sequence[Spelling]) -> list[Series]:
    """Readings in the unit of their band; those that differ only in the label `only` made one."""
    by_name = {one.metric: one for one in spellings}
    merged: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    for one in series:
        spelling = by_name.get(one.labels.get("__name__", ""))
        if spelling is None:
            continue
        key = tuple(sorted((name, text) for name, text in one.labels.items() if name != spelling.only[0]))
        samples = merged.setdefault(key, {})
        for at, raw in one.samples:
            value = spelling.value(raw)
            samples[at] = max(samples.get(at, value), value)
    return [Series(dict(key), tuple(sorted(samples.items()))) for key, samples in merged.items()]


def _is_of(series: Series, labels: Mapping[str, str]) -> bool:
    """Whether this is the alert's GPU: by UUID where both tell it, else by its number."""
    ids = [next((side[name] for name in _UUIDS if side.get(name)), "") for side in (series.labels, labels)]
    if all(ids):
        return ids[0] == ids[1]
    return bool(labels.get("gpu")) and series.labels.get("gpu") == labels.get("gpu")


def _medians(series: Iterable[Series], band: Band, now: float) -> list[float]:
    """One for each other GPU that is read at present."""
    found: dict[str, list[float]] = {}
    for one in series:
        values = [v for at, v in one.samples if now - band.window_s <= at and band.is_plausible(v)]
        if values and one.samples[-1][0] >= now - FRESH_S:
            gpu = one.labels.get("uuid") or one.labels.get("UUID") or one.labels.get("gpu", "")
            found.setdefault(gpu, []).extend(values)
    return [median(values) for values in found.values()]


def _above(series: Series, base: float, band: Band) -> Series:
    samples = ((at, value - base if band.is_plausible(value) else math.nan) for at, value in series.samples)
    return Series(series.labels, tuple(samples))
