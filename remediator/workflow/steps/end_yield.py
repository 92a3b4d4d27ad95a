"""yield: everything that had to be taken back is; the incident ends as overridden by a human."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold
from remediator.model.spare import Spare
from remediator.workflow.step import Local


class EndYield(Local):
    """Last of the way back."""

    name = "yield"
    bound_s = 5.0

    def conclude(self, incident: Incident, spare: Spare | None, now: float) -> Done | Hold:
        """Done: the engine runs this step only when all others of the way back are."""
        return Done(f"overridden by human: nothing of ours is left to take back for {incident.node}")
