"""await-empty: the drained machine has no job left. Draining is not drained."""

from __future__ import annotations

from remediator.model.plan import Done, Outcome, Wait
from remediator.workflow.context import Context
from remediator.workflow.occupants import jobs_on, may_be_forced
from remediator.workflow.step import Step

PATIENCE_S = 180.0


class AwaitEmpty(Step):
    """After three minutes force-down has a look; a job that is left alone is waited for without end."""

    name = "await-empty"
    bound_s = PATIENCE_S

    def check(self, context: Context) -> Outcome | None:
        """Done when neither the node's state nor the job list shows anything, or when patience is over."""
        busy = [name for name in context.incident.slurm_nodes if context.slurm.node(name).is_busy]
        left = jobs_on(context)
        if not busy and not left:
            return Done("no job is left there", {"empty": True})
        waited = context.now - (context.row.started_at or context.now)
        if waited >= PATIENCE_S and may_be_forced(context, left):
            return Done(f"not empty after {PATIENCE_S:.0f} s", {"empty": False})
        who = ", ".join(f"job {job.address} ({job.state})" for job in left) or f"{', '.join(busy)} busy"
        return Wait(f"waits for {who}", after=1.0)
