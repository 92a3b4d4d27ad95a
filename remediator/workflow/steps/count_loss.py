"""count-loss: what a run had computed since its newest complete checkpoint when it stopped.

For the record only.
"""

from __future__ import annotations

from remediator.model.plan import Done, Outcome, Wait
from remediator.workflow.context import Context
from remediator.workflow.loss import loss_of
from remediator.workflow.saved import LOOKING_S
from remediator.workflow.step import Step

SETTLED_S = 45.0
"""So long after the stop a save that ended with the job has been looked at often enough to count."""


class CountLoss(Step):
    """Waits for the agent's next looks, unless it looks no longer."""

    name = "count-loss"
    bound_s = 600.0

    def check(self, context: Context) -> Outcome | None:
        """Done with the numbers, None among them where they are not known."""
        run, saved, stopped = context.the_run, context.saved, context.stopped_at
        if stopped is None:
            return Done(f"job {run.address} was not interrupted")
        looks = saved.looked_at is not None and context.now - saved.looked_at <= LOOKING_S
        if looks and (saved.looked_at or 0.0) < stopped + SETTLED_S:
            return Wait(f"looks whether job {run.address} has saved at its end", after=5.0)
        loss = loss_of(run, saved, stopped)
        return Done(f"job {run.address}: {loss}", {"loss": loss.facts})
