"""Step rows and job-run rows: where every workflow stands."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.store.schema import OPEN, UNFINISHED, incident, job_run, step, watched_run

MAIN: sa.ColumnElement[str] = sa.literal_column("'main'")
BACK: sa.ColumnElement[str] = sa.literal_column("'back'")
NODE: sa.ColumnElement[str] = sa.literal_column("'node'")
AWAIT_SAVE: sa.ColumnElement[str] = sa.literal_column("'await-save'")
RUNNING: sa.ColumnElement[str] = sa.literal_column("'running'")
Place = tuple[str, str, str]
"""A step's identity: incident, name, subject."""
_OF_INCIDENT = (
    sa.select(step)
    .where(step.c.incident == sa.bindparam("incident"))
    .order_by(step.c.ordinal, step.c.subject)
)
_NAMED = _OF_INCIDENT.where(step.c.name == sa.bindparam("named")).limit(1)
_HELD = (
    sa.select(step.c.name)
    .where(step.c.incident == sa.bindparam("incident"), step.c.state == sa.literal_column("'held'"))
    .limit(1)
)
_UPDATE = sa.update(step).where(
    step.c.incident == sa.bindparam("of"),
    step.c.name == sa.bindparam("named"),
    step.c.subject == sa.bindparam("about"),
)
# Not as a mere join: SQLite would walk through the steps of all incidents there ever were.
_OPEN_IDS = sa.select(incident.c.id).where(OPEN).scalar_subquery()
# A worker that moves to another node comes up there IDLE: from the eviction on no DRAIN is expected.
_other = step.alias("other")
_EVICTING = sa.exists().where(
    _other.c.incident == step.c.incident,
    _other.c.name == "evict-pods",
    sa.or_(_other.c.acted_at.is_not(None), _other.c.state == "done"),  # others may have ended the pods
)
_DRAINED = (
    sa.select(step.c.incident, step.c.ended_at, step.c.facts, incident.c.slurm_nodes)
    .join(incident, incident.c.id == step.c.incident)
    .where(
        step.c.incident.in_(_OPEN_IDS),
        step.c.name == "drain-slurm",
        step.c.state == "done",
        incident.c.state != "yielding",
        ~incident.c.dry_run,
        ~_EVICTING,
    )
)
_FENCED = (
    sa.select(step.c.incident, incident.c.node, incident.c.node_uid, step.c.facts)
    .join(incident, incident.c.id == step.c.incident)
    .where(
        step.c.incident.in_(_OPEN_IDS),
        step.c.name == "fence-node",
        step.c.state == "done",
        ~incident.c.dry_run,
        incident.c.state != "yielding",
    )
)


def _ready() -> sa.Select[Any]:
    """The main track waits for all that is before it; a job or node step for the main track and its own. The
    node track waits for jobs that are given time, too: a spare is not claimed long before it is wanted.

    Such a step whose INTENT has no OUTCOME yet waits for nothing: it is looked at first, and before a step of
    the main track looks once more. Of an incident that yields only the way back is walked: its steps wait for
    those before them there.
    """
    before = step.alias("before")
    own = sa.and_(before.c.track == step.c.track, before.c.subject == step.c.subject)
    given_time = sa.and_(step.c.track == NODE, before.c.name == AWAIT_SAVE)
    blocked = sa.exists().where(
        before.c.incident == step.c.incident,
        before.c.state != sa.literal_column("'done'"),
        before.c.ordinal < step.c.ordinal,
        sa.or_(
            sa.and_(before.c.track == BACK, step.c.track == BACK),
            sa.and_(
                step.c.track != BACK, sa.or_(step.c.track == MAIN, before.c.track == MAIN, own, given_time)
            ),
        ),
    )
    tracked = step.c.track.not_in((MAIN, BACK))
    acting = sa.exists().where(
        before.c.incident == step.c.incident, before.c.state == RUNNING, before.c.track.not_in((MAIN, BACK))
    )
    free = sa.or_(
        sa.and_(step.c.state == RUNNING, tracked), ~sa.or_(blocked, sa.and_(step.c.track == MAIN, acting))
    )
    goes_back = incident.c.state == sa.literal_column("'yielding'")
    on_its_way = sa.or_(sa.and_(goes_back, step.c.track == BACK), sa.and_(~goes_back, step.c.track != BACK))
    return (
        sa.select(step)
        .join(incident, incident.c.id == step.c.incident)
        .where(OPEN, UNFINISHED, free, on_its_way)
        .order_by(step.c.incident, step.c.ordinal, step.c.subject)
    )


