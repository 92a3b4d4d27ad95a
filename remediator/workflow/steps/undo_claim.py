"""undo-claim: a spare that was claimed and not admitted is free again for others."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.step import Writing


class UndoClaim(Writing):
    """A spare that workers may run on already stays: jobs may be on it."""

    name = "undo-claim"
    bound_s = 30.0

    def check(self, context: Context) -> Outcome | None:
        """Done, with what the core has to write down, when the spare bears no claim of ours."""
        spare = context.spare
        if spare is None:
            return Done("no spare was claimed")
        if context.spares.is_admitted(spare):
            return Done(f"{spare.node} is in the pool and stays there", {"admitted": spare.node})
        if context.spares.is_claimed(spare):
            return None
        return Done(f"spare {spare.node} is free again", {"let_go": spare.uid})

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose spare."""
        return f"release the spare of incident {incident.id}"

    def act(self, context: Context) -> Outcome | None:
        """Its acceptance test is ended, and the claim taken off it."""
        spare = context.the_spare
        context.acceptance.clear(spare.node, spare.uid, context.incident.id)
        context.spares.release(spare)
        return None
