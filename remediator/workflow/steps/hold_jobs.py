"""hold-jobs: where the site wants it, a run that lost a node starts again only on proof, however late; one
over the cap of requeues only when a person has looked.
"""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.runs import moved_on, who
from remediator.workflow.silence import fencing_proof
from remediator.workflow.step import Writing


class HoldJobs(Writing):
    """Slurm's own delay is over after 121 s, and old processes may outlive it. start-jobs lifts the hold."""

    name = "hold-jobs"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the job is held, or needs no hold; one that stood before we asked for it is not ours."""
        run = context.the_run
        capped = bool(run.held_because) and context.incident.is_silence
        if not capped and context.incident.pool not in context.conduct.hold_until_fenced:
            return Done("hold_until_fenced is off for its pool: Slurm's own delay stands")
        job = context.slurm.job(run.job_id)
        if job is not None and job.state == "UNKNOWN":
            return Wait(f"job {run.address}: its state cannot be read", after=1.0)
        if job is None or job.state != "PENDING" or not moved_on(job, run):
            return Done(f"job {run.address} needs no hold: {job.state if job else 'gone'}")
        if capped:
            why = f"job {run.address} waits held for a person: {run.held_because}"
            return Done(why) if job.held else None
        if job.held and context.row.acted_at is None:
            return Done(f"job {run.address} is held already, by somebody else")
        if job.held:
            known = {"run": run.key, "ctld_started": context.slurm.config().started_at}
            return Done(f"job {run.address} is held until its old processes are gone", {"hold": known})
        proof = fencing_proof(context)
        return Done(f"job {run.address} needs no hold: {proof}") if proof else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose job, and until when."""
        until = (
            "a person lets it go" if run is not None and run.held_because else "its old processes are gone"
        )
        return f"hold {who(run)} until {until}"

    def act(self, context: Context) -> Outcome | None:
        """One hold; repeating it changes nothing."""
        context.slurm.hold_job(context.the_run.job_id)
        return None
