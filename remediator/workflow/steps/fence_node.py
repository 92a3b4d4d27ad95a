"""fence-node: our NoSchedule taint, the operator's cordon reason if absent, and the cordon."""

from __future__ import annotations

from remediator.actuators.nodes import fenced
from remediator.errors import GiveUp
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.policy.vetoes import Veto
from remediator.workflow.context import Context
from remediator.workflow.step import Writing
from remediator.workflow.veto import standing_veto


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
        vetoed = standing_veto(context)
        if fenced(node, incident, cordon=vetoed is None):
            return self._done(incident.node, vetoed)
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which node."""
        return f"taint and cordon {incident.node}"

    def act(self, context: Context) -> Outcome | None:
        """One PATCH with the resourceVersion that was read; a veto leaves out the cordon."""
        context.nodes.fence(context.incident, cordon=standing_veto(context) is None)
        return None

    def verify(self, context: Context) -> Outcome:
        """Done: the driver has read the node back and refuses when the fence does not show."""
        return self._done(context.incident.node, standing_veto(context))

    def _done(self, node: str, vetoed: Veto | None) -> Outcome:
        if vetoed is not None:
            return Done(f"{node} is tainted, not cordoned: vetoed by {vetoed}")
        return Done(f"{node} is tainted and cordoned")
