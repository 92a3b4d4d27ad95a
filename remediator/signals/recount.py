"""Asks for the raw samples behind a fault of a port, a link or a GPU's memory, and says what they say."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from remediator.errors import BadInput
from remediator.model.machine import Machine
from remediator.signals.counts import count, falls
from remediator.signals.fabric import NAMES, QUESTIONS, Counter, Question, Slow, State
from remediator.signals.samples import FRESH_S, Answer, Band, Reason, Series, judge, unknown

BEFORE_S = 120.0  # of samples beyond a window: what counts needs one from before
HOUR_S = 3600.0
FASTEST = 1e13  # bytes a second

Fetch = Callable[[str, float], list[Series]]
"""Samples of a selector, so many seconds back; Retry when nobody answers."""
_Matchers = Sequence[tuple[str, str]]


class Recount:
    """One alert's fault: asked of the exporter that told it, about the machine as it is now, at second `now`.

    `labels` are from outside: `quoted` writes one as PromQL does, BadInput for what is no name.
    """

    def __init__(self, fetch: Fetch, quoted: Callable[[str], str], machine: Machine, now: float) -> None:
        self._fetch = fetch
        self._quoted = quoted
        self._machine = machine
        self._now = now

    def answer(self, fault: str, witness: str, labels: Mapping[str, str]) -> Answer:
        """Whether one of its questions holds; it has passed when all have that are known."""
        questions, names = QUESTIONS[fault].get(witness, ()), NAMES.get(witness)
        if names is None or not questions:
            return unknown("identity")
        matchers = names.of(_with_device_port(labels))
        if not matchers:
            raise BadInput("labels", "name nothing of one machine")
        told = [self._one(question, witness, matchers) for question in questions]
        return next((one for one in told if one.outcome == "holds"), None) or _none_holds(told)

    def _one(self, question: Question, witness: str, matchers: _Matchers) -> Answer:
        window_s = question.window.window_s if isinstance(question, Counter) else question.window_s
        reach = max(window_s, HOUR_S if isinstance(question, Slow) else 0.0) + BEFORE_S
        since, why = self._since(witness, matchers, reach)
        if why:
            return unknown(why)
        only = question.only if isinstance(question, Counter) else ()
        series = self._series(question.metrics, matchers, only, reach, since)
        if isinstance(question, Counter):
            return count(_counters(series, question), question.window, self._now)
        if isinstance(question, State):
            states = [_equals(one, question.good, question.most) for one in series]
            return judge(states, Band(0, 1, question.window_s, below=True), 0.5, self._now)
        best = self._best(question, series, matchers, reach, since)
        return judge(series, Band(0, FASTEST, question.window_s, below=True), best, self._now)

    def _since(self, witness: str, matchers: _Matchers, reach: float) -> tuple[float, Reason]:
        """From when on samples are of this machine; of our own agent's also of its present boot."""
        if witness != "own-counters":
            return self._machine.created, ""
        if not self._machine.boot_id:
            return 0.0, "boot"
        where = [(name, value) for name, value in matchers if name in NAMES[witness].machine]
        about = [*where, ("node", self._machine.name), ("boot_id", self._machine.boot_id)]
        found = self._series("remediator_agent_info", about, (), reach, self._machine.created)
        times = [at for one in found for at, _ in one.samples]
        if not times or max(times) < self._now - FRESH_S:
            return 0.0, "boot"
        return min(times), ""

    def _series(
        self, metrics: str, matchers: _Matchers, only: _Matchers, reach: float, since: float
    ) -> list[Series]:
        parts = [f'__name__=~"{metrics}"', *(f"{name}={self._quoted(value)}" for name, value in matchers)]
        parts += [f"{name}=~{json.dumps(value)}" for name, value in only]
        found = self._fetch(f"{{{','.join(parts)}}}", reach)
        return [Series(one.labels, tuple(s for s in one.samples if s[0] >= since)) for one in found]

    def _best(
        self, question: Slow, series: Iterable[Series], matchers: _Matchers, reach: float, since: float
    ) -> float:
        if question.best:
            series = self._series(question.best, matchers, (), reach, since)
        told = [value for one in series for _, value in one.samples if 0 <= value <= FASTEST]
        return max(told, default=0.0)


def _none_holds(told: Sequence[Answer]) -> Answer:
    doubts = [one for one in told if one.outcome == "unknown" and one.reason != "absent"]
    passed = [one for one in told if one.outcome == "passed"]
    return (doubts or passed or [*told])[0]


def _with_device_port(labels: Mapping[str, str]) -> Mapping[str, str]:
    """By gpud device and port are one."""
    if labels.get("device") and labels.get("port"):
        return {**labels, "device_port": f"{labels['device']}_{labels['port']}"}
    return labels


def _equals(one: Series, good: float, most: float) -> Series:
    """1 where it is good, 0 where it is not, NaN where it says nothing."""
    samples = ((at, float(value == good) if 0 <= value <= most else math.nan) for at, value in one.samples)
    return Series(one.labels, tuple(samples))


def _counters(series: Iterable[Series], question: Counter) -> list[list[Series]]:
    """By link and kind, each as all who scrape it tell it."""
    found: dict[tuple[str, ...], list[Series]] = defaultdict(list)
    for one in series:
        key = tuple(one.labels.get(name, "") for name in ("__name__", "link", "nvlink", "kind"))
        found[key].append(one if question.good is None else _falls(one, question.good))
    return list(found.values())


def _falls(one: Series, good: float) -> Series:
    return Series(one.labels, tuple(falls(_equals(one, good, most=7.0).samples)))
