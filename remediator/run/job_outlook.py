"""What would happen to one job on a node that falls ill now, and what it has saved."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.model.checkpoint import Saved
from remediator.model.timing import CAP_S, Timing
from remediator.workflow.loss import Loss, loss_of
from remediator.workflow.steps.survey import run_of
from slurm_bridge.kinds import classify
from slurm_bridge.model import SlurmJob

GRACE_S = 120
"""A job gets min(KillWait, this) to save."""
GIVEN_TIME: dict[Timing, str] = {
    "now": "",
    "at-checkpoint": f"runs on until it has saved, {CAP_S / 60:.0f} min at most; then ",
    "at-job-end": "runs on to its own end; if it has to go before, ",
}


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """One job on the node. `gpu_hours` have run since its last start, on all its nodes; `lost_gpu_hours`
    since its newest complete checkpoint, as `last_save` says; None: unknown.
    """

    address: str
    name: str
    user: str
    kind: str
    released: bool
    what: str
    nodes: tuple[str, ...]
    gpus: int | None
    running_s: float | None
    gpu_hours: float | None
    last_save: str
    lost_gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class Saves:
    """How long Slurm lets a job save (seconds), the Slurm nodes that nobody can tell to, and when jobs that
    are moved are to leave (None: none is moved).
    """

    kill_wait: int | None
    mute: frozenset[str]
    timing: Timing | None


def job_outlook(job: SlurmJob, sick: frozenset[str], saves: Saves, saved: Saved, now: float) -> JobOutlook:
    """The outlook for a job of which `saved` is known, if the Slurm nodes `sick` fell ill."""
    release = classify(job, sick)
    running = None if job.start_time is None else max(0.0, now - job.start_time)
    known = job.gpus is not None and running is not None
    released = saves.timing is not None and release.act == "requeue"
    loss = loss_of(run_of(job, sick), saved, now)
    return JobOutlook(
        address=job.address,
        name=job.name,
        user=job.user,
        kind=release.kind,
        released=released,
        what=_what(job, released, release.why, saves),
        nodes=job.nodes,
        gpus=job.gpus,
        running_s=running,
        gpu_hours=round((job.gpus or 0) * (running or 0.0) / 3600, 2) if known else None,
        last_save=_last_save(loss, saved, saves),
        lost_gpu_hours=loss.gpu_hours,
    )


def too_slow(save_s: float | None, kill_wait: int | None) -> str:
    """That a save needs longer than a job gets for it, as half a sentence; `""` when it does not."""
    grace = GRACE_S if kill_wait is None else min(kill_wait, GRACE_S)
    if save_s is None or save_s <= grace:
        return ""
    return f"a save takes {save_s:.0f} s or more, and it gets {grace} s"


def _last_save(loss: Loss, saved: Saved, saves: Saves) -> str:
    if loss.checkpoint is None:
        return "last complete checkpoint unknown"
    slow = too_slow(saved.save_s, saves.kill_wait)
    more = f"; unfinished since: {', '.join(saved.partial)}" if saved.partial else ""
    more += f"; {slow}" if slow else ""
    if loss.before_s is None:
        return f"no complete checkpoint{more}"
    return f"last complete checkpoint {loss.checkpoint}, {loss.before_s:.0f} s ago{more}"


def _what(job: SlurmJob, released: bool, why: str, saves: Saves) -> str:
    if saves.timing is None:
        return "runs on: it is not touched"
    if not released:
        return f"left alone: {why}; the node waits drained until it ends"
    mute = ", ".join(sorted(saves.mute & set(job.nodes)))
    if mute:
        lost = "no SIGTERM, unsaved work since the last checkpoint is lost"
        return f"requeued once, by DOWN, as {mute} cannot be reached: {lost}; {why}"
    grace = "an unknown time" if saves.kill_wait is None else f"{saves.kill_wait} s"
    return f"{GIVEN_TIME[saves.timing]}requeued once: SIGTERM, {grace} to save; {why}"
