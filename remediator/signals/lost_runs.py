"""Slurm's jobs -> Signals: runs that Slurm takes from a node it sets DOWN, and will start again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from remediator.model.run import JobRun
from remediator.model.signal import Signal
from remediator.signals.plain import shown
from slurm_bridge.model import SlurmJob

LOST_RUN = "run-lost-node"


def runs_on(jobs: Iterable[SlurmJob], worker: str) -> list[JobRun]:
    """Runs on this Slurm node that Slurm will start again should they lose it."""
    return [
        JobRun(
            job_id=job.job_id,
            submit_time=job.submit_time,
            restart_count=job.restart_count,
            address=job.address,
            name=shown(job.name),
            user=shown(job.user),
            nodes=(worker,),
        )
        for job in jobs
        if worker in job.nodes and job.state == "RUNNING" and job.batch and job.requeue
    ]


def lost_runs(jobs: Iterable[SlurmJob], runs: Mapping[JobRun, str], now: float) -> list[Signal]:
    """One signal for each of these runs (the values: their machines) whose job waits for its next one.

    A job that is held already starts nowhere.
    """
    waiting = {job.job_id: job.restart_count for job in jobs if job.state == "PENDING" and not job.held}
    lost = {run: node for run, node in runs.items() if waiting.get(run.job_id, -1) > run.restart_count}
    return [
        Signal(
            source="slurm",
            node=node,
            boot_id="",
            kind=LOST_RUN,
            seen_at=now,
            received_at=now,
            dedupe=f"{LOST_RUN}:{run.key}",
            detail=run.model_dump(mode="json"),
        )
        for run, node in lost.items()
    ]
