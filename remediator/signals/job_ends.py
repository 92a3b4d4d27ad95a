"""Slurm's job list -> Signals: batch jobs that ended badly, each run once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from remediator.model.job_end import JobEnd
from remediator.model.run import JobRun
from remediator.model.signal import ONLY_RECORDED, Signal
from remediator.signals.plain import shown
from slurm_bridge.kinds import classify
from slurm_bridge.model import SlurmJob

JOB_ENDED = "job-ended"
JOB_WATCH = "job-watch"
END_UNSEEN = "job-end-unseen"
# What a scancel, a time limit, a preemption or a deadline ends is no news.
BAD_ENDS = frozenset({"FAILED", "NODE_FAIL", "OUT_OF_MEMORY"})


def watch_began(now: float) -> Signal:
    """The first look at Slurm's jobs in the life of a store: what ended before it is left alone."""
    return _signal(JOB_WATCH, now, now, JOB_WATCH, {})


def job_ends(jobs: Iterable[SlurmJob], now: float, remembered_s: float | None = None) -> list[Signal]:
    """One signal per ended batch run; Slurm keeps showing a run for MinJobAge, `dedupe` makes it one row."""
    bad = [job for job in jobs if job.batch and job.is_over and job.state in BAD_ENDS]
    return [_ended(job, now, remembered_s) for job in bad]


def end_unseen(job_id: int, min_job_age: float | None, now: float) -> Signal:
    """A job that ran a look ago is not known to Slurm any more: nobody can say how it ended."""
    age = "MinJobAge" if min_job_age is None else f"MinJobAge, {min_job_age:.0f} s,"
    says = (
        f"job {job_id} was RUNNING and is gone, its end not seen: {age} is too short for the looks; "
        "it is not restarted, and no node is blamed"
    )
    detail = {"says": says, "job": job_id, ONLY_RECORDED: True}
    return _signal(END_UNSEEN, now, now, f"{END_UNSEEN}:{job_id}:{now:.3f}", detail)


def _ended(job: SlurmJob, now: float, remembered_s: float | None) -> Signal:
    end = JobEnd(
        run=_run(job),
        job=str(job.array_job_id or job.het_job_id or job.job_id),
        work=shown(f"{job.user}/{job.name}"),
        state=job.state,
        code=job.exit.code or 0,
        signal=job.exit.signal or 0,
        began=job.start_time,
        ended=job.end_time if job.end_time is not None else now,
        remembered_s=remembered_s,
    )
    detail = end.model_dump(mode="json")
    return _signal(JOB_ENDED, end.ended, now, f"{JOB_ENDED}:{end.run.key}", detail)


def _run(job: SlurmJob) -> JobRun:
    """How it could have been released while it ran: what its owner asked for holds for a restart too."""
    release = classify(replace(job, state="RUNNING"), frozenset())
    return JobRun(
        job_id=job.job_id,
        submit_time=job.submit_time,
        restart_count=job.restart_count,
        address=job.address,
        name=shown(job.name),
        user=shown(job.user),
        nodes=job.nodes,
        release=release.act,
        why=release.why,
        started_at=job.start_time,
        gpus=job.gpus,
    )


def _signal(kind: str, seen_at: float, now: float, dedupe: str, detail: dict[str, object]) -> Signal:
    return Signal(
        source="slurm",
        node="",
        boot_id="",
        kind=kind,
        seen_at=seen_at,
        received_at=now,
        dedupe=dedupe,
        detail=detail,
    )
