"""close: every track ended; the incident is sealed with what it cost."""

from __future__ import annotations

from remediator.model.faults import JOB_STALLED
from remediator.model.incident import GIVE_BACK, HOLD_JOB, RESTART_JOB, Incident
from remediator.model.plan import Done, Hold
from remediator.model.spare import Spare
from remediator.workflow.step import Local


class Close(Local):
    """The sick node stays out of use: giving it back takes proof and a plan of its own."""

    name = "close"
    bound_s = 5.0

    def conclude(self, incident: Incident, spare: Spare | None, now: float) -> Done | Hold:
        """Done: the engine runs this step only when all others are."""
        if incident.dry_run:
            return Done("closed: a dry run, nothing was written")
        if incident.plan == GIVE_BACK:
            return Done(f"{incident.node} is back in service after {now - incident.fault_at:.1f} s")
        if incident.plan == RESTART_JOB:
            what = "it stood still" if incident.rule == JOB_STALLED else "the crash"
            return Done(f"settled {now - incident.fault_at:.1f} s after {what}; no node was touched")
        if incident.plan == HOLD_JOB:
            return Done(f"settled {now - incident.fault_at:.1f} s after the loss; no node was touched")
        return Done(f"closed {now - incident.fault_at:.1f} s after the fault; {_fate(incident, spare)}")


def _fate(incident: Incident, spare: Spare | None) -> str:
    if spare is not None:
        return f"{spare.node} replaces {incident.node}, which is out of its pool"
    if incident.plan == "replace":
        return f"{incident.node} is out of its pool, without a replacement"
    return f"{incident.node} stays drained and fenced"
