"""close: every track ended; the incident is sealed with what it cost."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold
from remediator.workflow.step import Local


class Close(Local):
    """The node stays drained and fenced: giving it back takes proof of its own."""

    name = "close"
    bound_s = 5.0

    def conclude(self, incident: Incident, now: float) -> Done | Hold:
        """Done: the engine runs this step only when all others are."""
        seconds = now - incident.fault_at
        return Done(f"closed {seconds:.1f} s after the fault; {incident.node} stays drained and fenced")
