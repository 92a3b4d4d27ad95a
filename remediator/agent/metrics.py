"""The agent's own metrics, zero from the start; `README.md` in this folder is their table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from remediator.agent.checkpoint_view import View
from remediator.agent.events import KINDS
from remediator.agent.fabric.metrics import FabricMetrics
from remediator.model.signal import KernelEvent

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series

LookedAt = Callable[[], tuple[tuple[str, float, tuple[View, ...]], ...]]
MOST_JOBS = 200
RESULTS = ("accepted", "refused", "retry")
MOST_XIDS = 256
_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class FaultCounters:
    """Lines that name a fault, and their bursts; pairs of code and device beyond 256 are `other`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._xids = Counter(
            "remediator_agent_xid",
            "XID lines by code and PCI address (synthetic 79 included).",
            ["xid", "pci"],
            registry=registry,
        )
        self._bursts = Counter(
            "remediator_agent_xid_bursts",
            "Bursts of XID lines: lines of one fault with no pause of 180 s, of 15 s for XID 13.",
            ["xid", "pci"],
            registry=registry,
        )
        self._sxids = Counter(
            "remediator_agent_sxid",
            "SXid events by code and NVSwitch; the lines that go on with one are not counted.",
            ["sxid", "pci"],
            registry=registry,
        )

    def count(self, event: KernelEvent, *, begins: bool) -> None:
        """Count one line, and its burst if it `begins` one."""
        sxid = event.extra.get("sxid")
        if sxid is not None:
            self._sxids.labels(*self._few(str(sxid), event.pci)).inc()
        if event.xid is not None:
            pair = self._few(str(event.xid), event.pci)
            self._xids.labels(*pair).inc()
            self._bursts.labels(*pair).inc(1 if begins else 0)

    def _few(self, code: str, pci: str | None) -> tuple[str, str]:
        pair = (code, pci or "")
        if pair not in self._seen and len(self._seen) >= MOST_XIDS:
            return "other", "other"
        self._seen.add(pair)
        return pair


class Metrics:
    """Counters since the process began; each agent has a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=registry)
        self._info = Gauge(
            "remediator_agent_info",
            "Whose agent this is, and the node's present boot; always 1.",
            ["node", "boot_id"],
            registry=registry,
        )
        self.records = Counter(
            "remediator_agent_records",
            "Kernel-log records of the kernel itself that were read.",
            registry=registry,
        )
        self.events = Counter(
            "remediator_agent_events", "Events found in them, by kind.", ["kind"], registry=registry
        )
        self._faults = FaultCounters(registry)
        self.lost = Counter(
            "remediator_agent_records_lost",
            "Records that a gap in the numbers says were lost.",
            registry=registry,
        )
        self.pushes = Counter(
            "remediator_agent_pushes",
            "Pushes by outcome, heartbeats included.",
            ["result"],
            registry=registry,
        )
        self.push_seconds = Histogram(
            "remediator_agent_push_seconds", "Time of one push.", buckets=_BUCKETS, registry=registry
        )
        self.dead_letters = Counter(
            "remediator_agent_dead_letters", "Events given up, by reason.", ["reason"], registry=registry
        )
        self.state_errors = Counter(
            "remediator_agent_state_errors",
            "Failed writes of cursor, spool or dead letters.",
            registry=registry,
        )
        self.waiting = Gauge(
            "remediator_agent_events_waiting", "Events read but not yet accepted.", registry=registry
        )
        self.last_accepted = Gauge(
            "remediator_agent_last_accepted_timestamp_seconds", "When a push was last accepted, 0 = never.",
            registry=registry,
        )  # fmt: skip
        self.fabric = FabricMetrics(registry)
        self._start_at_zero()

    def _start_at_zero(self) -> None:
        """Show every known label value before the first event, so that a rate sees the first one."""
        for kind in KINDS:
            self.events.labels(kind)
        for result in RESULTS:
            self.pushes.labels(result)
        for reason in ("refused", "older_boot"):
            self.dead_letters.labels(reason)

    def speak_for(self, node: str, boot_id: str) -> None:
        """Name the node and its present boot, so that rules can join both to the counters."""
        self._info.clear()
        self._info.labels(node, boot_id).set(1)

    def count_fault(self, event: KernelEvent, *, begins: bool) -> None:
        """Count a line that names a fault, and its burst if it `begins` one."""
        self._faults.count(event, begins=begins)

    def show_checkpoints(self, looks: LookedAt, now: Callable[[], float]) -> None:
        """Show the jobs' checkpoints as last looked at; asked at each scrape."""
        self.registry.register(Checkpoints(looks, now))


class Checkpoints(Collector):
    """Age, cadence and duration of saves, by job; jobs that are not seen any more vanish."""

    LABELS = ("job", "user", "jobname")

    def __init__(self, looks: LookedAt, now: Callable[[], float]) -> None:
        self._looks, self._now = looks, now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The series of the 200 jobs that have saved last."""
        look = GaugeMetricFamily(
            "remediator_checkpoint_look_age_seconds", "Time since a glob was looked at without a problem.",
            labels=("glob",),
        )  # fmt: skip
        age = self._family("age_seconds", "Time since the newest complete checkpoint.")
        save = self._family("save_seconds", "How long the last save took, at least.")
        cadence = self._family("cadence_seconds", "Usual time between two complete checkpoints.")
        partial = self._family("partial", "Unfinished checkpoints that nobody works on.")
        now = self._now()
        for glob, looked_at, views in self._looks():
            look.add_metric((glob,), now - looked_at)
            for view in views[:MOST_JOBS]:
                labels = (view.key.job, view.key.user, view.key.jobname)
                values = ((age, now - view.times[0] if view.times else None), (save, view.save_s),
                          (cadence, view.cadence_s), (partial, len(view.partial)))  # fmt: skip
                for family, value in values:
                    if value is not None:
                        family.add_metric(labels, value)
        yield from (look, age, save, cadence, partial)

    def _family(self, name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"remediator_checkpoint_{name}", text, labels=self.LABELS)
