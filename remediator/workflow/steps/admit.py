"""admit: the machine is known, in a pool and ours to treat. From caches, no outside call."""

from __future__ import annotations

from remediator.model.plan import Done, Hold, Outcome
from remediator.workflow.context import Context
from remediator.workflow.step import Step


class Admit(Step):
    """The core decided from the inventory; what is left is to say what will be touched."""

    name = "admit"
    bound_s = 0.05

    def check(self, context: Context) -> Outcome | None:
        """Done with the names that will be written to; Hold when the machine has no identity."""
        incident = context.incident
        if not incident.node_uid:
            return Hold(f"{incident.node} has no UID in the inventory")
        workers = ", ".join(incident.slurm_nodes) or "no Slurm worker"
        return Done(f"{incident.node} ({workers}) is in a pool and admitted")
