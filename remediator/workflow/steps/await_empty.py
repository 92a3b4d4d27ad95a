"""await-empty: the drained machine has no job left. Draining is not drained."""

from __future__ import annotations

from remediator.model.plan import Done, Hold, Outcome, Wait
from remediator.workflow.context import Context
from remediator.workflow.occupants import jobs_on, may_be_forced
from remediator.workflow.step import Step
from slurm_bridge.kinds import classify
from slurm_bridge.model import SlurmJob

PATIENCE_S = 180.0


class AwaitEmpty(Step):
    """After three minutes force-down has a look; a job that is left alone is waited for without end."""

    name = "await-empty"
    bound_s = PATIENCE_S

    def check(self, context: Context) -> Outcome | None:
        """Done when neither the node's state nor the job list shows anything, or when patience is over."""
        seen = {name: context.slurm.node(name) for name in context.incident.slurm_nodes}
        busy = [name for name, node in seen.items() if node.is_busy or node.is_changing]
        left = jobs_on(context)
        if not busy and not left:
            return Done("no job is left there", {"empty": True})
        waited = context.now - (context.row.started_at or context.now)
        if waited >= PATIENCE_S and may_be_forced(context, left):
            return Done(f"not empty after {PATIENCE_S:.0f} s", {"empty": False})
        who = ", ".join(f"job {job.address} ({job.state})" for job in left) or f"{', '.join(busy)} busy"
        return (Hold if self._is_kept(context, left) else Wait)(f"waits for {who}", after=1.0)

    def _is_kept(self, context: Context, left: list[SlurmJob]) -> bool:
        """People know of a job that was left alone: waiting for it is not a step that is late."""
        sick = frozenset(context.incident.slurm_nodes)
        return any(classify(job, sick).keeps_the_node for job in left)
