"""release-jobs: one native requeue per job run; Slurm gives the job its KillWait to save."""

from __future__ import annotations

from remediator.errors import Blocked
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.ownership import is_our_drain
from remediator.workflow.runs import moved_on, who
from remediator.workflow.step import Writing
from slurm_bridge.kinds import Release, classify
from slurm_bridge.model import SlurmJob


class ReleaseJobs(Writing):
    """A second requeue would kill the new run, so the run is read again right before the write."""

    name = "release-jobs"
    bound_s = 180.0

    def check(self, context: Context) -> Outcome | None:
        """Done when this run has left the node, Wait while it saves, None when it still runs there."""
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None:
            return Done(f"job {run.address} is no longer known to Slurm", {"gone": True})
        if job.is_completing:
            return Wait(f"job {run.address} is saving (COMPLETING)", after=0.5)
        if job.state == "UNKNOWN":
            return Wait(f"job {run.address}: its state cannot be read", after=1.0)
        if moved_on(job, run):
            return Done(f"job {run.address} is requeued as restart {job.restart_count}")
        if not job.holds_nodes or not set(job.nodes) & set(context.incident.slurm_nodes):
            return Done(f"job {run.address} left by itself: {job.state}")
        release = self._release(context, job)
        if release.act == "tell-only":
            return Wait(f"job {run.address} is left alone ({release.why}); the node waits drained", after=5.0)
        self._demand_drain(context, job)
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose job is asked to save and restart."""
        return f"requeue {who(run)}: SIGTERM, then KillWait to save"

    def act(self, context: Context) -> Outcome | None:
        """The run's one requeue, only if a fresh read still shows this very run and nothing forbids it."""
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None or moved_on(job, run) or job.is_completing:
            return None
        if self._release(context, job).act == "requeue":
            context.slurm.requeue(job)
        return None

    def _release(self, context: Context, job: SlurmJob) -> Release:
        """Asked again now: its owner may have said since that the job is to be left, or may go."""
        return classify(job, frozenset(context.incident.slurm_nodes))

    def _demand_drain(self, context: Context, job: SlurmJob) -> None:
        for name in set(job.nodes) & set(context.incident.slurm_nodes):
            if not is_our_drain(context.slurm.node(name), context.incident):
                raise Blocked(
                    f"{name} is no longer drained by this incident: job {job.address} is left alone"
                )
