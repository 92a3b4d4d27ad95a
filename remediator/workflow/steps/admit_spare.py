"""admit-spare: the acceptance test behind the spare taint, then one PATCH lets workers, and only them, on."""

from __future__ import annotations

from remediator.actuators.ports import Unfit
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.step import Writing


class AdmitSpare(Writing):
    """The gate is on the Kubernetes side: a worker that comes up there is IDLE without asking anybody."""

    name = "admit-spare"
    bound_s = 300.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the spare is a worker node; without a spare there is nothing to admit."""
        spare = context.spare
        if spare is None:
            return Done("no spare was claimed")
        if context.spares.is_admitted(spare):
            return Done(f"{spare.node} is in the pool", {"admitted": spare.node})
        verdict = context.spares.acceptance(spare)
        if verdict.passed is None:
            return Wait(f"acceptance test on {spare.node}: {verdict.sentence}", after=1.0)
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """For which incident."""
        return f"let workers onto the spare of incident {incident.id}, or retire it when its test failed"

    def act(self, context: Context) -> Outcome | None:
        """Swap the taints, or put a failed spare aside and take the next one."""
        spare = context.the_spare
        verdict = context.spares.acceptance(spare)
        if verdict.passed is False:
            context.spares.retire(spare, verdict.sentence)
            why = f"{spare.node} failed its acceptance test ({verdict.sentence}) and is retired"
            return Wait(why, after=0.0, facts={"refuse": spare.uid, "again": "claim-spare"})
        try:
            context.spares.admit(spare)
        except Unfit as error:
            return Wait(
                f"{spare.node}: {error}", after=0.0, facts={"refuse": spare.uid, "again": "claim-spare"}
            )
        return None
