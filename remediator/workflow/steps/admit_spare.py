"""admit-spare: one PATCH swaps the spare taint for the worker taint: workers, and only they, may come."""

from __future__ import annotations

from remediator.actuators.ports import Unfit
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.conditions import demand_slurm
from remediator.workflow.context import Context
from remediator.workflow.step import Writing
from remediator.workflow.steps.claim_spare import take_another
from remediator.workflow.successors import widen_places


class AdmitSpare(Writing):
    """The gate is on the Kubernetes side: a worker that comes up there is IDLE without asking anybody."""

    name = "admit-spare"
    bound_s = 300.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the spare is a worker node; one whose proof does not hold any more is tested again."""
        spare = context.spare
        if spare is None:
            return Done("no spare was claimed")
        if context.spares.is_admitted(spare):
            return Done(f"{spare.node} is in the pool", {"admitted": spare.node})
        trial = context.acceptance.look(spare.node, spare.uid, context.incident.id)
        if trial.state != "proven":
            why = f"{spare.node} is to be tested again: {trial.sentence}"
            return Wait(why, after=0.0, facts={"again": ["validate-spare"]})
        demand_slurm(context)
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """For which incident."""
        return f"let workers onto the spare of incident {incident.id}"

    def act(self, context: Context) -> Outcome | None:
        """Swap the taints; a spare that cannot be taken any more makes room for the next one."""
        spare = context.the_spare
        # The worker comes back IDLE: a job that waits for it gets it into its place first.
        widen_places(context, {name: name for name in context.incident.slurm_nodes})
        try:
            context.spares.admit(spare)
        except Unfit as error:
            return take_another(spare, f"{spare.node} cannot be taken any more: {error}")
        return None
