"""Looks at what other tools write on nodes and worker pods, in the watch caches; asks nobody anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from remediator.clock import Clock
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from remediator.kube.soperator import CONDITIONS
from remediator.model.signal import ONLY_RECORDED, Signal
from remediator.observe.logs import logger
from remediator.observe.metrics import Metrics
from remediator.run.looks import Look, Submit
from remediator.signals.conditions import (
    Seen,
    Subject,
    is_virtual,
    of_node,
    of_pod,
    see,
    watch_began,
)
from remediator.signals.reporters import Table
from remediator.store import signals
from remediator.store.engine import Store

EVERY_S = 5.0
MOST_NAMED = 40
log = logger(stage="conditions")


class Hosts(Protocol):
    """What the caches know of pools."""

    def in_pool(self, node: NodeView) -> bool:
        """Whether the node is one that the service looks after."""


class Began:
    """When the first look of this name in the life of the store was; None before it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._at: float | None = None

    def __call__(self) -> float | None:
        """Asked of the store until it knows."""
        if self._at is None:
            with self._store.read() as connection:
                self._at = signals.first_seen(connection, self._name)
        return self._at


class _Known(NamedTuple):
    """Something as it was when it was read last; `seen` is None where nobody is to look."""

    written: NodeView | PodView
    host: NodeView
    seen: Seen | None


class NodeConditions(Look):
    """What has not changed since the last look is not read again. `began` says when the first look in the
    life of the store was, None before it.
    """

    stage = "conditions"
    unseen = "what other tools say of nodes is not recorded"

    def __init__(
        self,
        table: Table,
        hosts: Hosts,
        nodes: Callable[[], Iterable[NodeView]],
        pods: Callable[[], Iterable[PodView]],
        began: Callable[[], float | None],
        metrics: Metrics,
        submit: Submit,
        clock: Clock,
    ) -> None:
        super().__init__(submit, clock, EVERY_S)
        self._table = table
        self._hosts = hosts
        self._nodes = nodes
        self._pods = pods
        self._began = began
        self._metrics = metrics
        self._known: dict[str, _Known] = {}
        self._unknown: set[str] = set()

    def find(self) -> Sequence[Signal]:
        """That somebody watches, and every present fault on a node of a pool."""
        now, began = self.clock.now(), self._began()
        hosts = {view.name: view for view in self._nodes()}
        known = {view.uid: self._look_at(view, view, began, now) for view in hosts.values()}
        for pod in self._pods():
            if pod.slurm and pod.node in hosts:
                known[pod.uid] = self._look_at(pod, hosts[pod.node], began, now)
        self._known = known
        seen = [one.seen for one in known.values() if one.seen is not None and one.seen.faults]
        return [watch_began(now), *(signal for one in seen for signal in one.faults.values())]

    def _look_at(
        self, written: NodeView | PodView, host: NodeView, began: float | None, now: float
    ) -> _Known:
        known = self._known.get(written.uid)
        if known is not None and known.written is written and known.host is host:
            return known
        if not self._hosts.in_pool(host) or is_virtual(host):
            return _Known(written, host, None)
        subject = of_pod(written, host) if isinstance(written, PodView) else of_node(written)
        return _Known(written, host, self._read(subject, known.seen if known else None, began, now))

    def _read(self, subject: Subject, before: Seen | None, began: float | None, now: float) -> Seen:
        seen = see(subject, before, self._table, began, now)
        for condition in subject.conditions:
            if not self._table.knows(condition.kind):
                self._is_unknown(condition.kind)
        known = before.faults if before else {}
        for fault, signal in seen.faults.items():
            if fault not in known:
                self._metrics.condition_seen("recorded" if ONLY_RECORDED in signal.detail else "evidence")
        self._metrics.condition_seen("again", seen.again)
        return seen

    def _is_unknown(self, kind: str) -> None:
        """Nobody knows which value is the bad one: it is counted, and named once."""
        if kind.startswith("SlurmNodeState") or kind in CONDITIONS or kind in self._unknown:
            return
        self._unknown.add(kind)
        self._metrics.condition_seen("unknown-type")
        if len(self._unknown) <= MOST_NAMED:
            log.info("a condition of nodes that no row of the table knows is ignored", type=kind[:100])
