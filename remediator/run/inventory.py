"""Nodes and worker pods from the watch caches, as machines with a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from remediator.kube.fence import FENCED
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView, slurm_node
from remediator.model.machine import Machine
from remediator.settings import Pool


class CachedInventory:
    """Looks a name up exactly; never the nearest one."""

    def __init__(
        self,
        node: Callable[[str], NodeView | None],
        nodes: Callable[[], Iterable[NodeView]],
        pods: Callable[[], Iterable[PodView]],
        pools: Mapping[str, Pool],
    ) -> None:
        self._node = node
        self._nodes = nodes
        self._pods = pods
        self._pools = pools

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
            pool_size=sum(self._pool_of(other) == pool for other in self._nodes()) if pool else 0,
            slurm_nodes=self._workers_on(name),
            fenced_by=next((taint.value for taint in node.taints if taint.key == FENCED), None),
        )

    def _pool_of(self, node: NodeView) -> str | None:
        for name, pool in self._pools.items():
            if all(node.labels.get(key) == value for key, value in pool.node_selector.items()):
                return name
        return None

    def _workers_on(self, node: str) -> tuple[str, ...]:
        pods = (pod for pod in self._pods() if pod.node == node and not pod.finished)
        return tuple(sorted(name for pod in pods if (name := slurm_node(pod)) is not None))
