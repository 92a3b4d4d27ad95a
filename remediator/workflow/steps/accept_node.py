"""accept-node: the acceptance test of a machine that is to be given back. Nothing is changed before it."""

from __future__ import annotations

from remediator.kube.acceptance import Trial
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.step import Writing

# A device plugin needs its time after a reboot: until then no GPU is healthy.
PATIENCE = {"not-ready": 300.0, "failed": 60.0}


class AcceptNode(Writing):
    """The same test a spare takes. A machine that does not pass it in time stays out of service."""

    name = "accept-node"
    bound_s = 300.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the machine bears its proof and nothing of the test is left; the fact `ends` ends it."""
        trial = self._trial(context)
        if trial.state == "proven" and not trial.pod:
            return Done(f"acceptance test passed: {trial.sentence}")
        if trial.state in PATIENCE and not trial.pod:
            waited = context.now - (context.row.started_at or context.now)
            if waited >= PATIENCE[trial.state]:
                return self._refused(context, trial)
            return Wait(f"acceptance test: {trial.sentence}", after=1.0)
        return Wait(trial.sentence, after=1.0) if trial.state == "running" else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which machine."""
        return f"run the acceptance test on {incident.node}"

    def act(self, context: Context) -> Outcome | None:
        """One stage of the test; the pod goes once its verdict is known."""
        incident = context.incident
        machine = (incident.node, incident.node_uid, incident.id)
        trial = self._trial(context)
        if trial.state == "untested":
            context.acceptance.start(*machine)
            return Wait(f"acceptance test on {incident.node} is started", after=1.0)
        if trial.state == "passed":
            context.acceptance.prove(*machine, trial.sentence)
        context.acceptance.clear(*machine)
        return None if trial.state in {"passed", "proven"} else self._refused(context, trial)

    def _refused(self, context: Context, trial: Trial) -> Outcome:
        node = context.incident.node
        why = f"not returned: acceptance test failed: {trial.sentence}; {node} stays as it was"
        return Wait(why, facts={"ends": why})

    def _trial(self, context: Context) -> Trial:
        incident = context.incident
        return context.acceptance.look(incident.node, incident.node_uid, incident.id)
