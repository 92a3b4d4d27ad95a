"""prove-resume: the job is RUNNING again, as its next restart, on good nodes."""

from __future__ import annotations

from remediator.errors import Blocked
from remediator.model.plan import Done, Outcome, Wait
from remediator.workflow.context import Context
from remediator.workflow.forgotten import forgotten
from remediator.workflow.ownership import is_our_drain
from remediator.workflow.runs import moved_on
from remediator.workflow.step import Step
from slurm_bridge.model import SlurmJob


class ProveResume(Step):
    """The clock that counts: from the fault to the job computing again, at most 15 minutes."""

    name = "prove-resume"
    bound_s = 900.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the next run is RUNNING off the sick machine, has ended, or is held; Wait before that.

        A hold is somebody's word about the job: it is not lifted, and the incident does not wait for it.
        """
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None:
            return Done(f"job {run.address} is no longer known to Slurm")
        if not moved_on(job, run):
            return self._same_run(context, job)
        if job.is_over:
            return Done(f"job {run.address} ended as restart {job.restart_count}: {job.state}")
        if _is_held(job):
            held = f"is held ({job.state_reason}) until `scontrol release {job.address}`"
            return Done(f"job {run.address} {held}; requeued as restart {job.restart_count}", {"held": True})
        if not _computes(job):
            return Wait(f"job {run.address} waits to start: {_why_waiting(job)}", after=0.5)
        self._refuse_drained(context, job)
        where = ", ".join(job.nodes)
        facts = {"nodes": list(job.nodes), "restart": job.restart_count, "running_at": job.start_time}
        return Done(f"job {run.address} is {job.state} on {where} as restart {job.restart_count}", facts)

    def _refuse_drained(self, context: Context, job: SlurmJob) -> None:
        """A worker that moved keeps its name: what counts is whether the node is still drained by us."""
        for name in set(job.nodes) & set(context.incident.slurm_nodes):
            if is_our_drain(context.slurm.node(name), context.incident):
                raise Blocked(f"job {job.address} runs on the drained machine again")

    def _same_run(self, context: Context, job: SlurmJob) -> Outcome:
        if forgotten(context, job):
            why = f"slurmctld was restarted and forgot the requeue of job {job.address}"
            return Wait(f"{why}: asking once more", after=0.5, facts={"forgotten": context.the_run.key})
        if job.is_over:
            return Done(f"job {job.address} ended by itself: {job.state}")
        if job.state == "RUNNING" and job.nodes and set(job.nodes).isdisjoint(context.incident.slurm_nodes):
            without = " without the node" if context.incident.slurm_nodes else ""
            return Done(f"job {job.address} runs on{without}, on {', '.join(job.nodes)}")
        return Wait(f"job {job.address} has not left the node yet: {job.state}", after=1.0)


def _computes(job: SlurmJob) -> bool:
    return job.state == "RUNNING" and job.flags.isdisjoint({"COMPLETING", "CONFIGURING"})


def _is_held(job: SlurmJob) -> bool:
    """Priority 0 alone is not enough: Slurm says JobHeldUser too, or `job requeued in held state`."""
    says = "held" in job.state_reason.lower()
    return job.state == "PENDING" and not job.is_completing and job.held and says


def _why_waiting(job: SlurmJob) -> str:
    return job.state_reason if job.state_reason not in {"", "None"} else job.state
