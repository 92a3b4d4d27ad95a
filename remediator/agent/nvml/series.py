"""The last pass as Prometheus series: absent is what could not be read, or was read too long ago."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from remediator.agent.nvml import table
from remediator.agent.nvml.library import READING, STATES
from remediator.agent.nvml.reading import Pass, Reading
from remediator.agent.nvml.table import GPU_LABELS, TABLE, Series


class GpuSeries(Collector):
    """Holds the last pass; `age` is the number of seconds since one ended, `late_s` what makes it too old."""

    def __init__(self, age: Callable[[], float], late_s: float) -> None:
        self._age, self._late_s = age, late_s
        self._last = Pass("starting")
        self._seconds = 0.0
        self._missing: frozenset[tuple[str, str, str]] = frozenset()
        self._unread: Counter[tuple[str, str]] = Counter()

    def show(self, found: Pass, seconds: float) -> None:
        """Take over a pass that took so long; a field is counted when it begins to be unreadable."""
        missing = frozenset(
            (reading.gpu.uuid, name, why)
            for reading in found.readings
            for name, why in reading.unread.items()
        )
        self._unread.update((name, why) for _, name, why in missing - self._missing)
        self._missing, self._last, self._seconds = missing, found, seconds

    def collect(self) -> Iterator[Metric]:
        """Every family, with or without samples."""
        last, age = self._last, self._age()
        fresh = last.readings if age <= self._late_s else ()
        yield from self._own(last, age)
        yield from _families(fresh)

    def _own(self, last: Pass, age: float) -> Iterator[Metric]:
        state = GaugeMetricFamily(
            "remediator_agent_gpu_state", "1 for what the agent makes of NVML.", labels=["state"]
        )
        for name in STATES:
            state.add_metric([name], float(name == last.state))
        yield state
        gpus = GaugeMetricFamily("remediator_agent_gpus", "GPUs known in this boot, lost ones included.")
        ages = GaugeMetricFamily(
            "remediator_agent_gpu_reading_age_seconds",
            "Since all GPUs were read; a call that hangs in the driver lets it grow.",
        )
        took = GaugeMetricFamily(
            "remediator_agent_gpu_read_seconds", "What the last reading of all GPUs took."
        )
        if last.state in {READING, "starting"}:
            gpus.add_metric([], len(last.readings))
            ages.add_metric([], age)
            took.add_metric([], self._seconds)
        yield from (gpus, ages, took)
        unread = CounterMetricFamily(
            "remediator_agent_gpu_unread",
            "Fields that could not be read, counted once a GPU and reason until they can be again.",
            labels=["field", "reason"],
        )
        for labels, count in sorted(self._unread.items()):
            unread.add_metric(labels, count)
        yield unread


def _families(readings: tuple[Reading, ...]) -> Iterator[Metric]:
    """Their samples are made as they are written: a scrape must not hold all of them."""
    for series in TABLE:
        family = Metric(f"remediator_{series.name}", series.help, series.kind)
        family.samples = _samples(series, readings)  # type: ignore[assignment]
        yield family


def _samples(series: Series, readings: tuple[Reading, ...]) -> Iterator[Sample]:
    name = f"remediator_{series.name}{'_total' if series.kind == 'counter' else ''}"
    names = (*GPU_LABELS, *series.labels)
    for reading in readings:
        gpu = (str(reading.gpu.index), reading.gpu.uuid, reading.gpu.pci or "")
        if series is table.LOST:
            yield Sample(name, dict(zip(names, gpu, strict=True)), float(reading.lost))
        for key, value in reading.values.items():
            if key.series is series:
                yield Sample(name, dict(zip(names, (*gpu, *key.labels), strict=True)), value)
