"""Whether a job still lives the run we know."""

from __future__ import annotations

from remediator.model.run import JobRun
from slurm_bridge.model import SlurmJob


def moved_on(job: SlurmJob, run: JobRun) -> bool:
    """True when the job was requeued since: by us, by Slurm, or by its user."""
    return (job.restart_count, job.submit_time) != (run.restart_count, run.submit_time)
