"""A machine that is given back: by which incident it had been taken out, and when a fault may stop it."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.workflow.context import Context

TAKEN_OUT_BY = "taken_out_by"
AS_A_SPARE = "as_spare"
RESUMED = "resumed; looked at again after 30 s"


def taken_out_by(context: Context) -> Incident:
    """The closed incident whose marks are to be taken back, on the machine as it is called now."""
    return context.incident.model_copy(update={"id": str(context.row.facts[TAKEN_OUT_BY])})


def may_stop(rows: Sequence[StepRow]) -> bool:
    """Whether no write of a return is under way or half done: a late RESUME
    would undo the DRAIN of the new fault.
    """
    by_name = {row.name: row for row in rows}
    if any(row.state == "running" for row in rows):
        return False
    resume = by_name["resume-slurm"]
    whole = resume.state == "done" or resume.sentence == RESUMED
    return whole or by_name["unfence-node"].acted_at is None
