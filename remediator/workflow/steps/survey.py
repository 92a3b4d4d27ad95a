"""survey: which job runs are on the drained machine. After the DRAIN, so that no new one can come."""

from __future__ import annotations

from collections.abc import Iterable

from remediator.errors import Retry
from remediator.kube.pods import slurm_node
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.signals.plain import shown
from remediator.workflow.context import Context
from remediator.workflow.step import Step
from slurm_bridge.dependents import dependents
from slurm_bridge.kinds import classify
from slurm_bridge.model import SlurmJob


class Survey(Step):
    """Repeated until nothing new turns up; an answer that contradicts the node's state is unknown."""

    name = "survey"
    bound_s = 10.0

    def check(self, context: Context) -> Outcome | None:
        """Wait with the new runs as facts, or Done when all are on the books. A worker that came after the
        incident was opened is drained first.
        """
        names = frozenset(context.incident.slurm_nodes)
        came = self._came_meanwhile(context)
        if came:
            drain = {"workers": sorted({*names, *came}), "again": "drain-slurm"}
            return Wait(f"{', '.join(came)} came onto the machine before its fence", 0.0, drain)
        everybody = context.slurm.jobs()
        jobs = [job for job in everybody if job.holds_nodes and names & set(job.nodes)]
        if not jobs:
            self._refuse_contradiction(context)
        runs = [(run_of(job, names), job) for job in jobs]
        fresh = [
            _with_dependents(*found, everybody) for found in runs if found[0].key not in context.known_runs
        ]
        if fresh:
            facts = {"runs": [run.model_dump(mode="json") for run in fresh]}
            return Wait(f"job runs found on {', '.join(sorted(names))}: {len(fresh)}", after=0.0, facts=facts)
        return self._complete(context)

    def _came_meanwhile(self, context: Context) -> list[str]:
        here = {slurm_node(pod) for pod in context.nodes.pods_on(context.incident.node) if not pod.finished}
        return sorted(name for name in here - set(context.incident.slurm_nodes) if name)

    def foresee(self, context: Context) -> Outcome:
        """Looking is free."""
        return self.check(context) or Done("no job runs there")

    def _complete(self, context: Context) -> Done:
        runs = len(context.known_runs)
        if not runs:
            return Done("no job runs there")
        grace = context.slurm.config().kill_wait
        given = f"{grace} s" if grace is not None else "an unknown time"
        moved = sum(run.release == "requeue" for run in context.runs)
        alone = f"; left alone: {runs - moved}" if moved < runs else ""
        saving = "none can save" if context.incident.is_silence else f"Slurm gives each {given} to save"
        text = f"job runs to be moved: {moved}{alone}; {saving}"
        return Done(text, {"grace_s": grace})

    def _refuse_contradiction(self, context: Context) -> None:
        for name in context.incident.slurm_nodes:
            if context.slurm.node(name).is_busy:
                raise Retry(f"{name} is busy, yet no job is listed on it: unknown", after=0.5)


def _with_dependents(run: JobRun, job: SlurmJob, everybody: Iterable[SlurmJob]) -> JobRun:
    waiting = sorted({found.job.address for found in dependents(job, everybody)})
    return run.model_copy(update={"waited_for_by": tuple(waiting)})


def run_of(job: SlurmJob, sick: frozenset[str]) -> JobRun:
    """The run whose processes hold the node, and how it may be released.

    While a requeued run saves, Slurm already counts the next one: the same run keeps one name.
    """
    release = classify(job, sick)
    next_counted = job.state == "PENDING" and job.is_completing and job.restart_count > 0
    return JobRun(
        job_id=job.job_id,
        submit_time=job.submit_time,
        restart_count=job.restart_count - next_counted,
        address=job.address,
        name=shown(job.name),
        user=job.user,
        nodes=job.nodes,
        release=release.act,
        why=release.why,
        started_at=job.start_time,
        gpus=job.gpus,
    )
