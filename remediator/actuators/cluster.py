"""The Cluster port over the API server."""

from __future__ import annotations

from remediator.actuators.ports import Removal, Written
from remediator.clock import Clock
from remediator.errors import Retry
from remediator.kube import paths
from remediator.kube.eviction import Evictor
from remediator.kube.fence import fence_patch, unfence_patch
from remediator.kube.nodes import NodeView
from remediator.kube.patch import NodeWriter
from remediator.kube.pods import PodView, parse_pod
from remediator.kube.session import Api


class KubeCluster:
    """Reads fresh, writes with the version just read or judged, reads back."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._nodes = NodeWriter(api, clock)
        self._evictor = Evictor(api, clock)

    def node(self, name: str, *, deadline: float) -> NodeView | None:
        """Read one node now; None when there is none of this name."""
        return self._nodes.read(name, deadline=deadline)

    def pods_on(self, node: str, *, deadline: float) -> tuple[PodView, ...]:
        """Read all pods bound to a node now; Retry when one of them cannot be understood."""
        selector = {"fieldSelector": f"spec.nodeName={paths.name(node, 'node')}"}
        listing = self._api.list(paths.PODS, params=selector, deadline=deadline)
        pods = [parse_pod(raw) for raw in listing.items]
        understood = tuple(pod for pod in pods if pod is not None and pod.node == node)
        if len(understood) != len(pods):
            raise Retry(f"list pods on {node}: the answer holds something that is no pod of this node")
        return understood

    def fence(
        self, node: str, uid: str, incident: str, reason: str, *, cordon: bool, deadline: float
    ) -> Written:
        """Taint, and cordon if asked; see the port."""
        return self._nodes.apply(
            node, uid, lambda view: fence_patch(view, incident, reason, cordon=cordon), deadline=deadline
        )

    def unfence(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Take back what this incident's fence set; see the port."""
        return self._nodes.apply(node, uid, lambda view: unfence_patch(view, incident), deadline=deadline)

    def evict(self, pod: PodView, *, deadline: float) -> Removal:
        """Evict the pod as it was judged; see the port."""
        return self._evictor.evict(pod, deadline=deadline)

    def force_delete(self, pod: PodView, *, deadline: float) -> Removal:
        """Delete without grace, on fencing proof only; see the port."""
        return self._evictor.force_delete(pod, deadline=deadline)
