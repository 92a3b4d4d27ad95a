"""A suspect machine after its test, or overtaken by evidence: it is given back, or its plan changes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from remediator.model.ids import incident_id
from remediator.model.incident import GIVE_BACK, VALIDATE, VALIDATE_ONLY, Incident
from remediator.store import incidents, steps
from remediator.workflow.ending import end
from remediator.workflow.givenback import TAKEN_OUT_BY
from remediator.workflow.journal import Journal
from remediator.workflow.plans import PLANS, main_rows

AFTER_FAILURE = {VALIDATE: "replace", VALIDATE_ONLY: "drain-only"}
"""What becomes of a machine that failed its test; the keys are the plans of suspect machines."""


def passed(connection: sa.Connection, journal: Journal, incident: Incident, why: str, now: float) -> None:
    """End the suspicion and begin the return of the machine, as if a person had asked for it."""
    end(connection, journal, incident, f"{why}; {incident.node} is given back", now)
    changes: dict[str, Any] = {
        "id": incident_id(now),
        "rule": GIVE_BACK,
        "plan": GIVE_BACK,
        "cause": f"return after {incident.cause}",
        "sentence": f"{why}: what incident {incident.id} set there is taken back",
        "state": "open",
        "fault_at": now,
        "opened_at": now,
        "closed_at": None,
    }
    returning = incident.model_copy(update=changes)
    incidents.insert(connection, returning)
    steps.insert(connection, main_rows(GIVE_BACK, returning.id, now, {TAKEN_OUT_BY: incident.id}))
    journal.record(connection, "incident-opened", returning, now, why=returning.sentence)


def leaves_acting(connection: sa.Connection, incident: Incident, plan: str) -> bool:
    """Whether something is under way that this plan does not have: a test whose pod would be left behind."""
    kept = {planned.name for planned in PLANS[plan]}
    return any(
        row.name not in kept and row.acted_at is not None and row.state != "done"
        for row in steps.of_incident(connection, incident.id)
    )


def change_plan(
    connection: sa.Connection, journal: Journal, incident: Incident, now: float, **changes: Any
) -> Incident:
    """Go on with another plan: what is done stays done, what the new plan does not have is dropped."""
    changed = incident.model_copy(update=changes)
    incidents.update(connection, incident.id, **changes)
    places = {planned.name: ordinal for ordinal, planned in enumerate(PLANS[changed.plan])}
    kept = set()
    for row in steps.of_incident(connection, incident.id):
        if row.name in places:
            steps.update(connection, row, ordinal=places[row.name])
        elif row.state != "done":
            steps.drop(connection, row)
        kept.add(row.name)
    wanted = main_rows(changed.plan, incident.id, now)
    steps.insert(connection, [row for row in wanted if row.name not in kept])
    detail = {"plan": changed.plan, "before": incident.plan}
    journal.record(connection, "decision", changed, now, why=changed.sentence, detail=detail)
    return changed
