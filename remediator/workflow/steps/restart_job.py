"""restart-job: one requeue of a run that has crashed, which Slurm takes while it remembers the job, or of one
that stands still, which gets its time to save.
"""

from __future__ import annotations

from dataclasses import replace

from remediator.model.faults import JOB_STALLED
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.forgotten import ASKS, forgotten, requeued
from remediator.workflow.runs import moved_on, who
from remediator.workflow.step import Writing
from slurm_bridge.kinds import classify
from slurm_bridge.model import SlurmJob

FRESH_S = 300.0
"""A stall that was seen longer ago may be over by now."""


class RestartJob(Writing):
    """No node is drained for it; a requeue of the next run would kill it."""

    name = "restart-job"
    bound_s = 180.0  # one that stands still has its KillWait to save

    def check(self, context: Context) -> Outcome | None:
        """Done when this run is requeued or is not to be; None while it lies FAILED, or stands still."""
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None:
            return Done(f"job {run.address} is no longer known to Slurm")
        if job.state == "UNKNOWN" or job.is_completing:
            return Wait(f"job {run.address}: its end cannot be read yet", after=1.0)
        if moved_on(job, run):
            return Done(f"job {run.address} is requeued as restart {job.restart_count}")
        if job.state != _wanted(context.incident):
            return Done(f"job {run.address} is {job.state}: nothing is restarted")
        if ASKS in context.row.facts and not forgotten(context, job):
            return Done(f"job {run.address} stays as it is: its requeue was taken and lost")
        why = _spared(context, job)
        return Done(f"job {run.address} stays as it is: {why}") if why else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose job starts again."""
        if incident.rule == JOB_STALLED:
            return f"requeue {who(run)}, which stands still: SIGTERM, then KillWait to save"
        return f"requeue {who(run)}, which has crashed"

    def act(self, context: Context) -> Outcome | None:
        """The run's one requeue, only if a fresh look still finds it as it was."""
        if self.check(context) is not None:
            return None
        job = context.slurm.job(context.the_run.job_id)
        started = context.slurm.config().started_at
        if job is not None and not moved_on(job, context.the_run):
            context.slurm.requeue(job, held=bool(context.the_run.held_because))
        return Wait(f"slurmctld took the requeue of {who(context.run)}", 0.0, requeued(context, started))


def _wanted(incident: Incident) -> str:
    return "RUNNING" if incident.rule == JOB_STALLED else "FAILED"


def _spared(context: Context, job: SlurmJob) -> str:
    """Why it is not requeued after all: its owner's word, or that its stall may be over; `""` when it is."""
    release = classify(replace(job, state="RUNNING"), frozenset())
    if release.act != "requeue":
        return release.why
    ago = context.now - context.incident.opened_at
    waited = context.incident.rule == JOB_STALLED and ASKS not in context.row.facts and ago > FRESH_S
    return f"it stood still {ago:.0f} s ago, and nobody has looked since" if waited else ""