_READY = _ready()
_INSERT = sa.insert(step)
_RUNS_SEEN = sa.select(watched_run.c.body).where(watched_run.c.incident == sa.bindparam("incident"))
_FIELDS = tuple(field.name for field in fields(StepRow))


@dataclass(frozen=True, slots=True)
class Drained:
    """A DRAIN that must stand: of which incident, on which Slurm nodes, when it was seen to stand, and what
    its step knows of it.
    """

    incident: str
    slurm_nodes: tuple[str, ...]
    ended_at: float | None
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence that must stand: of which incident, on which machine, and whether with a cordon."""

    incident: str
    node: str
    node_uid: str
    cordoned: bool


def _row(row: Any) -> StepRow:
    return StepRow(**row._mapping)


def insert(connection: sa.Connection, rows: Iterable[StepRow]) -> None:
    """Add steps to an incident."""
    values = [{name: getattr(row, name) for name in _FIELDS} for row in rows]
    if values:
        connection.execute(_INSERT, values)


def of_incident(connection: sa.Connection, incident_id: str) -> list[StepRow]:
    """All steps of one incident in plan order."""
    return [_row(row) for row in connection.execute(_OF_INCIDENT, {"incident": incident_id})]


def due(connection: sa.Connection, busy: Set[Place], now: float) -> tuple[list[StepRow], float | None]:
    """Steps of open incidents that nothing unfinished stands before, without those that are `busy`: which to
    take up now, in plan order, and when the first of the others is due.
    """
    ready = connection.execute(_READY).all()
    rows = [row for row in ready if (row.incident, row.name, row.subject) not in busy]
    taken = [_row(row) for row in rows if row.due_at <= now or row.state == "running"]
    later = (row.due_at for row in rows if row.due_at > now and row.state != "running")
    return taken, min(later, default=None)


def drained(connection: sa.Connection) -> list[Drained]:
    """What drain-slurm has done for incidents that are not closed."""
    return [
        Drained(row.incident, tuple(row.slurm_nodes), row.ended_at, row.facts)
        for row in connection.execute(_DRAINED)
    ]


def fenced(connection: sa.Connection) -> list[Fence]:
    """What fence-node has done for incidents that go on."""
    return [
        Fence(row.incident, row.node, row.node_uid, bool(row.facts.get("cordoned")))
        for row in connection.execute(_FENCED)
    ]


def get(connection: sa.Connection, incident_id: str, name: str) -> StepRow | None:
    """A step of the main track."""
    row = connection.execute(_NAMED, {"incident": incident_id, "named": name}).one_or_none()
    return _row(row) if row else None


def any_held(connection: sa.Connection, incident_id: str) -> bool:
    """Whether a step of the incident is held."""
    return connection.execute(_HELD, {"incident": incident_id}).first() is not None


def of_run(connection: sa.Connection, incident_id: str, name: str, run: JobRun) -> StepRow | None:
    """A step of one job run's track."""
    rows = of_incident(connection, incident_id)
    return next((row for row in rows if (row.name, row.subject) == (name, run.key)), None)


def update(connection: sa.Connection, row: StepRow, **values: Any) -> None:
    """Change columns of one step."""
    place = {"of": row.incident, "named": row.name, "about": row.subject}
    connection.execute(_UPDATE, values | place)


def reopen(connection: sa.Connection, row: StepRow, now: float, *, lost: bool = True) -> None:
    """A step that was done looks once more, and its bound counts anew. Unless what it had done is `lost`, the
    first end stays on the books.
    """
    ended_at = None if lost else row.ended_at
    update(connection, row, state="waiting", due_at=now, started_at=None, ended_at=ended_at)


def drop(connection: sa.Connection, row: StepRow) -> None:
    """Forget a step that is not part of its incident's plan any more; the record still has it."""
    connection.execute(
        sa.delete(step).where(
            step.c.incident == row.incident, step.c.name == row.name, step.c.subject == row.subject
        )
    )


