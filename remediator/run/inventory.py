"""Nodes and worker pods from the watch caches, as machines with a pool."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from remediator.kube.fence import FENCED, INCIDENT, overridden
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView, slurm_node
from remediator.kube.spare import SpareKeys
from remediator.model.machine import Machine
from remediator.settings import Pool

T = TypeVar("T")
Derived = TypeVar("Derived")


class _Kept(Generic[T, Derived]):
    """What `build` makes of all objects, made again only when `source` hands out another collection."""

    def __init__(self, source: Callable[[], Iterable[T]], build: Callable[[Iterable[T]], Derived]) -> None:
        self._source = source
        self._build = build
        self._last: tuple[Iterable[T], Derived] | None = None

    def __call__(self) -> Derived:
        objects = self._source()
        last = self._last
        if last is None or last[0] is not objects:
            last = self._last = (objects, self._build(objects))
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
    ) -> None:
        self._node = node
        self._pools = pools
        self._pool_sizes = _Kept(nodes, lambda found: Counter(map(self._pool_of, found)))
        self._workers = _Kept(pods, _workers_by_node)
        self._homes = _Kept(pods, _node_by_worker)

    def machine(self, name: str) -> Machine | None:
        """The node of exactly this name with its pool and Slurm workers, or None."""
        node = self._node(name)
        if node is None:
            return None
        pool = self._pool_of(node)
        return Machine(
            name=node.name,
            uid=node.uid,
            provider_id=node.provider_id,
            boot_id=node.boot_id,
            pool=pool,
            stage=self._pools[pool].stage if pool else "observe",
            restart_failed_jobs=self._pools[pool].restart_failed_jobs if pool else False,
            pool_size=self._pool_sizes()[pool] if pool else 0,
            slurm_nodes=self._workers().get(name, ()),
            cordoned=node.unschedulable,
            fence_undone=overridden(node, node.annotations.get(INCIDENT, "")) or "",
            version=node.resource_version,
            fenced_by=next((taint.value for taint in node.taints if taint.key == FENCED), None),
        )

    def holds(self, node: str) -> bool:
        """Whether the service may write to this node: it is in a pool, or a spare."""
        found = self._node(node)
        return found is not None and (self._pool_of(found) is not None or SpareKeys().spare in found.labels)

    def node_of(self, worker: str) -> str | None:
        """The node a Slurm node is on; None while it is on none."""
        return self._homes().get(worker)

    def pool_size(self, pool: str) -> int:
        """How many nodes are in a pool."""
        return self._pool_sizes()[pool]

    def _pool_of(self, node: NodeView) -> str | None:
        for name, pool in self._pools.items():
            if all(node.labels.get(key) == value for key, value in pool.node_selector.items()):
                return name
        return None


def _workers_by_node(pods: Iterable[PodView]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for pod in pods:
        name = slurm_node(pod)
        if name is not None and not pod.finished:
            found[pod.node].append(name)
    return {node: tuple(sorted(names)) for node, names in found.items()}


def _node_by_worker(pods: Iterable[PodView]) -> dict[str, str]:
    return {name: node for node, names in _workers_by_node(pods).items() for name in names if node}
