"""release-jobs: one native requeue per job run; Slurm gives the job its KillWait to save.

A silent machine is set DOWN instead: Slurm's own requeue is then the run's one requeue.
"""

from __future__ import annotations

from dataclasses import replace

from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.conditions import lost_condition
from remediator.workflow.context import Context
from remediator.workflow.forgotten import ASKS, forgotten, requeued
from remediator.workflow.runs import moved_on, who
from remediator.workflow.silence import lost_nodes, refuse_down, set_machine_down
from remediator.workflow.step import Writing
from slurm_bridge.kinds import Release, classify
from slurm_bridge.model import SlurmJob


class ReleaseJobs(Writing):
    """A second requeue would kill the new run, so the run is read again right before the write."""

    name = "release-jobs"
    bound_s = 180.0

    def check(self, context: Context) -> Outcome | None:
        """Done when this run has left the node, Wait while it saves, None when it still runs there.

        A job that must not be requeued holds the incident, visibly, until it ends or its owner lets it go.
        """
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None:
            return Done(f"job {run.address} is no longer known to Slurm", {"gone": True})
        if job.is_completing:
            return self._saving(context, job)
        if job.state == "UNKNOWN":
            return Wait(f"job {run.address}: its state cannot be read", after=1.0)
        if moved_on(job, run):
            return self._moved(context, job)
        if not self._is_there(context, job):
            return Done(f"job {run.address} left by itself: {job.state}")
        release = self._release(context, job)
        if release.act == "tell-only":
            return _left_alone(run, release)
        lost = lost_condition(context, context.incident.slurm_nodes)
        if lost is not None:
            return replace(lost, facts=lost.facts | {"untouched": run.key})
        return refuse_down(context) if context.incident.is_silence else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Whose job is asked to save and restart, or loses its node."""
        if incident.is_silence:
            return f"set {', '.join(incident.slurm_nodes)} DOWN, so that Slurm requeues {who(run)}"
        held = ", and hold it there" if run is not None and run.held_because else ""
        return f"requeue {who(run)}: SIGTERM, then KillWait to save{held}"

    def act(self, context: Context) -> Outcome | None:
        """The run's one requeue, only if a fresh read still shows this very run and nothing forbids it."""
        run = context.the_run
        job = context.slurm.job(run.job_id)
        if job is None or moved_on(job, run) or job.is_completing:
            return None
        if self._release(context, job).act != "requeue":
            return None
        started = context.slurm.config().started_at
        if context.incident.is_silence:
            set_machine_down(context)
            took = f"slurmctld set {', '.join(context.incident.slurm_nodes)} DOWN"
        else:
            context.slurm.requeue(job, held=bool(run.held_because))
            took = f"slurmctld took the requeue of job {run.address}"
        return Wait(took, 0.0, requeued(context, started))

    def _moved(self, context: Context, job: SlurmJob) -> Done:
        """Requeued, by us or by Slurm; nodes it lost on the way may hold its old processes yet."""
        run = context.the_run
        lost = lost_nodes(context)
        why = f"; its processes on {', '.join(lost)} may live on" if lost else ""
        facts = {"lost": {"run": run.key, "nodes": lost}} if lost else {}
        return Done(f"job {run.address} is requeued as restart {job.restart_count}{why}", facts)

    def _saving(self, context: Context, job: SlurmJob) -> Wait:
        """The next run is counted already: whatever became of our answer, slurmctld took the requeue."""
        asked = context.row.acted_at is not None and ASKS not in context.row.facts
        known = asked and moved_on(job, context.the_run)
        facts = requeued(context, context.slurm.config().started_at) if known else {}
        return Wait(f"job {job.address} is saving (COMPLETING)", after=0.5, facts=facts)

    def _is_there(self, context: Context, job: SlurmJob) -> bool:
        """It holds the sick node, or would be restarted by now had slurmctld not forgotten it."""
        on_it = job.holds_nodes and bool(set(job.nodes) & set(context.incident.slurm_nodes))
        return on_it or forgotten(context, job)

    def _release(self, context: Context, job: SlurmJob) -> Release:
        """Asked again now: its owner may have said since that the job is to be left, or may go."""
        alive = replace(job, state="RUNNING") if job.is_over and forgotten(context, job) else job
        return classify(alive, frozenset(context.incident.slurm_nodes))


def _left_alone(run: JobRun, release: Release) -> Outcome:
    sentence = f"job {run.address} is left alone ({release.why}); the node waits drained"
    return (Hold if release.keeps_the_node else Wait)(sentence, after=5.0)
