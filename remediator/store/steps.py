"""Step rows and job-run rows: where every workflow stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.store.schema import incident, job_run, step


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


def update(connection: sa.Connection, row: StepRow, **values: Any) -> None:
    """Change columns of one step."""
    connection.execute(
        sa.update(step)
        .where(step.c.incident == row.incident, step.c.name == row.name, step.c.subject == row.subject)
        .values(values)
    )


def claim_run(connection: sa.Connection, cluster: str, incident_id: str, run: JobRun) -> str:
    """The incident that owns a run's one requeue: this one, unless an earlier one came first."""
    insert_row = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    identity = {
        "cluster": cluster,
        "job_id": run.job_id,
        "submit_time": run.submit_time,
        "restart_count": run.restart_count,
    }
    values = identity | {"owner": incident_id, "body": run.model_dump(mode="json")}
    connection.execute(insert_row(job_run).values(values).on_conflict_do_nothing())
    query = sa.select(job_run.c.owner).where(*(job_run.c[name] == value for name, value in identity.items()))
    return str(connection.execute(query).scalar_one())


def runs_of(connection: sa.Connection, incident_id: str) -> list[JobRun]:
    """The runs whose requeue an incident owns."""
    query = sa.select(job_run.c.body).where(job_run.c.owner == incident_id).order_by(job_run.c.job_id)
    return [JobRun.model_validate(body) for body in connection.execute(query).scalars()]
