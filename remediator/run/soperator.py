"""Records what Soperator says of its nodes in Node conditions and in Slurm's reasons; writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.kube.nodes import NodeView
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.signals.soperator import conditions, drains
from slurm_bridge.model import SlurmNode
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
log = logger(stage="soperator")

Submit = Callable[[Sequence[Signal]], None]


class Hosts(Protocol):
    """What the caches know of pools."""

    def is_soperators(self, node: NodeView) -> bool:
        """Whether this node is in a pool that Soperator runs."""


class Soperator:
    """One look every `every_s` seconds; without a pool of Soperator's it asks nobody anything."""

    def __init__(
        self,
        port: SlurmPort,
        hosts: Hosts,
        nodes: Callable[[], Iterable[NodeView]],
        submit: Submit,
        clock: Clock,
        every_s: float,
    ) -> None:
        self._port = port
        self._hosts = hosts
        self._nodes = nodes
        self._submit = submit
        self._clock = clock
        self._every_s = every_s
        self._told: frozenset[str] = frozenset()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(self._every_s)

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()

    def look(self) -> None:
        """One look; what cannot be read or stored now is read again next time."""
        views = {view.name: view for view in self._nodes() if self._hosts.is_soperators(view)}
        if not views:
            return
        now = self._clock.now()
        try:
            found = conditions(views.values(), now) + drains(self._slurm_nodes(), views, now)
            self._submit([signal for signal in found if signal.dedupe not in self._told])
        except RemediatorError as error:
            log.warning("what Soperator says is not recorded", problem=str(error))
            return
        self._told = frozenset(signal.dedupe for signal in found)

    def _slurm_nodes(self) -> Sequence[SlurmNode]:
        """Slurm's silence must not hide what Kubernetes says."""
        try:
            return self._port.nodes(deadline=DEADLINE_S)
        except RemediatorError as error:
            log.warning("what Soperator writes in Slurm is not seen", problem=str(error))
            return ()
