"""The Cluster port over the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from remediator.actuators.ports import Removal, Written
from remediator.clock import Clock
from remediator.errors import Retry
from remediator.kube import nodesets, paths
from remediator.kube.deadline import Deadline
from remediator.kube.eviction import Evictor
from remediator.kube.fence import fence_patch, unfence_patch
from remediator.kube.nodes import NodeView
from remediator.kube.patch import NodeWriter
from remediator.kube.pods import WORKER_SELECTOR, PodView, parse_pod
from remediator.kube.pods import slurm_node as slurm_node_of
from remediator.kube.session import Api


class KubeCluster:
    """Reads fresh, writes with the version just read or judged, reads back."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._nodes = NodeWriter(api, clock)
        self._evictor = Evictor(api, clock)

    def node(self, name: str, *, deadline: float) -> NodeView | None:
        """Read one node now; None when there is none of this name."""
        return self._nodes.read(name, deadline=deadline)

    def pods_on(self, node: str, *, deadline: float) -> tuple[PodView, ...]:
        """Read all pods bound to a node now; Retry when one of them cannot be understood."""
        pods = self._pods({"fieldSelector": f"spec.nodeName={paths.name(node, 'node')}"}, deadline)
        if any(pod.node != node for pod in pods):
            raise Retry(f"list pods on {node}: the answer holds a pod of another node")
        return pods

    def worker(self, slurm_node: str, *, deadline: float) -> PodView | None:
        """The pod that is this Slurm node; see the port."""
        pods = self._pods({"labelSelector": WORKER_SELECTOR}, deadline)
        found = [pod for pod in pods if slurm_node_of(pod) == slurm_node and not pod.finished]
        return min(found, key=lambda pod: (pod.terminating, pod.key), default=None)

    def rollout(self, pods: Sequence[PodView], *, deadline: float) -> str:
        """The NodeSet of one of these pods that is being rolled out; see the port."""
        until = Deadline(deadline, self._clock)
        for (namespace, name), owner in nodesets.owners(pods).items():
            found = self._api.get(paths.nodeset(namespace, name), deadline=until.left())
            if found is not None and not nodesets.is_settled(found):
                everybody = self._pods({"labelSelector": WORKER_SELECTOR}, until.left())
                if nodesets.is_rolling(found, owner, everybody):
                    return f"{namespace}/{name}"
        return ""

    def fence(self, seen: NodeView, incident: str, reason: str, *, cordon: bool, deadline: float) -> Written:
        """Taint, and cordon if asked; see the port."""
        return self._nodes.amend(
            seen, lambda view: fence_patch(view, incident, reason, cordon=cordon), deadline=deadline
        )

    def unfence(self, node: str, uid: str, incident: str, *, deadline: float) -> Written:
        """Take back what this incident's fence set; see the port."""
        return self._nodes.apply(node, uid, lambda view: unfence_patch(view, incident), deadline=deadline)

    def evict(self, pod: PodView, *, deadline: float) -> Removal:
        """Evict the pod as it was judged; see the port."""
        return self._evictor.evict(pod, deadline=deadline)

    def _pods(self, selector: Mapping[str, str], deadline: float) -> tuple[PodView, ...]:
        listing = self._api.list(paths.PODS, params=selector, deadline=deadline)
        pods = tuple(pod for pod in map(parse_pod, listing.items) if pod is not None)
        if len(pods) != len(listing.items):
            raise Retry("list pods: the answer holds something that is no pod")
        return pods
