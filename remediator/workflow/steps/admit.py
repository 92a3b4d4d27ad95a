"""admit: the machine is known, in a pool and ours to treat. From caches, no outside call."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold
from remediator.model.spare import Spare
from remediator.workflow.step import Local


class Admit(Local):
    """The core decided from the inventory; what is left is to say what will be touched."""

    name = "admit"
    bound_s = 0.05

    def conclude(self, incident: Incident, spare: Spare | None, now: float) -> Done | Hold:
        """Done with the names that will be written to; Hold when the machine has no identity."""
        if not incident.node_uid:
            return Hold(f"{incident.node} has no UID in the inventory")
        workers = ", ".join(incident.slurm_nodes) or "no Slurm worker"
        return Done(f"{incident.node} ({workers}) is in a pool and admitted")
