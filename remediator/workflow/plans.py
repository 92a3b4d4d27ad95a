"""The plans as data: which steps, in which order, on which track."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from remediator.model.incident import GIVE_BACK, HOLD_JOB, RESTART_JOB, VALIDATE, VALIDATE_ONLY
from remediator.model.plan import StepRow, Track
from remediator.model.run import JobRun


@dataclass(frozen=True, slots=True)
class Planned:
    """A step's place in a plan; a `job` step stands once per job run and is added by the survey, one
    `after_loss` only once the run has lost a node to DOWN. One that `waits` is there when jobs are given
    time, one that is `read` when an agent sees their checkpoints.
    """

    name: str
    track: Track
    after_loss: bool = False
    waits: bool = False
    read: bool = False

    def stands(self, *, waits: bool, read: bool) -> bool:
        """Whether it is there from the survey on."""
        return not self.after_loss and self.waits <= waits and self.read <= read


_DRAIN = (Planned("admit", "main"), Planned("drain-slurm", "main"), Planned("fence-node", "main"))
_MOVE = (
    Planned("release-jobs", "job"),
    Planned("hold-jobs", "job", after_loss=True),
    Planned("start-jobs", "job"),
    Planned("prove-resume", "job"),
)
_WAIT = Planned("await-save", "job", waits=True)
_COUNT = Planned("count-loss", "job", read=True)
_TEST = (Planned("await-idle", "main"), Planned("validate-node", "main"), Planned("close", "main"))
PLANS: dict[str, tuple[Planned, ...]] = {
    "replace": (
        *_DRAIN,
        Planned("survey", "main"),
        _WAIT,
        Planned("hold-place", "job"),
        *_MOVE,
        Planned("free-place", "job"),
        _COUNT,
        Planned("claim-spare", "node"),
        Planned("validate-spare", "node"),
        Planned("await-empty", "node"),
        Planned("force-down", "node"),
        Planned("evict-pods", "node"),
        Planned("detach-node", "node"),
        Planned("admit-spare", "node"),
        Planned("rejoin-slurm", "node"),
        Planned("close", "main"),
    ),
    "move-jobs": (*_DRAIN, Planned("survey", "main"), _WAIT, *_MOVE, _COUNT, Planned("close", "main")),
    "drain-only": (*_DRAIN, Planned("close", "main")),
    VALIDATE: (*_DRAIN, *_TEST),
    VALIDATE_ONLY: (*_DRAIN, *_TEST),
    RESTART_JOB: (
        Planned("restart-job", "job"),
        Planned("start-jobs", "job"),
        Planned("prove-resume", "job"),
        _COUNT,
        Planned("close", "main"),
    ),
    HOLD_JOB: (
        Planned("hold-jobs", "job"),
        Planned("start-jobs", "job"),
        Planned("prove-resume", "job"),
        _COUNT,
        Planned("close", "main"),
    ),
    GIVE_BACK: (
        Planned("admit", "main"),
        Planned("accept-node", "node"),
        Planned("attach-node", "node"),
        Planned("unfence-node", "node"),
        Planned("resume-slurm", "node"),
        Planned("close", "main"),
    ),
}
ATTACHED = ("prove-resume",)


def main_rows(plan: str, incident: str, now: float, facts: dict[str, Any] | None = None) -> list[StepRow]:
    """The rows an incident starts with: all that depends on no job. `facts` are known to each."""
    return [
        replace(_row(incident, planned, ordinal, "", now), facts=dict(facts or {}))
        for ordinal, planned in enumerate(PLANS[plan])
        if planned.track != "job"
    ]


def job_rows(
    plan: str, incident: str, run: JobRun, now: float, *, owned: bool, waits: bool = False, read: bool = False
) -> list[StepRow]:
    """The rows of one job run; a run another incident owns is only watched."""
    return [
        _row(incident, planned, ordinal, run.key, now)
        for ordinal, planned in enumerate(PLANS[plan])
        if planned.track == "job"
        and planned.stands(waits=waits, read=read)
        and (owned or planned.name in ATTACHED)
    ]


def loss_rows(plan: str, incident: str, run: str, now: float) -> list[StepRow]:
    """The rows that a run (its key) needs besides once it has lost a node."""
    return [
        _row(incident, planned, ordinal, run, now)
        for ordinal, planned in enumerate(PLANS[plan])
        if planned.after_loss
    ]


def heir_rows(plan: str, incident: str, run: JobRun, now: float, *, waits: bool) -> list[StepRow]:
    """The rows that a run lacks which was only watched and is owned from now on."""
    rows = job_rows(plan, incident, run, now, owned=True, waits=waits)
    return [row for row in rows if row.name not in ATTACHED]


def _row(incident: str, planned: Planned, ordinal: int, subject: str, now: float) -> StepRow:
    return StepRow(
        incident=incident,
        name=planned.name,
        subject=subject,
        track=planned.track,
        ordinal=ordinal,
        # A step looks before it commits to an act; DRAIN and fence have no time for two looks.
        state="pending" if planned.track == "main" else "waiting",
        due_at=now,
    )
