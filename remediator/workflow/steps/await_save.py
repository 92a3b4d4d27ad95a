"""await-save: the run goes on where it is until its time has come; no new job may start there meanwhile."""

from __future__ import annotations

from remediator.clock import rfc3339
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.timing import CAP_S
from remediator.workflow.context import Context
from remediator.workflow.runs import moved_on
from remediator.workflow.saved import LOOKING_S, timing_of
from remediator.workflow.step import Step

LOOK_S = 2.0
WEEK_S = 7 * 86_400.0


class AwaitSave(Step):
    """A complete checkpoint newer than the decision ends the wait, at the latest half an hour does. Where
    nobody can see checkpoints the run is left to its own end; after a week people are told.
    """

    name = "await-save"
    bound_s = WEEK_S

    def check(self, context: Context) -> Outcome | None:
        """Done once the run may be asked to leave, or has left; else Wait, saying until when."""
        run = context.the_run
        timing = timing_of(context.incident, context.row)
        if timing == "now":
            return Done(f"job {run.address} is not left to save by itself any more")
        if run.release == "tell-only":
            return Done(f"job {run.address} is left alone ({run.why})")
        gone = _gone(context)
        if gone is not None:
            return gone
        return self._for_its_end(context) if timing == "at-job-end" else self._for_a_save(context)

    def _for_a_save(self, context: Context) -> Outcome:
        run, saved = context.the_run, context.saved
        since = context.row.started_at if context.row.started_at is not None else context.now
        if saved.looked_at is None or saved.looked_at < since - LOOKING_S:
            return self._for_its_end(context, "nobody sees its checkpoints, ")
        newest = saved.newest_at
        if newest is not None and newest > since:
            facts = {"checkpoint": saved.newest, "checkpoint_at": newest}
            return Done(f"job {run.address} has saved {saved.newest} since", facts)
        if context.now >= since + CAP_S:
            return Done(f"job {run.address} has not saved within {CAP_S / 60:.0f} min: it waits no longer")
        until = rfc3339(since + CAP_S)
        return Wait(f"job {run.address} runs on until it has saved, at the latest until {until}", LOOK_S)

    def _for_its_end(self, context: Context, why: str = "") -> Wait:
        return Wait(f"job {context.the_run.address} runs on: {why}it is left to its own end", LOOK_S)


def _gone(context: Context) -> Outcome | None:
    """The run does not compute on the machine any more; what that means is release-jobs' to say."""
    run = context.the_run
    job = context.slurm.job(run.job_id)
    if job is None:
        return Done(f"job {run.address} is no longer known to Slurm")
    if job.state == "UNKNOWN":
        return Wait(f"job {run.address}: its state cannot be read", LOOK_S)
    if moved_on(job, run):
        return Done(f"job {run.address} was requeued by somebody else")
    on_it = job.holds_nodes and bool(set(job.nodes) & set(context.incident.slurm_nodes))
    if job.is_completing or not on_it:
        return Done(f"job {run.address} has ended by itself: {job.state}")
    return None
