"""hold-place: a reservation on the job's healthy nodes; without it a queued job takes them in 3 s."""

from __future__ import annotations

from contextlib import suppress

from remediator.errors import Blocked
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.places import MINUTES, held_alone, place_name
from remediator.workflow.runs import moved_on, who
from remediator.workflow.step import Writing
from slurm_bridge.kinds import classify


class HoldPlace(Writing):
    """Before the release: once the job lets go of its nodes, anybody may have them."""

    name = "hold-place"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done when the place is kept, or when there is nothing that may be kept."""
        run = context.the_run
        if run.release != "requeue":
            return Done(f"job {run.address} is left alone: no place is kept")
        if run.held_because:
            return Done(f"job {run.address} is to wait held: no place is kept")
        name = place_name(context.incident, run)
        kept = context.slurm.reservation(name)
        if kept is not None:
            return Done(f"{', '.join(kept.nodes)} kept for job {run.address}", {"place": name})
        job = context.slurm.job(run.job_id)
        if job is None or moved_on(job, run):
            return Done(f"job {run.address} has left already: no place is kept")
        left = classify(job, frozenset(context.incident.slurm_nodes))
        if left.act == "tell-only":
            return Done(f"job {run.address} is left alone ({left.why}): no place is kept")
        if job.reservation:
            return Done(f"job {run.address} has reservation {job.reservation}: no place is kept")
        if set(run.nodes) <= set(context.incident.slurm_nodes):
            return self._nowhere(context)
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """For whom, and under which name."""
        name = place_name(incident, run) if run else "?"
        return f"reserve the healthy nodes of {who(run)} for {MINUTES} minutes as {name}"

    def act(self, context: Context) -> Outcome | None:
        """One reservation. A refusal (somebody else reserved a node) must not keep the job from moving."""
        run = context.the_run
        nodes = held_alone(run, context.incident.slurm_nodes, context.slurm.jobs())
        if not nodes:
            return self._nowhere(context)
        with suppress(Blocked):
            context.slurm.reserve(place_name(context.incident, run), nodes, [run.user], MINUTES)
        return None

    def verify(self, context: Context) -> Outcome:
        """Done either way: the place is a help, not a condition."""
        return self.check(context) or Done(f"no place could be kept for job {context.the_run.address}")

    def _nowhere(self, context: Context) -> Done:
        return Done(f"job {context.the_run.address} has no other node of its own: no place is kept")
