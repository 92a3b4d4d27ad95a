"""validate-spare: the claimed spare proves itself behind its taint, while the jobs still save.

Before the sick node is emptied: nothing is given up for a spare that turns out to be no better.
"""

from __future__ import annotations

from remediator.kube.acceptance import Trial
from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome, Wait
from remediator.model.run import JobRun
from remediator.model.spare import Spare
from remediator.workflow.conditions import demand_slurm
from remediator.workflow.context import Context
from remediator.workflow.step import Writing
from remediator.workflow.steps.claim_spare import is_gone, take_another

RECHECK_S = 600.0


class ValidateSpare(Writing):
    """A proof younger than 24 h, of the same boot, is taken as it is; else the acceptance test runs."""

    name = "validate-spare"
    bound_s = 300.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the spare bears its proof and nothing of the test is left there."""
        spare = context.spare
        if spare is None:
            return Done("no spare was claimed: there is nothing to validate")
        if context.spares.is_admitted(spare):
            return Done(f"{spare.node} is in the pool already")
        if not context.spares.is_claimed(spare):
            return take_another(spare, f"{spare.node} is gone") if is_gone(context, spare) else None
        trial = self._trial(context, spare)
        if trial.state == "proven" and not trial.pod:
            return Done(trial.sentence)
        if trial.state == "running":
            return Wait(trial.sentence, after=1.0)
        demand_slurm(context)
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """For which incident; the record of the claim names the spare."""
        return f"test the spare of incident {incident.id}, and put it aside if it fails"

    def act(self, context: Context) -> Outcome | None:
        """One stage of the test; the verdict is on the node before the pod goes, so no crash tests twice."""
        spare = context.the_spare
        tag = context.incident.id
        if not context.spares.is_claimed(spare):
            context.acceptance.clear(spare.node, spare.uid, tag)
            return take_another(spare, f"{spare.node} is not this incident's any more")
        trial = self._trial(context, spare)
        match trial.state:
            case "untested":
                context.acceptance.start(spare.node, spare.uid, tag)
                return Wait(f"acceptance test on {spare.node} is started", after=1.0)
            case "passed":
                context.acceptance.prove(spare.node, spare.uid, tag, trial.sentence)
                context.acceptance.clear(spare.node, spare.uid, tag)
            case "proven":
                context.acceptance.clear(spare.node, spare.uid, tag)
            case "cannot-start":
                context.acceptance.clear(spare.node, spare.uid, tag)
                return Hold(trial.sentence, after=RECHECK_S)
            case "not-ready":
                context.acceptance.clear(spare.node, spare.uid, tag)
                context.spares.release(spare)
                return take_another(spare, trial.sentence)
            case "failed":
                context.spares.retire(spare, trial.sentence)
                context.acceptance.clear(spare.node, spare.uid, tag)
                why = f"{spare.node} is retired: {trial.sentence}"
                return take_another(spare, why, retired=why)
        return None

    def _trial(self, context: Context, spare: Spare) -> Trial:
        return context.acceptance.look(spare.node, spare.uid, context.incident.id)