def released(connection: sa.Connection, cluster: str, job_id: int) -> list[tuple[str, JobRun, StepRow]]:
    """The job's runs that incidents owned: the machine's UID, the run, and its release-jobs."""
    owners = sa.select(job_run.c.owner).where(job_run.c.cluster == cluster, job_run.c.job_id == job_id)
    its_step = sa.and_(step.c.incident == watched_run.c.incident, step.c.subject == watched_run.c.run)
    query = (
        sa.select(incident.c.node_uid, watched_run.c.body, *step.c)
        .select_from(watched_run)
        .join(incident, incident.c.id == watched_run.c.incident)
        .join(step, its_step)
        .where(watched_run.c.incident.in_(owners), step.c.name == "release-jobs")
    )
    found = [
        (uid, JobRun.model_validate(body), StepRow(*row)) for uid, body, *row in connection.execute(query)
    ]
    return [entry for entry in found if entry[1].job_id == job_id]


def claim_run(connection: sa.Connection, cluster: str, incident_id: str, run: JobRun) -> str:
    """Watch a run; returns the incident that owns its one requeue: this one unless an earlier came first."""
    identity = {
        "cluster": cluster,
        "job_id": run.job_id,
        "submit_time": run.submit_time,
        "restart_count": run.restart_count,
    }
    _insert_if_new(connection, job_run, identity | {"owner": incident_id})
    watch_run(connection, incident_id, run)
    query = sa.select(job_run.c.owner).where(*(job_run.c[name] == value for name, value in identity.items()))
    return str(connection.execute(query).scalar_one())


def owner_of(connection: sa.Connection, cluster: str, run: JobRun) -> str | None:
    """The incident that owns a run's one requeue."""
    return connection.execute(sa.select(job_run.c.owner).where(*_is(cluster, run))).scalar_one_or_none()


def hand_over(connection: sa.Connection, cluster: str, run: JobRun, incident_id: str) -> None:
    """Another incident owns the run's one requeue from now on; only when the first surely never asked."""
    connection.execute(sa.update(job_run).where(*_is(cluster, run)).values(owner=incident_id))


def give_up_run(connection: sa.Connection, cluster: str, incident_id: str, run: JobRun) -> str | None:
    """An incident leaves a run alone: the oldest open one that watches it owns it now (its id), or nobody."""
    if owner_of(connection, cluster, run) != incident_id:
        return None
    watching = (
        sa.select(watched_run.c.incident)
        .join(incident, incident.c.id == watched_run.c.incident)
        .where(watched_run.c.run == run.key, watched_run.c.incident != incident_id, OPEN)
        .where(incident.c.state != "yielding")
        .order_by(incident.c.opened_at)
    )
    heir = connection.execute(watching).scalars().first()
    if heir is None:
        connection.execute(sa.delete(job_run).where(*_is(cluster, run)))
    else:
        hand_over(connection, cluster, run, heir)
    return heir


def _is(cluster: str, run: JobRun) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        job_run.c.cluster == cluster,
        job_run.c.job_id == run.job_id,
        job_run.c.submit_time == run.submit_time,
        job_run.c.restart_count == run.restart_count,
    )


def watch_run(connection: sa.Connection, incident_id: str, run: JobRun) -> None:
    """Watch a run without claiming its requeue."""
    body = run.model_dump(mode="json")
    _insert_if_new(connection, watched_run, {"incident": incident_id, "run": run.key, "body": body})


def runs_seen(connection: sa.Connection, incident_id: str) -> list[JobRun]:
    """The runs an incident found on its machine, owned or watched."""
    bodies = connection.execute(_RUNS_SEEN, {"incident": incident_id}).scalars()
    return [JobRun.model_validate(body) for body in bodies]


def mover_of(connection: sa.Connection, run: JobRun) -> str | None:
    """An open incident that goes on and knows this run of the job, whatever its submit time was then."""
    query = (
        sa.select(watched_run.c.incident, watched_run.c.body)
        .join(incident, incident.c.id == watched_run.c.incident)
        .where(watched_run.c.run.like(f"{run.job_id}.%"), OPEN, incident.c.state != "yielding")
    )
    rows = connection.execute(query)
    return next((row.incident for row in rows if row.body["restart_count"] == run.restart_count), None)


def _insert_if_new(connection: sa.Connection, table: sa.Table, values: dict[str, Any]) -> None:
    insert_row = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(insert_row(table).values(values).on_conflict_do_nothing())
