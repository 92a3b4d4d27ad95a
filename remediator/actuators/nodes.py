"""Kubernetes nodes behind the guard: every call asks for its deadline right before it leaves."""

from __future__ import annotations

from remediator.actuators.ports import Cluster
from remediator.guard import Guard
from remediator.kube.fence import is_fenced
from remediator.kube.nodes import NodeView
from remediator.model.incident import Incident


class Nodes:
    """What workflow steps may ask of the Kubernetes nodes; all answers are fresh reads."""

    def __init__(self, cluster: Cluster, guard: Guard) -> None:
        self._cluster = cluster
        self._guard = guard

    def node(self, name: str) -> NodeView | None:
        """One node, or None when there is none of this name."""
        return self._cluster.node(name, deadline=self._guard.call(f"read node {name}"))

    def fence(self, incident: Incident) -> None:
        """Taint and cordon the incident's machine; the driver reads it back."""
        deadline = self._guard.call(f"fence {incident.node}")
        self._cluster.fence(
            incident.node,
            incident.node_uid,
            incident.id,
            incident.drain_reason,
            cordon=True,
            deadline=deadline,
        )


def fenced(node: NodeView, incident: Incident) -> bool:
    """Whether the incident's taint and a cordon are on the node."""
    return is_fenced(node, incident.id) and node.unschedulable
