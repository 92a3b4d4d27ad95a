"""An alert of a threshold is asked about until somebody knows; what comes of it is a signal."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.model.faults import GPU_HOT, GPU_SLOWDOWN
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.observe.metrics import Metrics
from remediator.run import thresholds
from remediator.run.thresholds import FORGET_S, LOOK_S, SETTLE_S, Thresholds
from remediator.settings import Webhook
from remediator.signals.alertmanager import Alert
from remediator.signals.answers import AGAIN_S, DOUBTED, PASSED
from remediator.signals.episodes import convert
from tests.fakes.prometheus import FakePrometheus, steady

BEGAN = 1_000_000.0
LABELS = {"alertname": "GpuHot", "node": "gpu-0", "gpu": "3", "UUID": "GPU-a", "fault": GPU_HOT}


class World:
    """Prometheus, an inventory, and what was handed to the intake."""

    def __init__(self) -> None:
        self.clock, self.metrics = ManualClock(BEGAN), Metrics()
        self.prometheus = FakePrometheus()
        self.machines = {f"gpu-{n}": machine(f"gpu-{n}") for n in range(4)}
        self.taken: list[Signal] = []
        self.store_fails = False
        self.thresholds = Thresholds(self.prometheus, self, self.submit, self.metrics, self.clock)

    def machine(self, name: str) -> Machine | None:
        return self.machines.get(name)

    def submit(self, signals: Sequence[Signal]) -> None:
        if self.store_fails:
            raise Retry("disk full")
        self.taken += signals

    def reads(self, celsius: float | None, uuid: str = "GPU-a") -> None:
        """What every sample says at present; None: there is none."""
        now = self.clock.now()
        self.prometheus.series.clear()
        self.prometheus.limits(now - 3)
        if celsius is not None:
            labels = {"Hostname": "gpu-0", "gpu": "3", "UUID": uuid}
            self.prometheus.put("DCGM_FI_DEV_GPU_TEMP", labels, steady(celsius, now))

    def fires(self, *, firing: bool = True, **labels: str) -> Signal:
        """The alert comes by one of the doors."""
        alert = Alert(LABELS | labels, BEGAN - 30, firing=firing)
        (signal,) = convert([alert], Webhook(), "webhook", self.clock.now()).signals
        self.thresholds.submit([signal])
        return signal

    def look(self) -> list[Signal]:
        """What one look hands over."""
        before = len(self.taken)
        self.thresholds.look()
        return self.taken[before:]

    def holds(self) -> list[Signal]:
        """Two looks, as far apart as a soft fault needs."""
        first = self.look()
        self.clock.advance(SETTLE_S)
        self.reads(79)
        return first + self.look()

    def counted(self, outcome: str, reason: str = "") -> float | None:
        labels = {"outcome": outcome, "reason": reason}
        return self.metrics.registry.get_sample_value("remediator_thresholds_asked_total", labels)


def machine(name: str, **changes: Any) -> Machine:
    return Machine(name=name, uid=f"uid-{name}", boot_id=f"boot-{name}", pool="training", **changes)


@pytest.fixture
def world() -> World:
    return World()


def test_what_holds_is_evidence_of_the_nodes_present_boot(world: World) -> None:
    world.reads(79)
    alert = world.fires()
    (found,) = world.holds()
    assert (found.source, found.kind, found.node, found.boot_id) == (
        "condition",
        GPU_HOT,
        "gpu-0",
        "boot-gpu-0",
    )
    assert found.seen_at <= world.clock.now() - 225
    assert found.detail["episode"] == alert.dedupe
    assert found.detail["value"] == 79
    assert world.counted("holds") == 1


def test_an_alert_with_a_thousand_labels_does_not_crowd_out_the_answer(world: World) -> None:
    world.reads(79)
    many = {f"label_{number}": "x" * 10 for number in range(100)}
    alert = world.fires(firing=True, **many)
    (found,) = world.holds()
    assert (found.detail["labels"], found.detail["episode"]) == ({}, alert.dedupe)
    assert found.detail["queries"]


def test_a_hard_fault_is_told_at_once(world: World) -> None:
    world.reads(None)
    labels = {"Hostname": "gpu-0", "gpu": "3", "UUID": "GPU-a"}
    world.prometheus.put("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", labels, steady(0x40, BEGAN))
    world.fires(fault=GPU_SLOWDOWN)
    assert [one.kind for one in world.look()] == [GPU_SLOWDOWN]


def test_a_soft_fault_that_passes_within_the_minute_was_none(world: World) -> None:
    world.reads(79)
    world.fires()
    assert world.look() == []
    world.clock.advance(30)
    world.reads(60)
    assert [one.kind for one in world.look()] == [PASSED]


def test_what_holds_is_told_again_every_two_minutes_and_no_oftener(world: World) -> None:
    world.reads(79)
    world.fires()
    world.look()
    world.clock.advance(SETTLE_S)
    for _ in range(24):
        world.reads(79)
        world.fires()
        world.look()
        world.clock.advance(15)
    told = [one for one in world.taken if one.source == "condition"]
    assert len({one.dedupe for one in told}) == len(told) == 360 / AGAIN_S


def test_what_has_passed_is_recorded_and_asked_about_only_when_it_is_told_again(world: World) -> None:
    world.reads(60)
    world.fires()
    (found,) = world.look()
    assert (found.kind, found.detail["outcome"]) == (PASSED, "passed")
    assert world.look() == []
    world.fires()
    assert [one.kind for one in world.look()] == [PASSED]


@pytest.mark.parametrize(
    ("celsius", "reason"),
    [(None, "absent"), (9.2e18, "implausible"), (0.0, "implausible"), (79000.0, "implausible")],
)
def test_what_nobody_knows_is_recorded_with_its_reason_and_asked_again(
    celsius: float | None, reason: str, world: World
) -> None:
    world.reads(celsius)
    world.fires()
    found = world.look() + world.look()
    assert {one.kind for one in found} == {DOUBTED}
    assert {one.detail["reason"] for one in found} == {reason}
    assert len({one.dedupe for one in found}) == 1
    assert any("GPU-a" in query for query in found[0].detail["queries"])
    world.reads(79)
    assert [one.kind for one in world.holds()] == [GPU_HOT]


def test_a_series_that_vanished_as_the_alert_resolved_is_no_recovery(world: World) -> None:
    world.reads(79)
    world.fires()
    assert len(world.holds()) == 1
    assert world.fires(firing=False).kind == "alert-resolved"
    world.clock.advance(AGAIN_S)
    world.reads(None)
    (found,) = world.look()
    assert (found.kind, found.detail["reason"]) == (DOUBTED, "absent")


def test_a_silent_prometheus_is_asked_once_in_a_look_and_nothing_is_known(world: World) -> None:
    world.reads(79)
    world.prometheus.silent = True
    for gpu in range(5):
        world.fires(UUID=f"GPU-{gpu}")
    assert [one.detail["reason"] for one in world.look()] == ["no-answer"] * 5
    assert len(world.prometheus.asked) == 1
    assert world.counted("unknown", "no-answer") == 5


def test_without_a_prometheus_no_threshold_is_ever_known(world: World) -> None:
    world.thresholds = Thresholds(None, world, world.submit, world.metrics, world.clock)
    world.fires()
    assert [one.detail["reason"] for one in world.look()] == ["no-prometheus"]


@pytest.mark.parametrize("changed", [None, machine("gpu-0").model_copy(update={"pool": None})])
def test_nobody_asks_about_a_node_that_is_unknown_or_in_no_pool(
    changed: Machine | None, world: World
) -> None:
    world.reads(79)
    if changed is None:
        world.machines.clear()
    else:
        world.machines["gpu-0"] = changed
    world.fires()
    assert world.look() == []
    assert world.prometheus.asked == []


@pytest.mark.parametrize("celsius", [None, 79])
def test_a_node_that_is_out_of_service_is_asked_about_seldom(celsius: float | None, world: World) -> None:
    """Its threshold may pass while its jobs are given time."""
    world.machines["gpu-0"] = machine("gpu-0", fenced_by="i1")
    world.reads(celsius)
    world.fires()
    world.clock.advance(SETTLE_S)
    world.look()
    asked = len(world.prometheus.asked)
    world.clock.advance(AGAIN_S - 1)
    assert world.look() == []
    assert len(world.prometheus.asked) == asked


def test_an_alert_that_nobody_tells_of_any_more_is_forgotten(world: World) -> None:
    world.reads(None)
    world.fires()
    world.clock.advance(FORGET_S)
    assert len(world.look()) == 1
    world.clock.advance(1)
    assert world.look() == []


def test_what_could_not_be_stored_is_asked_again(world: World) -> None:
    world.reads(60)
    world.fires()
    world.store_fails = True
    world.look()
    world.store_fails = False
    assert [one.kind for one in world.look()] == [PASSED]


def test_a_slow_prometheus_ends_the_look_and_the_rest_comes_first_in_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.reads(None)
    for gpu in range(4):
        world.fires(UUID=f"GPU-{gpu}")

    def slow(query: str, at: float) -> Any:
        world.clock.advance(LOOK_S / 4)
        return world.prometheus(query, at)

    monkeypatch.setattr(world.thresholds, "_ask", slow)
    asked = [{one.detail["labels"]["UUID"] for one in world.look()} for _ in range(2)]
    assert len(asked[0]) < 4
    assert not asked[0] & asked[1]


def test_every_plain_signal_goes_through_untouched_and_is_not_asked_about(world: World) -> None:
    signal = world.fires(fault="", xid="79")
    assert world.taken == [signal]
    assert world.look() == []


def test_a_new_alert_is_asked_about_at_once_and_the_loop_ends_when_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thresholds, "EVERY_S", 3600)
    world.reads(60)
    thread = threading.Thread(target=world.thresholds.run, daemon=True)
    thread.start()
    world.fires()
    while not any(one.source == "condition" for one in world.taken):  # ends by the suite's timeout
        thread.join(0.01)
    world.thresholds.stop()
    thread.join(30)
    assert not thread.is_alive()
