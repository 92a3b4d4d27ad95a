"""Level-triggered: asks every minute which alerts fire, so that a lost notification is healed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from remediator.clock import Clock
from remediator.errors import RemediatorError, Retry
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.settings import Settings, Webhook
from remediator.signals.alertmanager import Alert
from remediator.signals.episodes import convert, episode
from remediator.signals.sources import AlertmanagerSource, PrometheusQuery, PrometheusSource, Source

SOURCE: Final = "backfill"
SOONEST_S = 5.0
AGAIN_S = 10.0  # after a source did not answer
BATCH = 500
log = logger(stage="backfill")

Submit = Callable[[Sequence[Signal]], None]


def sources_of(settings: Settings) -> list[Source]:
    """The servers that the settings name, Alertmanager first: it knows what people silenced."""
    found: list[Source] = []
    for kind, section in (
        (AlertmanagerSource, settings.alertmanager),
        (PrometheusSource, settings.prometheus),
    ):
        if section.url is not None:
            found.append(kind(section.url, section.token_path, section.deadline_s))
    return found


def query_of(settings: Settings) -> PrometheusQuery | None:
    """The Prometheus that the settings name, by a connection of its own; None when they name none."""
    asked = settings.prometheus
    return None if asked.url is None else PrometheusQuery(asked.url, asked.token_path, asked.deadline_s)


class Backfill:
    """A source that does not answer is counted and ages; it never means that nothing fires."""

    def __init__(
        self, sources: Sequence[Source], settings: Webhook, submit: Submit, metrics: Metrics, clock: Clock
    ) -> None:
        self._sources = sources
        self._settings = settings
        self._submit = submit
        self._metrics = metrics
        self._clock = clock
        self._answered = dict.fromkeys((source.name for source in sources), -math.inf)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        for source in sources:
            metrics.watch_age(source.name, partial(self._age, source.name))

    def ask(self) -> None:
        """Look at once: a notification was incomplete."""
        self._wake.set()

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Look until stopped; sooner again when a source did not answer."""
        while self._sources and not self._stopping.is_set():
            whole = self.look()
            self._stopping.wait(SOONEST_S)
            self._wake.wait((self._settings.backfill_s if whole else AGAIN_S) - SOONEST_S)
            self._wake.clear()

    def look(self) -> bool:
        """Ask every source once and hand over what fires; False when anything did not work."""
        answers = [self._ask(source) for source in self._sources]
        found = [answer for answer in answers if answer is not None]
        return self._take(unheard(found, self._settings)) and len(found) == len(answers)

    def _age(self, name: str) -> float:
        return self._clock.steady() - self._answered[name]

    def _ask(self, source: Source) -> list[Alert | None] | None:
        try:
            alerts = source.firing()
        except Retry as error:
            self._metrics.source_asked(source.name, "error")
            log.warning("a source of alerts does not answer", source=source.name, problem=str(error))
            return None
        self._metrics.source_asked(source.name, "ok")
        self._answered[source.name] = self._clock.steady()
        if len(alerts) > self._settings.alerts_cap:
            log.warning("more alerts than webhook.alerts_cap", source=source.name, alerts=len(alerts))
        return alerts[: self._settings.alerts_cap]

    def _take(self, alerts: list[Alert | None]) -> bool:
        found = convert(alerts, self._settings, SOURCE, self._clock.now())
        try:
            for begin in range(0, len(found.signals), BATCH):
                self._submit(found.signals[begin : begin + BATCH])
        except RemediatorError as error:
            self._metrics.signals(SOURCE, "unavailable")
            log.warning("alerts not stored, asked for again", problem=str(error))
            return False
        self._metrics.signals(SOURCE, "accepted", found.taken)
        self._metrics.signals(SOURCE, "refused", found.refused.total())
        for reason, count in found.refused.items():
            self._metrics.doubted(f"alert-{reason}", count)
        return True


def unheard(answers: Sequence[Sequence[Alert | None]], names: Webhook) -> list[Alert | None]:
    """The alerts of all answers, each identity from the first answer that knows it; silenced ones left out.

    Prometheus knows no silences, and after a restart it says that an old alert began just now.
    """
    known: set[str] = set()
    found: list[Alert | None] = []
    for answer in answers:
        here = set()
        for alert in answer:
            identity = "" if alert is None else episode(alert, names).rpartition(":")[0]
            if identity in known:
                continue
            if identity:
                here.add(identity)
            if alert is None or not alert.silenced:
                found.append(alert)
        known |= here
    return found
