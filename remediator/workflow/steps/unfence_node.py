"""unfence-node: our taint goes, and the cordon if it was ours. Before the RESUME: the operator drains what
is cordoned.
"""

from __future__ import annotations

from remediator.errors import GiveUp
from remediator.kube.fence import unfence_patch
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.givenback import taken_out_by
from remediator.workflow.step import Writing


class UnfenceNode(Writing):
    """Takes back exactly what the fence noted down as its own; somebody else's cordon stays."""

    name = "unfence-node"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when nothing of the fence is left; GiveUp when the name now belongs to another machine."""
        incident = context.incident
        node = context.nodes.node(incident.node)
        if node is None or node.uid != incident.node_uid:
            raise GiveUp(f"{incident.node} is not the machine that was to be returned any more")
        if unfence_patch(node, taken_out_by(context).id) is not None:
            return None
        if node.unschedulable:
            return Done(f"{node.name} bears no fence of ours; its cordon is somebody else's and stays")
        return Done(f"{node.name} is neither fenced nor cordoned")

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which node."""
        return f"take our taint and our cordon off {incident.node}"

    def act(self, context: Context) -> Outcome | None:
        """One PATCH with the resourceVersion that was read."""
        context.nodes.unfence(taken_out_by(context))
        return None
