"""What watches of hundreds of nodes and pods keep: nothing is parsed twice."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.kube import paths
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import PodView, parse_pod
from tests.fakes.kube import FakeCluster
from tests.fakes.views import Parsed

State = tuple[int, int]


class Caches:
    """Views of a fake cluster's nodes and worker pods; a list stays the same one until something changes."""

    def __init__(self, kube: FakeCluster, names: Sequence[str], workers: Sequence[str]) -> None:
        self._kube = kube
        self._names = names
        self._workers = workers
        self._views = Parsed(parse_node)
        self._pods = Parsed(parse_pod)
        self._all_nodes: tuple[State, list[NodeView]] = ((-1, -1), [])
        self._all_pods: tuple[State, list[PodView]] = ((-1, -1), [])
        self._changes = 0

    def state(self) -> State:
        """Another one whenever an object may have changed."""
        return len(self._kube.writes), self._changes

    def changed(self) -> None:
        """Objects came or went without a write."""
        self._changes += 1

    def node(self, name: str) -> NodeView | None:
        """One node, or None."""
        raw = self._kube.api.objects.get(paths.node(name)) if name in self._names else None
        if raw is None:
            return None
        return self._views.of(name, raw)

    def nodes(self) -> list[NodeView]:
        """All nodes."""
        state = self.state()
        if self._all_nodes[0] != state:
            found = [view for name in self._names if (view := self.node(name)) is not None]
            self._all_nodes = (state, found)
        return self._all_nodes[1]

    def pods(self) -> list[PodView]:
        """All workers' pods."""
        state = self.state()
        if self._all_pods[0] != state:
            found = [pod for worker in self._workers if (pod := self._pod(worker)) is not None]
            self._all_pods = (state, found)
        return self._all_pods[1]

    def _pod(self, worker: str) -> PodView | None:
        raw = self._kube.api.objects.get(paths.pod("slurm", worker))
        if raw is None:
            return None
        return self._pods.of(worker, raw)
