"""restart-job: one requeue of a run that has crashed. Slurm takes it while it remembers the job."""

from __future__ import annotations

from dataclasses import replace

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.forgotten import ASKS, forgotten, requeued
from remediator.workflow.runs import moved_on, who
from remediator.workflow.step import Writing
from slurm_bridge.kinds import classify


class RestartJob(Writing):
    """Nothing runs any more, so nothing is drained or signalled; a requeue of the next run would kill it."""

    name = "restart-job"
    bound_s = 30.0

    def check(self, context: Context) -> Outcome | None:
        """Done when this run is requeued or is not to be; None while it lies there FAILED."""
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None:
            return Done(f"job {run.address} is no longer known to Slurm")
        if job.state == "UNKNOWN" or job.is_completing:
            return Wait(f"job {run.address}: its end cannot be read yet", after=1.0)
        if moved_on(job, run):
            return Done(f"job {run.address} is requeued as restart {job.restart_count}")
        if job.state != "FAILED":
            return Done(f"job {run.address} is {job.state}: nothing is restarted")
        if ASKS in context.row.facts and not forgotten(context, job):
            return Done(f"job {run.address} stays failed: its requeue was taken and lost")
        release = classify(replace(job, state="RUNNING"), frozenset())
        return None if release.act == "requeue" else Done(f"job {run.address} stays failed: {release.why}")

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose job starts again."""
        return f"requeue {who(run)}, which has crashed"

    def act(self, context: Context) -> Outcome | None:
        """The run's one requeue, only if a fresh look still finds it as it crashed."""
        if self.check(context) is not None:
            return None
        job = context.slurm.job(context.the_run.job_id)
        started = context.slurm.config().started_at
        if job is not None and not moved_on(job, context.the_run):
            context.slurm.requeue(job, held=bool(context.the_run.held_because))
        return Wait(f"slurmctld took the requeue of {who(context.run)}", 0.0, requeued(context, started))
