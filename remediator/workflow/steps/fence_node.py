"""fence-node: our NoSchedule taint, the operator's cordon reason if absent, and the cordon."""

from __future__ import annotations

from remediator.actuators.nodes import fenced
from remediator.errors import GiveUp
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.step import Writing


class FenceNode(Writing):
    """New GPU pods stay away. Comes after the DRAIN: with our reason in place the operator stands aside."""

    name = "fence-node"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when taint and cordon are seen; GiveUp when the name now belongs to another machine."""
        incident = context.incident
        node = context.nodes.node(incident.node)
        if node is None or node.uid != incident.node_uid:
            raise GiveUp(f"{incident.node} is not the machine of this incident any more: nothing is fenced")
        return self._done(incident.node) if fenced(node, incident) else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:  # noqa: ARG002 - a node's step
        """Which node."""
        return f"taint and cordon {incident.node}"

    def act(self, context: Context) -> None:
        """One PATCH with the resourceVersion that was read."""
        context.nodes.fence(context.incident)

    def verify(self, context: Context) -> Outcome:
        """Done: the driver has read the node back and refuses when the fence does not show."""
        return self._done(context.incident.node)

    def _done(self, node: str) -> Outcome:
        return Done(f"{node} is tainted and cordoned")
