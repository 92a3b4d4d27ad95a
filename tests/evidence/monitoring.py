"""The Prometheus of a trace: alerts go on firing, and the samples behind them can be asked for."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.clock import Clock
from remediator.model.signal import Signal
from remediator.observe.metrics import Metrics
from remediator.run.looks import Submit
from remediator.run.thresholds import Hosts, Thresholds
from remediator.run.trace import AlertRow
from tests.fakes.prometheus import FakePrometheus, steady

LOOK_S, TOLD_AGAIN_S = 15.0, 60.0
COOL_S = 150.0  # after its alert has ended a sensor is read for so long: what held is asked again by then
WELL_C = 45.0


class Monitoring:
    """Which alerts fire, what their sensors say, and the service's own questions about them."""

    def __init__(self, hosts: Hosts, submit: Submit, clock: Clock) -> None:
        self._clock = clock
        self._hosts = hosts
        self._prometheus = FakePrometheus()
        self._thresholds = Thresholds(self._ask, hosts, submit, Metrics(), clock)
        self._firing: dict[tuple[str, str], tuple[AlertRow, Sequence[Signal]]] = {}
        self._cool: dict[tuple[str, str], tuple[AlertRow, float]] = {}
        self._told_at = 0.0
        self.next_look = 0.0

    def take(self, row: AlertRow, signals: Sequence[Signal]) -> None:
        """An alert of a machine in service fires or is resolved."""
        if row.alert.get("status") == "firing":
            self._firing[_key(row)] = (row, signals)
        self._thresholds.submit(signals)
        self.next_look = self._clock.now()

    def end(self, row: AlertRow) -> None:
        """An alert is resolved, wherever its machine is by now."""
        ended = self._firing.pop(_key(row), None)
        if ended is not None and "value" in ended[0].alert["labels"]:
            self._cool[_key(row)] = ended[0], self._clock.now() + COOL_S

    def forget(self, node: str) -> None:
        """The machine is taken away: nothing that it measured goes on."""
        self._firing = {key: one for key, one in self._firing.items() if one[0].node != node}
        self._cool = {key: one for key, one in self._cool.items() if one[0].node != node}

    @property
    def busy(self) -> bool:
        """Whether anything fires that may have to be asked about."""
        return bool(self._firing or self._cool)

    def look(self) -> None:
        """The backfill tells again of what fires, and the samples are asked for."""
        now = self._clock.now()
        if now - self._told_at >= TOLD_AGAIN_S:
            self._told_at = now
            for _, signals in self._firing.values():
                self._thresholds.submit(signals)
        self._cool = {key: one for key, one in self._cool.items() if one[1] > now}
        self._thresholds.look()
        self.next_look = now + LOOK_S

    def _ask(self, query: str, at: float) -> object:
        self._prometheus.series.clear()
        self._prometheus.limits(at - 3)
        for row, _ in self._cool.values():
            self._is_hot(row, WELL_C, at)
        for row, _ in self._firing.values():
            labels = row.alert["labels"]
            if "value" in labels:
                self._is_hot(row, float(labels["value"]), at)
            elif labels.get("fault") == "ib-port-down":
                self._port_is_down(labels, row.node, at)
        return self._prometheus(query, at)

    def _is_hot(self, row: AlertRow, celsius: float, at: float) -> None:
        labels = row.alert["labels"]
        names = {"Hostname": row.node, "gpu": labels["gpu"], "UUID": labels["UUID"]}
        self._prometheus.put("DCGM_FI_DEV_GPU_TEMP", names, _samples(celsius, at))

    def _port_is_down(self, labels: dict[str, str], node: str, at: float) -> None:
        machine = self._hosts.machine(node)
        where = {name: labels.get(name, "") for name in ("job", "instance")}
        port = where | {name: labels.get(name, "") for name in ("device", "port", "rail")}
        boot = machine.boot_id if machine else ""
        self._prometheus.put("remediator_agent_info", where | {"node": node, "boot_id": boot}, steady(1, at))
        self._prometheus.put("remediator_ib_up", port, steady(0, at))


def _key(row: AlertRow) -> tuple[str, str]:
    return row.node, str(row.alert.get("labels", {}).get("alertname"))


def _samples(value: float, at: float) -> list[tuple[float, float]]:
    """A hot GPU is hot in every sample; a broken sensor says something impossible in one of them."""
    if 1 <= value <= 130:
        return [(when, value + (number % 3) * 0.5) for number, (when, _) in enumerate(steady(value, at))]
    well = [(when, WELL_C + number % 3) for number, (when, _) in enumerate(steady(WELL_C, at))]
    return [*well[:-3], (well[-3][0], value), *well[-2:]]
