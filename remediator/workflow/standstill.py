"""A mass outage: no step is handed out, and each that is due says why."""

from __future__ import annotations

from collections.abc import Set

import sqlalchemy as sa

from remediator.model.plan import Wait
from remediator.store import incidents, steps
from remediator.store.steps import Place
from remediator.workflow.journal import Journal

LOOK_AGAIN_S = 5.0


def stand_still(connection: sa.Connection, journal: Journal, busy: Set[Place], why: str, now: float) -> None:
    """Put off what is due; afterwards a step looks before it acts, and its bound counts from there."""
    due, _ = steps.due(connection, busy, now)
    for row in due:
        incident = incidents.get(connection, row.incident)
        if incident is not None and not incident.held_by and row.state != "held":
            journal.outcome(connection, incident, row, Wait(why, after=LOOK_AGAIN_S, patient=True), now)
