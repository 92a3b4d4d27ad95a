"""attach-node: in place of our taint the worker taint comes back as it was, or the spare taint is put."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.givenback import AS_A_SPARE, taken_out_by
from remediator.workflow.step import Writing


class AttachNode(Writing):
    """Only after the acceptance test; the fence still keeps everything off."""

    name = "attach-node"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done unless the incident that took the machine out still keeps workers off it."""
        if context.spares.is_detached(taken_out_by(context)):
            return None
        return Done(f"{context.incident.node} is in its pool")

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which node."""
        return f"put {incident.node} back into its pool"

    def act(self, context: Context) -> Outcome | None:
        """One PATCH."""
        context.spares.attach(taken_out_by(context), as_spare=bool(context.row.facts.get(AS_A_SPARE)))
        return None
