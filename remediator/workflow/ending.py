"""An incident ends before its plan does: what it has set stays as it is."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.model.incident import Incident
from remediator.store import incidents
from remediator.workflow import notices
from remediator.workflow.journal import Journal


def end(connection: sa.Connection, journal: Journal, incident: Incident, why: str, now: float) -> None:
    """Close the incident on the record and tell people why; its steps are handed out no more."""
    incidents.update(connection, incident.id, state="closed", closed_at=now)
    journal.record(connection, "incident-closed", incident, now, why=why)
    notices.post(connection, incident, notices.closed(incident, why), now)
