"""slurmctld that is killed soon after it took a requeue forgets it; the run has had its SIGTERM by then."""

from __future__ import annotations

from typing import Any

from remediator.workflow.context import Context
from remediator.workflow.runs import moved_on
from slurm_bridge.model import SlurmJob

ASKS, CTLD_STARTED = "asks", "ctld_started"
AS_BEFORE = frozenset({"FAILED", "RUNNING"})  # how such a run comes back, under the same restart count


def requeued(context: Context, ctld_started: int | None) -> dict[str, Any]:
    """The fact that this slurmctld took the run's requeue; every step of the run gets to know it."""
    return {"requeued": {"run": context.the_run.key, CTLD_STARTED: ctld_started}}


def forgotten(context: Context, job: SlurmJob) -> bool:
    """Whether the run's requeue was taken and then forgotten: it is asked for once more, never twice."""
    facts = context.row.facts
    if facts.get(ASKS) != 1 or moved_on(job, context.the_run) or job.is_completing:
        return False
    if job.state not in AS_BEFORE or facts.get(CTLD_STARTED) is None:
        return False
    return context.slurm.config().started_at not in {None, facts[CTLD_STARTED]}
