"""Looks at which Slurm nodes somebody else has drained; reads the list that the look for silence has read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from remediator.clock import Clock
from remediator.kube.nodes import NodeView
from remediator.model.signal import Signal
from remediator.run.conditions import Began
from remediator.run.looks import Look, Submit
from remediator.signals.drains import DRAIN, WATCH, drains, is_out, over, watch_began
from remediator.store import incidents, signals
from remediator.store.engine import Store
from slurm_bridge.model import SlurmNode
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
EVERY_S = 5.0


class LastList:
    """The newest list of Slurm's nodes that anybody here has read: it is heavy, 9 MB for 5,000 nodes."""

    def __init__(self, port: SlurmPort, clock: Clock, fresh_s: float) -> None:
        self._port = port
        self._clock = clock
        self._fresh_s = fresh_s
        self._nodes: tuple[SlurmNode, ...] = ()
        self._read_at = float("-inf")

    def keep(self, nodes: Sequence[SlurmNode]) -> None:
        """Somebody has just read it."""
        self._nodes, self._read_at = tuple(nodes), self._clock.steady()

    def nodes(self) -> tuple[SlurmNode, ...]:
        """The kept one, or one read now when nobody has read it of late; Retry and GiveUp as the port."""
        if self._clock.steady() - self._read_at > self._fresh_s:
            self.keep(self._port.nodes(deadline=DEADLINE_S))
        return self._nodes


class Hosts(Protocol):
    """What the caches know of pools, and of the Slurm nodes on machines."""

    def in_pool(self, node: NodeView) -> bool:
        """Whether the node is one that the service looks after."""

    def is_soperators(self, node: NodeView) -> bool:
        """Whether Soperator runs the node's pool."""

    def node_of(self, worker: str) -> str | None:
        """The node a Slurm node is on; None while it is on none."""


def waited_for(store: Store) -> dict[str, Signal]:
    """By worker, drains that incidents wait at the door for: one may be lifted while nobody looks."""
    with store.read() as connection:
        held = [one.id for one in incidents.held_at_the_door(connection)]
        found = [one for incident in held for one in signals.of_incident(connection, incident)]
    return {str(one.detail.get("worker")): one for one in found if one.kind == DRAIN}


class Drains(Look):
    """Each drain is handed in once, and once more when it is over; the service knows its own itself."""

    stage = "drains"
    unseen = "drains of others in Slurm are not seen"

    def __init__(
        self,
        listed: LastList,
        hosts: Hosts,
        nodes: Callable[[], Iterable[NodeView]],
        store: Store,
        submit: Submit,
        clock: Clock,
    ) -> None:
        super().__init__(submit, clock, EVERY_S)
        self._store = store
        self._listed = listed
        self._hosts = hosts
        self._nodes = nodes
        self._began = Began(store, WATCH)
        self._last: tuple[SlurmNode, ...] | None = None
        self._drained: dict[str, Signal] = {}
        self._over: list[Signal] = []

    def find(self) -> Sequence[Signal]:
        """All drains that stand, and the end of each that stood before."""
        listed, now = self._listed.nodes(), self.clock.now()
        if self._last is None:
            self._drained = waited_for(self._store)
        if listed is not self._last:
            # One that bears our reason by now, or whose worker is gone, is not over.
            free = {node.name for node in listed if not is_out(node)}
            ended = [over(one, now) for worker, one in self._drained.items() if worker in free]
            untold = [one for one in self._over if one.dedupe not in self._told]
            self._over = [*untold, *ended]
            self._drained = drains(listed, self._homes(listed), self._began(), now)
            self._last = listed
        return [watch_began(now), *self._drained.values(), *self._over]

    def _homes(self, listed: Iterable[SlurmNode]) -> dict[str, NodeView]:
        """Machines by worker, through the worker's pod and never by a likeness of names."""
        views = {view.name: view for view in self._nodes()}
        found = {}
        for node in listed:
            view = views.get(self._hosts.node_of(node.name) or "")
            if view is not None and self._hosts.in_pool(view) and not self._hosts.is_soperators(view):
                found[node.name] = view
        return found
