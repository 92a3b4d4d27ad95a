"""accept-node: the acceptance test of a machine that is to be given back. Nothing is changed before it."""

from __future__ import annotations

from remediator.model.plan import Done, Outcome, Wait
from remediator.model.spare import Spare
from remediator.workflow.context import Context
from remediator.workflow.step import Step

PATIENCE_S = 300.0
SURE_S = 60.0  # a device plugin needs its time after a reboot: until then no GPU is healthy


class AcceptNode(Step):
    """The same test a spare takes. A machine that does not pass it in time stays out of service."""

    name = "accept-node"
    bound_s = PATIENCE_S

    def check(self, context: Context) -> Outcome | None:
        """Done when it passed; the fact `ends` ends the return."""
        incident = context.incident
        machine = Spare(node=incident.node, uid=incident.node_uid, incident=incident.id)
        verdict = context.spares.acceptance(machine)
        if verdict.passed:
            return Done(f"acceptance test passed: {verdict.sentence}")
        waited = context.now - (context.row.started_at or context.now)
        if waited >= (SURE_S if verdict.passed is False else PATIENCE_S):
            why = f"not returned: acceptance test failed: {verdict.sentence}; {incident.node} stays as it was"
            return Wait(why, facts={"ends": why})
        return Wait(f"acceptance test: {verdict.sentence}", after=1.0)
