"""Who is still on the machine, and whether force may end it."""

from __future__ import annotations

from remediator.workflow.context import Context
from remediator.workflow.runs import moved_on
from slurm_bridge.model import SlurmJob


def jobs_on(context: Context) -> list[SlurmJob]:
    """Jobs that hold one of the machine's Slurm nodes, freshly listed."""
    names = set(context.incident.slurm_nodes)
    return [job for job in context.slurm.jobs() if job.holds_nodes and names & set(job.nodes)]


def may_be_forced(context: Context, left: list[SlurmJob]) -> bool:
    """True when every remaining job is a run we were to requeue and did: it had its whole grace.

    Never an expedited one: under DOWN its next run starts at once, beside what would not end.
    """
    released = {run.job_id: run for run in context.runs if run.release == "requeue"}
    had_grace = all(job.job_id in released and moved_on(job, released[job.job_id]) for job in left)
    return had_grace and not any(job.is_expedited for job in left)
