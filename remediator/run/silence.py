"""Looks for machines that are not heard any more: agents' heartbeats, beside Slurm's nodes and Kubernetes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.kube.nodes import NodeView
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.run.heartbeats import Heartbeats
from remediator.run.lost_runs import LostRuns
from remediator.run.outage import Outage
from remediator.signals.silence import Sight, outage, silences
from slurm_bridge.model import SlurmNode
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
STALE_S = 120.0
SOON_S = 5.0
APART_S = 1.0  # between two looks, however many machines are lost meanwhile
BLIND = f"the API server has not been heard for {STALE_S:.0f} s"
log = logger(stage="silence")

Submit = Callable[[Sequence[Signal]], None]


class Hosts(Protocol):
    """What the caches know of machines."""

    def machine(self, name: str) -> Machine | None:
        """The node of exactly this name, or None."""

    def node_of(self, worker: str) -> str | None:
        """The node a Slurm node is on; None while it is on none."""


class Silence:
    """One look every `every_s` seconds, every 5 s while one is silent, at once when a kubelet is lost.
    `listed` is told of each list of Slurm's nodes that was read.
    """

    def __init__(
        self,
        port: SlurmPort,
        heartbeats: Heartbeats,
        hosts: Hosts,
        nodes: Callable[[], Iterable[NodeView]],
        watch_age: Callable[[], float],
        submit: Submit,
        outage: Outage,
        clock: Clock,
        every_s: float,
        listed: Callable[[Sequence[SlurmNode]], None] = lambda _: None,
    ) -> None:
        self._port = port
        self._listed = listed
        self._heartbeats = heartbeats
        self._hosts = hosts
        self._nodes = nodes
        self._watch_age = watch_age
        self._submit = submit
        self._outage = outage
        self._clock = clock
        self._every_s = every_s
        self._lost_runs = LostRuns(port, hosts, clock)
        self._silent_since: dict[str, float] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.is_set():
            self._wake.clear()
            found = self.look()
            self._stopping.wait(min(APART_S, self._every_s))
            self._wake.wait(min(SOON_S, self._every_s) if found else self._every_s)

    def soon(self) -> None:
        """A kubelet was lost: look now."""
        self._wake.set()

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()
        self._wake.set()

    def look(self) -> bool:
        """One look; whether a machine was silent. Without Slurm or a fresh watch nothing is concluded."""
        try:
            if self._watch_age() > STALE_S:
                self._outage.saw(BLIND)
                return True
            nodes = self._port.nodes(deadline=DEADLINE_S)
            self._listed(nodes)
            slurm = {node.name: node for node in nodes}
            self._remember(slurm)
            sights = self._sights(slurm)
            self._outage.saw(outage(sights))
            self._submit([*silences(sights, self._clock.now()), *self._lost_runs.look(slurm)])
        except RemediatorError as error:
            self._silent_since.clear()
            log.warning("silence is not seen", problem=str(error))
            return False
        return self._outage.says() is not None or any(map(_is_noticeable, sights))

    def _remember(self, slurm: Mapping[str, SlurmNode]) -> None:
        silent = {name for name, node in slurm.items() if node.is_silent}
        now = self._clock.steady()
        self._silent_since = {name: self._silent_since.get(name, now) for name in silent}

    def _sights(self, slurm: Mapping[str, SlurmNode]) -> list[Sight]:
        """Machines in service; an agent counts as heard only in their present boot."""
        heard = self._heartbeats.quiet()
        found = []
        for view in self._nodes():
            machine = self._hosts.machine(view.name)
            if machine is None or not _in_service(machine, slurm):
                continue
            boot_id, quiet_s = heard.get(view.name, ("", 0.0))
            quiet = quiet_s if boot_id and boot_id == machine.boot_id else None
            found.append(Sight(view.name, machine.boot_id, quiet, self._slurmd_s(machine, slurm), view.ready))
        return found

    def _slurmd_s(self, machine: Machine, slurm: Mapping[str, SlurmNode]) -> float | None:
        """Seconds for which all its slurmds have been silent; 0.0 when one answers, None when unknown."""
        names = machine.slurm_nodes
        if not names or any(name not in slurm for name in names):
            return None
        if any(name not in self._silent_since for name in names):
            return 0.0
        now = self._clock.steady()
        return max(min(now - self._silent_since[name] for name in names), 0.1)


def _is_noticeable(sight: Sight) -> bool:
    return sight.misses or sight.slurmd_silent or sight.ready is not True


def _in_service(machine: Machine, slurm: Mapping[str, SlurmNode]) -> bool:
    """In a pool, and neither fenced, cordoned nor drained: what somebody works on may be silent."""
    drained = any(name in slurm and slurm[name].is_drain for name in machine.slurm_nodes)
    return machine.pool is not None and machine.fenced_by is None and not machine.cordoned and not drained
