"""Step rows and job-run rows: where every workflow stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.store import incidents
from remediator.store.schema import incident, job_run, step, watched_run


def _row(row: Any) -> StepRow:
    return StepRow(**row._mapping)


def insert(connection: sa.Connection, rows: Iterable[StepRow]) -> None:
    """Add steps to an incident."""
    values = [asdict(row) for row in rows]
    if values:
        connection.execute(sa.insert(step), values)


def of_incident(connection: sa.Connection, incident_id: str) -> list[StepRow]:
    """All steps of one incident in plan order."""
    query = sa.select(step).where(step.c.incident == incident_id).order_by(step.c.ordinal, step.c.subject)
    return [_row(row) for row in connection.execute(query)]


def unfinished(connection: sa.Connection) -> list[StepRow]:
    """Every step that is not done, of incidents that are not closed, in plan order."""
    query = (
        sa.select(step)
        .join(incident, incident.c.id == step.c.incident)
        .where(incident.c.state != "closed", step.c.state != "done")
        .order_by(step.c.incident, step.c.ordinal, step.c.subject)
    )
    return [_row(row) for row in connection.execute(query)]


def done_of_open(connection: sa.Connection, name: str) -> list[tuple[Incident, StepRow]]:
    """Finished steps of one name, of incidents that are not closed, with their incident."""
    query = (
        sa.select(step)
        .join(incident, incident.c.id == step.c.incident)
        .where(incident.c.state != "closed", step.c.name == name, step.c.state == "done")
    )
    rows = [_row(row) for row in connection.execute(query)]
    return [(found, row) for row in rows if (found := incidents.get(connection, row.incident)) is not None]


def update(connection: sa.Connection, row: StepRow, **values: Any) -> None:
    """Change columns of one step."""
    connection.execute(
        sa.update(step)
        .where(step.c.incident == row.incident, step.c.name == row.name, step.c.subject == row.subject)
        .values(values)
    )


def claim_run(connection: sa.Connection, cluster: str, incident_id: str, run: JobRun) -> str:
    """Watch a run; returns the incident that owns its one requeue: this one unless an earlier came first."""
    identity = {
        "cluster": cluster,
        "job_id": run.job_id,
        "submit_time": run.submit_time,
        "restart_count": run.restart_count,
    }
    _insert_if_new(connection, job_run, identity | {"owner": incident_id})
    body = run.model_dump(mode="json")
    _insert_if_new(connection, watched_run, {"incident": incident_id, "run": run.key, "body": body})
    query = sa.select(job_run.c.owner).where(*(job_run.c[name] == value for name, value in identity.items()))
    return str(connection.execute(query).scalar_one())


def runs_seen(connection: sa.Connection, incident_id: str) -> list[JobRun]:
    """The runs an incident found on its machine, owned or watched."""
    query = sa.select(watched_run.c.body).where(watched_run.c.incident == incident_id)
    return [JobRun.model_validate(body) for body in connection.execute(query).scalars()]


def _insert_if_new(connection: sa.Connection, table: sa.Table, values: dict[str, Any]) -> None:
    insert_row = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(insert_row(table).values(values).on_conflict_do_nothing())
