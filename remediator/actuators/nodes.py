"""Kubernetes nodes behind the guard: every call asks for its deadline right before it leaves."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.actuators.ports import Cluster, IdentityChanged, Removal, Written
from remediator.guard import Guard
from remediator.kube.fence import bears, is_fenced
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from remediator.model.incident import Incident


class Nodes:
    """What workflow steps may ask of the Kubernetes nodes; all answers are fresh reads."""

    def __init__(self, cluster: Cluster, guard: Guard) -> None:
        self._cluster = cluster
        self._guard = guard

    def node(self, name: str) -> NodeView | None:
        """One node, or None when there is none of this name."""
        return self._cluster.node(name, deadline=self._guard.call(f"read node {name}"))

    def pods_on(self, name: str) -> tuple[PodView, ...]:
        """All pods bound to a node, finished ones too."""
        return self._cluster.pods_on(name, deadline=self._guard.call(f"read pods on {name}"))

    def worker(self, slurm_node: str) -> PodView | None:
        """The pod that is this Slurm node, wherever it is."""
        return self._cluster.worker(slurm_node, deadline=self._guard.call(f"read worker {slurm_node}"))

    def rollout(self, pods: Sequence[PodView]) -> str:
        """The NodeSet of one of these pods that is being rolled out; empty when there is none."""
        return self._cluster.rollout(pods, deadline=self._guard.call("read NodeSets"))

    def fence(self, incident: Incident, seen: NodeView, *, cordon: bool = True) -> Written:
        """Taint the incident's machine as it was judged, and cordon it unless vetoed."""
        if (seen.name, seen.uid) != (incident.node, incident.node_uid):
            raise IdentityChanged(f"{seen.name} is not the machine of this incident")
        deadline = self._guard.write(f"fence {incident.node}", node=incident.node)
        return self._cluster.fence(seen, incident.id, incident.drain_reason, cordon=cordon, deadline=deadline)

    def unfence(self, incident: Incident) -> Written:
        """Take back exactly what the incident's fence set and is still there."""
        deadline = self._guard.write(f"unfence {incident.node}", node=incident.node)
        return self._cluster.unfence(incident.node, incident.node_uid, incident.id, deadline=deadline)

    def evict(self, pod: PodView) -> Removal:
        """Evict the pod in exactly the version whose vetoes were judged."""
        deadline = self._guard.write(f"evict {pod.key}", node=pod.node)
        return self._cluster.evict(pod, deadline=deadline)


def fenced(node: NodeView, incident: Incident, *, cordon: bool = True) -> bool:
    """Whether the incident's taint and, if asked for, a cordon are on the node."""
    return is_fenced(node, incident.id) and (node.unschedulable or not cordon)


def bears_fence(node: NodeView, incident: Incident) -> bool:
    """Whether anything that this incident set is still on the node; a detached node bears its fence too."""
    return bears(node, incident.id)
