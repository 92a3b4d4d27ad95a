"""Nodes and worker pods from the watch caches, as machines with a pool."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import Any, Generic, TypeVar

from remediator.kube.fence import FENCED, INCIDENT, overridden
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView, slurm_node
from remediator.kube.soperator import is_marked, is_worker
from remediator.kube.spare import SpareKeys
from remediator.model.faults import LOOKS_BACK_S
from remediator.model.machine import Machine
from remediator.settings import GuardSettings, Pool

Derived = TypeVar("Derived")


class Kept(Generic[Derived]):
    """What `build` makes of all objects, made again only when a source hands out another collection."""

    def __init__(self, build: Callable[..., Derived], *sources: Callable[[], Iterable[Any]]) -> None:
        self._build = build
        self._sources = sources
        self._last: tuple[list[Iterable[Any]], Derived] | None = None

    def __call__(self) -> Derived:
        """The kept result, or a new one."""
        found = [source() for source in self._sources]
        last = self._last
        if last is None or not all(map(is_, last[0], found)):
            last = self._last = (found, self._build(*found))
        return last[1]


class CachedInventory:
    """Looks a name up exactly; never the nearest one.

    `nodes` and `pods` hand out the same collection until something in it changes: the sums over it are kept.
    """

    def __init__(
        self,
        node: Callable[[str], NodeView | None],
        nodes: Callable[[], Iterable[NodeView]],
        pods: Callable[[], Iterable[PodView]],
        pools: Mapping[str, Pool],
        guard: GuardSettings = GuardSettings(),  # noqa: B008 - frozen
        looks_back_s: float = LOOKS_BACK_S,
    ) -> None:
        self._node = node
        self._pools = pools
        self._looks_back_s = looks_back_s
        self._labels = {"leaf": guard.leaf_label, "rack": guard.rack_label, "driver": guard.driver_label}
        self._pool_sizes: Kept[Counter[str | None]] = Kept(self._sizes, nodes)
        self._sharers: Kept[Counter[tuple[str, str]]] = Kept(self._count, nodes)
        self._workers = Kept(_workers_by_node, pods)
        self._homes = Kept(_node_by_worker, pods)
        self._soperators = Kept(self._pools_of_soperator, nodes, pods)
        self._machines: Kept[dict[str, Machine]] = Kept(_nothing_yet, nodes, pods)

    def machine(self, name: str) -> Machine | None:
        """The node of exactly this name with its pool and Slurm workers, or None."""
        known = self._machines()  # before the node is read: what is kept may be newer than these, never older
        machine = known.get(name)
        if machine is None:
            node = self._node(name)
            machine = None if node is None else known.setdefault(name, self._machine(node))
        return machine

    def _machine(self, node: NodeView) -> Machine:
        name = node.name
        pool = self._pool_of(node)
        of_soperator = pool in self._soperators()
        return Machine(
            name=node.name,
            uid=node.uid,
            provider_id=node.provider_id,
            boot_id=node.boot_id,
            pool=pool,
            stage=self._pools[pool].stage if pool else "observe",
            restart_failed_jobs=self._pools[pool].restart_failed_jobs if pool else False,
            hold_until_fenced=self._pools[pool].hold_until_fenced if pool else False,
            timing=self._pools[pool].timing if pool else None,
            pool_size=self._pool_sizes()[pool] if pool else 0,
            slurm_nodes=self._workers().get(name, ()),
            labels=node.labels,
            cordoned=node.unschedulable,
            fence_undone=overridden(node, node.annotations.get(INCIDENT, "")) or "",
            version=node.resource_version,
            fenced_by=next((taint.value for taint in node.taints if taint.key == FENCED), None),
            of_soperator=of_soperator,
            reports=tuple(str(report) for report in node.reports if of_soperator and report.is_true),
            shares=self._shares(node, pool),
            created=node.created,
            alerts_from=node.created + self._looks_back_s,
        )

    def holds(self, node: str) -> bool:
        """Whether the service may write to this node: it is in a pool, or a spare, and not Soperator's."""
        found = self._node(node)
        if found is None or self.is_soperators(found):
            return False
        return self._pool_of(found) is not None or SpareKeys().spare in found.labels

    def in_pool(self, node: NodeView) -> bool:
        """Whether a pool's selector matches the node."""
        return self._pool_of(node) is not None

    def is_soperators(self, node: NodeView) -> bool:
        """Whether Soperator runs the node's pool: its worker or its conditions are on a node of it."""
        return self._pool_of(node) in self._soperators()

    def node_of(self, worker: str) -> str | None:
        """The node a Slurm node is on; None while it is on none, or on two, and nobody knows which it is."""
        return self._homes().get(worker)

    def pool_size(self, pool: str) -> int:
        """How many nodes are in a pool."""
        return self._pool_sizes()[pool]

    def share_size(self, kind: str, value: str) -> int:
        """How many nodes of all pools share this: their pool, driver, image, leaf or rack."""
        return self._sharers()[kind, value]

    def _sizes(self, nodes: Iterable[NodeView]) -> Counter[str | None]:
        return Counter(map(self._pool_of, nodes))

    def _count(self, nodes: Iterable[NodeView]) -> Counter[tuple[str, str]]:
        return Counter(share for node in nodes for share in self._shares(node, self._pool_of(node)))

    def _shares(self, node: NodeView, pool: str | None) -> tuple[tuple[str, str], ...]:
        if pool is None:
            return ()
        named = {kind: node.labels.get(label, "") for kind, label in self._labels.items()}
        found = {**named, "image": node.image, "pool": pool}
        return tuple((kind, value) for kind, value in found.items() if value)

    def _pools_of_soperator(self, nodes: Iterable[NodeView], pods: Iterable[PodView]) -> frozenset[str]:
        hosts = {pod.node for pod in pods if is_worker(pod.labels) and not pod.finished}
        found = (node for node in nodes if node.name in hosts or is_marked(node.reports))
        return frozenset(pool for node in found if (pool := self._pool_of(node)) is not None)

    def _pool_of(self, node: NodeView) -> str | None:
        for name, pool in self._pools.items():
            if all(node.labels.get(key) == value for key, value in pool.node_selector.items()):
                return name
        return None


def _nothing_yet(_nodes: Iterable[NodeView], _pods: Iterable[PodView]) -> dict[str, Machine]:
    """Machines are made when somebody asks for them."""
    return {}


def _workers_by_node(pods: Iterable[PodView]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        name = slurm_node(pod)
        if name is not None and not pod.finished:
            found[pod.node].append(name)
    return {node: tuple(sorted(names)) for node, names in found.items()}


def _node_by_worker(pods: Iterable[PodView]) -> dict[str, str]:
    """A pod that is being deleted counts only while there is no other one of its name."""
    stays: dict[str, set[str]] = defaultdict(set)
    leaves: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        name = slurm_node(pod)
        if name is not None and pod.node and not pod.finished:
            (leaves if pod.terminating else stays)[name].add(pod.node)
    return {name: min(nodes) for name, nodes in {**leaves, **stays}.items() if len(nodes) == 1}
