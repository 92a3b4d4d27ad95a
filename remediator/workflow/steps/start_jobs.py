"""start-jobs: lift the delay Slurm puts on a requeued job, once its old processes are surely gone."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.clocks import slurms_now
from remediator.workflow.context import Context
from remediator.workflow.places import place_name
from remediator.workflow.runs import moved_on, who
from remediator.workflow.silence import HELD, UNFENCED, fencing_proof
from remediator.workflow.step import Writing
from slurm_bridge.model import SlurmJob


class StartJobs(Writing):
    """Slurm holds a requeued job for 121 s. A run that ended without DOWN may go at once; one that lost a
    node only on proof that its processes there are gone, else Slurm's delay stands.
    """

    name = "start-jobs"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when nothing delays the job; Wait while COMPLETING or unknown; None when the delay stands."""
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is not None and job.state == "UNKNOWN":
            return Wait(f"job {run.address}: its state cannot be read", after=1.0)
        if job is None or job.state != "PENDING":
            return Done(f"job {run.address} needs no start: {job.state if job else 'gone'}")
        if job.is_completing:
            return Wait(f"job {run.address} is still COMPLETING", after=0.5)
        if not moved_on(job, run):
            return Done(f"job {run.address} never ran on the node")
        if self._outside(context, job):
            return None
        held = _held_by_us(context, job)
        if _hold_is_forgotten(context, job):
            why = f"slurmctld was restarted and forgot the hold of job {run.address}"
            return Wait(f"{why}: holding it again", after=0.5, facts={"hold_again": run.key})
        if not held and (job.begin_time or 0.0) <= slurms_now(context) + 1:
            return Done(f"job {run.address} may start at once")
        return self._unproven(context, held=held) if self._proof(context) is None else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose job may go."""
        return f"lift the requeue delay of {who(run)}"

    def _outside(self, context: Context, job: SlurmJob) -> bool:
        """A place is kept for the job, and it is not in it yet."""
        name = place_name(context.incident, context.the_run)
        return job.reservation != name and context.slurm.reservation(name) is not None

    def act(self, context: Context) -> Outcome | None:
        """Put the job into the place kept for it, then set its begin time to now if it may go."""
        job_id, name = context.the_run.job_id, place_name(context.incident, context.the_run)
        if context.slurm.reservation(name) is not None:
            context.slurm.set_job_reservation(job_id, name)
        proof = self._proof(context)
        if proof is None:
            return None
        if HELD in context.row.facts:
            self._unhold(context)
        context.slurm.start_now(job_id)
        return Wait(f"the delay is lifted, {proof}", after=0.0) if proof else None

    def _unhold(self, context: Context) -> None:
        job = context.slurm.job(context.the_run.job_id)
        if job is not None and _held_by_us(context, job):
            context.slurm.unhold_job(job.job_id)

    def _proof(self, context: Context) -> str | None:
        """Why no process of the old run can be alive: `""` when none was left behind, None without proof."""
        return fencing_proof(context) if context.row.facts.get(UNFENCED) else ""

    def _unproven(self, context: Context, *, held: bool) -> Wait:
        lost = ", ".join(context.row.facts[UNFENCED])
        then = "it stays held until then" if held else "Slurm's own delay stands"
        why = f"nothing proves that its processes on {lost} are gone: {then}"
        return Wait(f"job {context.the_run.address}: {why}", after=2.0, patient=True)


def _held_by_us(context: Context, job: SlurmJob) -> bool:
    """Whether our hold still stands; a person who releases the job decides for it."""
    return job.held and HELD in context.row.facts


def _hold_is_forgotten(context: Context, job: SlurmJob) -> bool:
    """A slurmctld that was killed soon after it took the hold; else a person has released the job."""
    if job.held or context.row.facts.get(HELD) is None:
        return False
    return context.slurm.config().started_at not in {None, context.row.facts[HELD]}
