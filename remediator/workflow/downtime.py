"""Where the time went between the fault and each job computing again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remediator.model.incident import Incident
from remediator.model.plan import StepRow


@dataclass(frozen=True)
class Phase:
    """A stretch of time with a name people use; seconds."""

    name: str
    seconds: float


def node_phases(incident: Incident, rows: Sequence[StepRow]) -> tuple[Phase, ...]:
    """From the fault to the drained and fenced machine with its jobs known."""
    marks = [("fault to decision", incident.opened_at)]
    names = {"drain-slurm": "decision to DRAIN", "fence-node": "DRAIN to fence", "survey": "survey"}
    marks += [
        (names[row.name], row.ended_at) for row in rows if row.name in names and row.ended_at is not None
    ]
    return _stretches(incident.fault_at, marks)


def job_phases(incident: Incident, rows: Sequence[StepRow], subject: str) -> tuple[Phase, ...]:
    """From the fault to one job run computing again; saving ends when its processes are gone."""
    mine = {row.name: row for row in rows if row.subject == subject}
    asked = mine["release-jobs"].acted_at if "release-jobs" in mine else None
    candidates = (
        ("fault to requeue", asked),
        ("saving (SIGTERM to gone)", _ended(mine, "release-jobs")),
        ("delay lifted", _ended(mine, "start-jobs")),
        ("queue and start", _ended(mine, "prove-resume")),
    )
    return _stretches(incident.fault_at, [(name, at) for name, at in candidates if at is not None])


def _ended(rows: dict[str, StepRow], name: str) -> float | None:
    return rows[name].ended_at if name in rows else None


def _stretches(start: float, marks: list[tuple[str, float]]) -> tuple[Phase, ...]:
    phases = []
    for name, at in marks:
        phases.append(Phase(name, round(max(0.0, at - start), 3)))
        start = max(start, at)
    return tuple(phases)
