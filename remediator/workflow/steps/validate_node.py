"""validate-node: the acceptance test of a suspect machine, idle and drained; it decides what follows."""

from __future__ import annotations

from remediator.model.plan import Done, Outcome, Wait
from remediator.model.spare import Spare
from remediator.workflow.context import Context
from remediator.workflow.step import Step

PATIENCE_S = 300.0


class ValidateNode(Step):
    """The same test a spare takes. What is not ready in time has failed."""

    name = "validate-node"
    bound_s = PATIENCE_S

    def check(self, context: Context) -> Outcome | None:
        """Done either way: the fact `fit` gives the machine back, `unfit` goes on to its replacement."""
        incident = context.incident
        machine = Spare(node=incident.node, uid=incident.node_uid, incident=incident.id)
        verdict = context.spares.acceptance(machine)
        if verdict.passed:
            why = f"acceptance test passed: {verdict.sentence}"
            return Done(why, {"fit": why})
        waited = context.now - (context.row.started_at or context.now)
        if verdict.passed is False or waited >= PATIENCE_S:
            why = f"acceptance test failed: {verdict.sentence}"
            return Done(why, {"unfit": why})
        return Wait(f"acceptance test: {verdict.sentence}", after=1.0)
