"""undo-hold: our hold of a job is lifted on proof, else it stays and people are told how to lift it."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.runs import who
from remediator.workflow.silence import fencing_proof
from remediator.workflow.step import Writing


class UndoHold(Writing):
    """A second copy of a job is worse than one that waits for a person."""

    name = "undo-hold"
    bound_s = 30.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the job is not held any more, or has to stay so."""
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None or job.state != "PENDING" or not job.held:
            return Done(f"no hold is left on job {run.address}")
        if run.held_because:
            return Done(f"job {run.address} stays held for a person: {run.held_because}")
        if fencing_proof(context) is not None:
            return None
        why = (
            f"job {run.address} stays held, as nothing proves that its old processes are gone: "
            f"once they are, scontrol release {run.address}"
        )
        return Done(why, {"stays_held": why})

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose job."""
        return f"lift our hold of {who(run)}"

    def act(self, context: Context) -> Outcome | None:
        """Nobody waits for the incident any more."""
        context.slurm.unhold_job(context.the_run.job_id)
        return None
