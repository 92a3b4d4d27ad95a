"""free-place: the job runs again, so it is taken out of its reservation and the reservation deleted.

In this order: a running job dies with its reservation otherwise.
"""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.places import place_name
from remediator.workflow.runs import who
from remediator.workflow.step import Writing


class FreePlace(Writing):
    """Nothing of ours stays in Slurm's way."""

    name = "free-place"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the reservation is gone."""
        if context.slurm.reservation(place_name(context.incident, context.the_run)) is None:
            return Done(f"no place is kept for job {context.the_run.address} any more")
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose place."""
        name = place_name(incident, run) if run else "?"
        return f"take {who(run)} out of reservation {name} and delete it"

    def act(self, context: Context) -> Outcome | None:
        """Out of it first, whatever the job is doing; then the reservation itself."""
        run = context.the_run
        name = place_name(context.incident, run)
        job = context.slurm.job(run.job_id)
        if job is not None and job.reservation == name:
            context.slurm.set_job_reservation(run.job_id, "")
        context.slurm.delete_reservation(name)
        return None
