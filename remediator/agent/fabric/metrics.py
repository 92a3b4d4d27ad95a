"""`remediator_ib_…`: the last look at all ports, as Prometheus wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from remediator.agent.fabric.counters import Totals, family
from remediator.agent.fabric.ports import Port
from remediator.agent.fabric.topology import Place

PREFIX = "remediator_ib_"
LABELS = ("device", "port", "rail", "gpu")
ABOUT = ("pci", "netdev", "link_layer", "firmware", "model", "description")

_COUNTERS = {
    "data_bytes": ("Data sent and received, in bytes.", "direction"),
    "packets": ("Packets sent and received.", "direction"),
    "wait_ticks": ("Ticks in which the port had data and could not send; the unit is the device's own.", ""),
    "discards": ("Packets thrown away instead of sent.", ""),
    "link_downed": ("Times the link went down, by the port's own count.", ""),
    "link_recoveries": ("Times the link recovered from an error.", ""),
    "symbol_errors": ("Symbol errors on the wire.", ""),
    "carrier_changes": ("Changes of carrier of the port's network interface.", ""),
    "errors": ("Errors by the name of their counter file.", "type"),
    "events": ("What the other counter files count, by their names.", "type"),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One port: `port` is None while its device is gone, `best` for a port that was never up."""

    key: tuple[str, str]
    rail: str
    place: Place
    port: Port | None
    best: float | None = None
    totals: Totals = field(default_factory=Totals)

    @property
    def labels(self) -> tuple[str, ...]:
        """device, port, rail, gpu."""
        return (*self.key, self.rail, self.place.gpu)


@dataclass(frozen=True, slots=True)
class Look:
    """All ports at one time; `at` is wall time, 0 before the first look."""

    ports: tuple[Shown, ...] = ()
    devices: int = 0
    at: float = 0.0
    seconds: float = 0.0


class FabricMetrics(Collector):
    """Shows the newest look. What a look could not read is absent, never 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.look = Look()
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """All families, also while there are no ports."""
        look = self.look
        yield _gauge("devices", "Devices in /sys/class/infiniband, without those excluded.", look.devices)
        yield _gauge("last_look_timestamp_seconds", "When the ports were last read, 0 = never.", look.at)
        yield _gauge("look_seconds", "Time of the last look.", look.seconds)
        yield _about(look)
        yield from _states(look)
        yield from _counters(look)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, value=value)


def _about(look: Look) -> Metric:
    info = GaugeMetricFamily(f"{PREFIX}info", "What the port is; always 1.", labels=(*LABELS, *ABOUT))
    for one in look.ports:
        if one.port is not None:
            place = (one.place.pci, one.port.netdev, one.port.link_layer)
            what = (one.place.firmware, one.place.model, one.place.description)
            info.add_metric((*one.labels, *place, *what), 1)
    return info


def _states(look: Look) -> Iterator[Metric]:
    gauges = {
        "up": "1: ACTIVE and LinkUp. 0: not, or its device is gone.",
        "state_id": "Logical state: 1 down, 2 init, 3 armed, 4 active.",
        "physical_state_id": "Physical state: 2 polling, 3 disabled, 5 link up, 6 recovering.",
        "rate_bytes_per_second": "Signalling rate of the link.",
        "best_rate_bytes_per_second": "Highest rate it was up at in the last days; absent: it never was.",
        "unreadable_files": "Files of the port that gave no number in the last look.",
    }
    families = {name: GaugeMetricFamily(PREFIX + name, text, labels=LABELS) for name, text in gauges.items()}
    for one in look.ports:
        for name, value in _values(one).items():
            if value is not None:
                families[name].add_metric(one.labels, value)
    yield from families.values()


def _values(one: Shown) -> Mapping[str, float | None]:
    if one.port is None:
        return {"up": 0, "best_rate_bytes_per_second": one.best}
    return {
        "up": one.port.up,
        "state_id": one.port.state_id,
        "physical_state_id": one.port.physical_id,
        "rate_bytes_per_second": one.port.rate,
        "best_rate_bytes_per_second": one.best,
        "unreadable_files": one.port.unreadable,
    }


def _counters(look: Look) -> Iterator[Metric]:
    families = {
        name: CounterMetricFamily(PREFIX + name, text, labels=(*LABELS, second) if second else LABELS)
        for name, (text, second) in _COUNTERS.items()
    }
    stuck = GaugeMetricFamily(
        f"{PREFIX}counter_stuck", "1: the counter stands at its end.", labels=(*LABELS, "type")
    )
    resets = CounterMetricFamily(
        f"{PREFIX}counter_resets", "Looks that found counters set back.", labels=LABELS
    )
    for one in look.ports:
        resets.add_metric(one.labels, one.totals.resets)
        for name in one.port.counters if one.port else ():
            kind, second = family(name)
            labels = (*one.labels, second) if second else one.labels
            families[kind].add_metric(labels, one.totals.values[name])
        for name in sorted(one.totals.stuck):
            stuck.add_metric((*one.labels, name), 1)
    yield from (*families.values(), resets, stuck)
