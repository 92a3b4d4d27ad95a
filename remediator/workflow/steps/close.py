"""close: every track ended; the incident is sealed with what it cost."""

from __future__ import annotations

from remediator.model.plan import Done, Outcome
from remediator.workflow.context import Context
from remediator.workflow.step import Step


class Close(Step):
    """The node stays drained and fenced: giving it back takes proof of its own."""

    name = "close"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done: the engine runs this step only when all others are."""
        seconds = context.now - context.incident.fault_at
        return Done(
            f"closed {seconds:.1f} s after the fault; {context.incident.node} stays drained and fenced"
        )
