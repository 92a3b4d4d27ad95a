"""await-idle: the suspect machine's jobs run to their own end; no new one may start there."""

from __future__ import annotations

from remediator.model.plan import Done, Outcome, Wait
from remediator.workflow.context import Context
from remediator.workflow.occupants import jobs_on
from remediator.workflow.step import Step


class AwaitIdle(Step):
    """A suspicion is no reason to interrupt anybody, however long it takes; after a week people are told."""

    name = "await-idle"
    bound_s = 7 * 86_400.0

    def check(self, context: Context) -> Outcome | None:
        """Done when neither the nodes' state nor the job list shows anything."""
        names = context.incident.slurm_nodes
        busy = [name for name in names if context.slurm.node(name).is_busy]
        left = jobs_on(context)
        if not busy and not left:
            return Done(f"{', '.join(names) or context.incident.node} is idle")
        who = ", ".join(f"job {job.address}" for job in left) or f"{', '.join(busy)} busy"
        return Wait(f"runs on until its end: {who}", after=5.0)
