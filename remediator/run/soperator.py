"""Records what Soperator says of its nodes in Node conditions and in Slurm's reasons; writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.kube.nodes import NodeView
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.run.looks import Look, Submit
from remediator.signals.soperator import conditions, drains
from slurm_bridge.model import SlurmNode
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
log = logger(stage="soperator")


class Hosts(Protocol):
    """What the caches know of pools."""

    def is_soperators(self, node: NodeView) -> bool:
        """Whether this node is in a pool that Soperator runs."""


class Soperator(Look):
    """Without a pool of Soperator's it asks nobody anything."""

    stage = "soperator"
    unseen = "what Soperator says is not recorded"

    def __init__(
        self,
        port: SlurmPort,
        hosts: Hosts,
        nodes: Callable[[], Iterable[NodeView]],
        submit: Submit,
        clock: Clock,
        every_s: float,
    ) -> None:
        super().__init__(submit, clock, every_s)
        self._port = port
        self._hosts = hosts
        self._nodes = nodes

    def find(self) -> Sequence[Signal]:
        """Conditions of its nodes, and its drains in Slurm."""
        views = {view.name: view for view in self._nodes() if self._hosts.is_soperators(view)}
        if not views:
            return []
        now = self.clock.now()
        return conditions(views.values(), now) + drains(self._slurm_nodes(), views, now)

    def _slurm_nodes(self) -> Sequence[SlurmNode]:
        """Slurm's silence must not hide what Kubernetes says."""
        try:
            return self._port.nodes(deadline=DEADLINE_S)
        except RemediatorError as error:
            log.warning("what Soperator writes in Slurm is not seen", problem=str(error))
            return ()
