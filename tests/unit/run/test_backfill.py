"""Missed alerts come in; a source that is silent is never read as all is well."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.clock import ManualClock, SystemClock
from remediator.errors import Retry
from remediator.model.signal import Signal
from remediator.observe.metrics import Metrics
from remediator.run import backfill
from remediator.run.backfill import Backfill, sources_of
from remediator.settings import Settings, Webhook
from remediator.signals.alertmanager import Alert, read_notification, told
from remediator.signals.episodes import convert
from remediator.signals.intake import Intake
from remediator.store.engine import open_store
from remediator.store.schema import signal
from tests.unit.signals.alerts import SECOND, STARTED, alert, body

LABELS = {"alertname": "GpuXid", "node": "gpu-1", "xid": "79"}
HERE = Alert(LABELS, SECOND + 0.4)


@dataclass
class Answers:
    """A source that says what it is told; None does not answer."""

    name: str
    alerts: list[Alert | None] | None = field(default_factory=list)
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def firing(self) -> list[Alert | None]:
        self.asked.release()
        if self.alerts is None:
            raise Retry("no answer")
        return self.alerts


class World:
    """Alertmanager, Prometheus and what was handed over."""

    def __init__(self, **settings: float) -> None:
        self.clock, self.metrics = ManualClock(SECOND + 100.0), Metrics()
        self.alertmanager, self.prometheus = Answers("alertmanager"), Answers("prometheus")
        self.taken: list[Signal] = []
        self.store_fails = False
        self.backfill = Backfill(
            [self.alertmanager, self.prometheus],
            Webhook.model_validate(settings),
            self.submit,
            self.metrics,
            self.clock,
        )

    def submit(self, signals: Sequence[Signal]) -> None:
        if self.store_fails:
            raise Retry("disk full")
        self.taken += signals

    def number(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"remediator_{name}", labels)


def test_what_fires_anywhere_comes_in_once() -> None:
    world = World()
    other = Alert(LABELS | {"node": "gpu-2"}, SECOND)
    world.alertmanager.alerts = [HERE]
    world.prometheus.alerts = [Alert(LABELS, float(SECOND)), other]
    assert world.backfill.look()
    assert [(one.source, one.node) for one in world.taken] == [("backfill", "gpu-1"), ("backfill", "gpu-2")]


def test_prometheus_does_not_bring_in_what_people_silenced() -> None:
    world = World()
    world.alertmanager.alerts = [Alert(LABELS, SECOND, silenced=True)]
    world.prometheus.alerts = [Alert(LABELS, float(SECOND))]
    assert world.backfill.look()
    assert world.taken == []


def test_prometheus_that_restarted_does_not_begin_an_old_episode_anew() -> None:
    world = World()
    world.alertmanager.alerts = [HERE]
    world.prometheus.alerts = [Alert(LABELS, SECOND + 90.0)]
    world.backfill.look()
    assert [int(one.seen_at) for one in world.taken] == [SECOND]


def test_two_episodes_in_one_answer_are_both_kept() -> None:
    world = World()
    world.alertmanager.alerts = [HERE, Alert(LABELS, SECOND + 50.0)]
    world.backfill.look()
    assert len(world.taken) == 2


@pytest.mark.parametrize("silent", ["alertmanager", "prometheus"])
def test_silent_source_is_counted_and_ages_and_the_other_still_counts(silent: str) -> None:
    world = World()
    assert world.number("watch_last_event_age_seconds", resource=silent) == float("inf")
    assert world.backfill.look()
    world.clock.advance(70)
    for source in (world.alertmanager, world.prometheus):
        source.alerts = None if source.name == silent else [HERE]
    assert not world.backfill.look()
    assert world.number("watch_last_event_age_seconds", resource=silent) == 70
    count = {"source": silent, "outcome": "error"}
    assert world.number("backfill_requests_total", **count) == 1
    assert len(world.taken) == 1


def test_alerts_that_could_not_be_stored_are_asked_for_again() -> None:
    world = World()
    world.alertmanager.alerts = [HERE]
    world.store_fails = True
    assert not world.backfill.look()
    world.store_fails = False
    assert world.backfill.look()
    assert len(world.taken) == 1
    counts = [
        world.number("signals_received_total", source="backfill", result=result)
        for result in ("unavailable", "accepted")
    ]
    assert counts == [1, 1]


def test_unreadable_and_too_many_alerts_do_not_stop_the_rest() -> None:
    world = World(alerts_cap=2)
    world.alertmanager.alerts = [None, HERE, Alert(LABELS | {"node": "gpu-2"}, SECOND)]
    assert world.backfill.look()
    assert [(one.kind, one.node) for one in world.taken] == [("xid", "gpu-1"), ("alert-refused", "")]


def test_asked_for_it_looks_at_once_and_stops_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "SOONEST_S", 0.0)
    world = World(backfill_s=3600)
    thread = threading.Thread(target=world.backfill.run, daemon=True)
    thread.start()
    assert world.alertmanager.asked.acquire(timeout=30)
    world.backfill.ask()
    assert world.alertmanager.asked.acquire(timeout=30)
    world.backfill.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_without_a_source_there_is_nothing_to_run() -> None:
    Backfill([], Webhook(), lambda _: None, Metrics(), ManualClock()).run()


def test_only_named_servers_are_asked() -> None:
    plain = {
        "cluster": {"name": "lab"},
        "slurm": {"url": "http://s:1"},
        "pools": {"g": {"node_selector": {"a": "b"}}},
    }
    assert sources_of(Settings.model_validate(plain)) == []
    both = plain | {"prometheus": {"url": "http://p:9090/prom"}, "alertmanager": {"url": "https://a"}}
    assert [one.name for one in sources_of(Settings.model_validate(both))] == ["alertmanager", "prometheus"]


def test_webhook_and_backfill_three_times_each_are_one_row(tmp_path: Path) -> None:
    world = World()
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    intake = Intake(store, lambda _rows, _seconds: None, SystemClock())
    intake.start()
    looking = Backfill(
        [world.alertmanager, world.prometheus], Webhook(), intake.submit, world.metrics, world.clock
    )
    content = body(alert(prometheus_replica="a"), alert(starts=STARTED, prometheus_replica="b"))
    world.prometheus.alerts = [Alert(LABELS, float(SECOND))]
    answers: list[list[Alert | None] | None] = [[HERE], None, []]
    for answer in answers:
        world.alertmanager.alerts = answer
        looking.look()
        found = convert(told(read_notification(content).entries), Webhook(), "webhook", world.clock.now())
        intake.submit(found.signals)
    intake.stop()
    with store.write() as connection:
        assert connection.execute(sa.select(signal.c.node)).scalars().all() == ["gpu-1"]
    store.close()
