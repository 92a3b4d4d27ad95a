"""detach-node: workers never go back to the sick node; what was changed is noted and can be undone."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.step import Writing
from remediator.workflow.veto import demand_no_veto


class DetachNode(Writing):
    """Only an emptied node, and only with a replacement on its way or a policy that goes on without."""

    name = "detach-node"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when our taint of this incident keeps workers off; Blocked by a veto, freshly read."""
        if context.nodes.node(context.incident.node) is None:
            return Done(f"{context.incident.node} is gone: nothing is left to take out of the pool")
        if context.spares.is_detached(context.incident):
            return Done(f"{context.incident.node} is out of the pool")
        demand_no_veto(context)
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which node."""
        return f"take {incident.node} out of its pool"

    def act(self, context: Context) -> Outcome | None:
        """One PATCH."""
        context.spares.detach(context.incident)
        return None
