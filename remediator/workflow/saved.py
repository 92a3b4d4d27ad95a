"""Which runs wait for a checkpoint, and what each has lost: a run's checkpoints as the plan sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from remediator.model.checkpoint import Saved
from remediator.model.incident import HOLD_JOB, RESTART_JOB, Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.model.timing import Timing, hastier
from remediator.store import checkpoints, incidents, steps
from remediator.workflow.journal import Journal

TIMING = "timing"
"""Fact of a run's await-save: somebody else's evidence lets it wait less than its own incident would."""

LOOKING_S = 300.0
"""An agent that has not looked for so long does not look any more."""

READS = frozenset({"await-save", "count-loss"})
"""Steps that are told about the run's checkpoints."""

ONLY_UNFINISHED = "its only checkpoints are unfinished: {}; a restart would fail on them, or begin anew"


class Clocks:
    """The checkpoint globs of the pools, and what is known under them."""

    def __init__(self, globs: Mapping[str, str]) -> None:
        self._globs = globs

    def of(self, connection: sa.Connection, pool: str, run: JobRun) -> Saved:
        """What is known of the checkpoints of a run in this pool."""
        return checkpoints.of_run(connection, self._globs.get(pool), run)

    def are_read(self, connection: sa.Connection, incident: Incident, now: float) -> bool:
        """Whether some agent looks at the checkpoints of the incident's pool."""
        glob = self._globs.get(incident.pool)
        seen = checkpoints.readers(connection, glob) if glob else []
        return any(now - at <= LOOKING_S for _, at, _ in seen)


BLIND = Clocks({})


def stopped_at(connection: sa.Connection, incident: Incident, run: JobRun) -> float | None:
    """When the run had stopped computing because of the incident; None while, or if, it did not. One of a job
    alone is about a run that has stopped by itself.
    """
    if incident.plan in {RESTART_JOB, HOLD_JOB}:
        return incident.fault_at
    row = steps.of_run(connection, incident.id, "release-jobs", run)
    if row is None or row.acted_at is None or row.state != "done":
        return None
    return incident.fault_at if incident.is_silence else row.ended_at


def held_for(saved: Saved) -> str:
    """Why a restart would fail or begin from nothing, as half a sentence; `""` when it would not.

    One that is being written may be whole in a moment.
    """
    if saved.times or saved.writing or not saved.partial:
        return ""
    return ONLY_UNFINISHED.format(", ".join(saved.partial))


def hasten(
    connection: sa.Connection, journal: Journal, incident: Incident, timing: Timing, why: str, now: float
) -> None:
    """Graver evidence: what still waits waits less from now on; never the other way."""
    if hastier(incident.timing, timing) == incident.timing:
        return
    incidents.update(connection, incident.id, timing=timing)
    for row in steps.of_incident(connection, incident.id):
        _hasten_row(connection, row, timing, now)
    journal.record(connection, "hastened", incident, now, why=why, detail={TIMING: timing})


def hasten_run(
    connection: sa.Connection,
    journal: Journal,
    owner: Incident,
    run: JobRun,
    timing: Timing,
    why: str,
    now: float,
) -> None:
    """Another machine under the run is sick too: the run waits only for the hastier of the two."""
    row = steps.of_run(connection, owner.id, "await-save", run)
    if row is None or row.state == "done" or not owner.goes_on:
        return
    if hastier(timing_of(owner, row), timing) != timing_of(owner, row):
        _hasten_row(connection, row, timing, now)
        journal.record(connection, "hastened", owner, now, row=row, why=why, detail={TIMING: timing})


def timing_of(incident: Incident, row: StepRow) -> Timing:
    """What one run waits for."""
    return hastier(incident.timing, row.facts.get(TIMING, incident.timing))


def _hasten_row(connection: sa.Connection, row: StepRow, timing: Timing, now: float) -> None:
    if row.name == "await-save" and row.state != "done":
        facts: dict[str, Any] = {**row.facts, TIMING: timing}
        steps.update(connection, row, facts=facts, due_at=now)
