"""Whether a job still lives the run we know."""

from __future__ import annotations

from remediator.model.run import JobRun
from slurm_bridge.model import SlurmJob


def who(run: JobRun | None) -> str:
    """A job in a sentence: its number and its user."""
    return f"job {run.address} of {run.user or 'unknown'}" if run else "an unknown job"


def moved_on(job: SlurmJob, run: JobRun) -> bool:
    """True when the job was requeued since: by us, by Slurm, or by its user."""
    return (job.restart_count, job.submit_time) != (run.restart_count, run.submit_time)
