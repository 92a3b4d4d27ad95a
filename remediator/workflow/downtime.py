"""Where the time went between the fault and each job computing again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remediator.model.faults import JOB_STALLED
from remediator.model.incident import Incident
from remediator.model.plan import StepRow


@dataclass(frozen=True)
class Phase:
    """A stretch of time with a name people use; seconds."""

    name: str
    seconds: float


_NODE = {
    "drain-slurm": "decision to DRAIN",
    "fence-node": "DRAIN to fence",
    "survey": "survey",
    "await-idle": "its jobs ended",
    "validate-node": "tested",
    "claim-spare": "spare claimed",
    "validate-spare": "spare proven",
    "await-empty": "jobs gone",
    "force-down": "forced",
    "evict-pods": "pods evicted",
    "detach-node": "out of the pool",
    "admit-spare": "spare admitted",
    "rejoin-slurm": "worker back",
}


def node_phases(incident: Incident, rows: Sequence[StepRow]) -> tuple[Phase, ...]:
    """From the fault to the drained and fenced machine with its jobs known, then to its replacement."""
    ended = {row.name: row.ended_at for row in rows if not row.subject}
    marks = [("fault to decision", incident.opened_at)]
    marks += [(title, at) for name, title in _NODE.items() if (at := ended.get(name)) is not None]
    return _stretches(incident.fault_at, marks)


def job_phases(incident: Incident, rows: Sequence[StepRow], subject: str) -> tuple[Phase, ...]:
    """From the fault to one job run computing again; saving ends when its processes are gone."""
    mine = {row.name: row for row in rows if row.subject == subject}
    back = _ended(mine, "prove-resume")
    asked = mine["release-jobs"].acted_at if "release-jobs" in mine else None
    if "release-jobs" in mine and asked is None:
        left = ("release-jobs", "start-jobs", "prove-resume")
        ends = [at for name in left if (at := _ended(mine, name)) is not None]
        return _stretches(incident.fault_at, [("never signalled", max(ends))] if ends else [])
    candidates = (
        ("fault to requeue", asked),
        (_until_requeue(incident), _ended(mine, "restart-job")),
        ("saving (SIGTERM to gone)", _ended(mine, "release-jobs")),
        ("lost to DOWN until held", _ended(mine, "hold-jobs")),
        ("delay lifted", _ended(mine, "start-jobs")),
        ("until the spare is in", _admitted(rows, back)),
        ("queue and start", back),
    )
    return _stretches(incident.fault_at, [(name, at) for name, at in candidates if at is not None])


def _until_requeue(incident: Incident) -> str:
    return "stood still until requeued" if incident.rule == JOB_STALLED else "crash to requeue"


def _admitted(rows: Sequence[StepRow], back: float | None) -> float | None:
    """When workers were let onto the spare; of no interest to a job that was back before."""
    at = next((row.ended_at for row in rows if row.name == "admit-spare"), None)
    return at if at is not None and (back is None or at <= back) else None


def _ended(rows: dict[str, StepRow], name: str) -> float | None:
    return rows[name].ended_at if name in rows else None


def _stretches(start: float, marks: list[tuple[str, float]]) -> tuple[Phase, ...]:
    phases = []
    for name, at in marks:
        phases.append(Phase(name, round(max(0.0, at - start), 3)))
        start = max(start, at)
    return tuple(phases)
