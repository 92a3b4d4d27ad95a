"""What agents have seen of checkpoints: the newest state of each job's, and who looks at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.model.checkpoint import NOTHING_KNOWN, CheckpointLook, Checkpoints, JobKey, Saved
from remediator.model.run import JobRun
from remediator.store.schema import checkpoint, checkpoint_reader

KEPT_S = 30 * 86_400.0
_KEY = ("glob", "job", "user", "jobname")
_LAST_LOOK = sa.select(sa.func.max(checkpoint_reader.c.looked_at)).where(
    checkpoint_reader.c.glob == sa.bindparam("glob"), checkpoint_reader.c.looked_at > 0
)
_OF_JOB = sa.select(checkpoint.c.seen_at, checkpoint.c.body).where(
    checkpoint.c.glob == sa.bindparam("glob"),
    checkpoint.c.job.in_(sa.bindparam("jobs", expanding=True)),
    checkpoint.c.user.in_(sa.bindparam("users", expanding=True)),
    checkpoint.c.jobname.in_(sa.bindparam("jobnames", expanding=True)),
)


def put(connection: sa.Connection, node: str, looks: Sequence[CheckpointLook], now: float) -> None:
    """What an agent found at its last looks, received `now`; jobs it says nothing of stay as they were."""
    for look in looks:
        at = now - look.looked_s
        _reader(connection, node, look, at)
        rows = [
            {"glob": look.glob, **found.key.model_dump(), "seen_at": at, "body": _body(found, look.looked_s)}
            for found in look.found
        ]
        if not look.problem and rows:
            _upsert(connection, checkpoint, _KEY, rows)
    connection.execute(sa.delete(checkpoint).where(checkpoint.c.seen_at < now - KEPT_S))


def of_run(connection: sa.Connection, glob: str | None, run: JobRun) -> Saved:
    """What is known of the checkpoints of a run's job; nothing without a glob or an agent that reads it."""
    looked_at = connection.execute(_LAST_LOOK, {"glob": glob}).scalar() if glob else None
    if looked_at is None:
        return NOTHING_KNOWN
    asked = {
        "glob": glob,
        "jobs": ["", run.address, str(run.job_id)],
        "users": ["", run.user],
        "jobnames": ["", run.name],
    }
    found = [_saved(looked_at, *row) for row in connection.execute(_OF_JOB, asked)]
    return max(found, key=lambda one: one.newest_at or 0.0, default=Saved(looked_at))


def all_of(connection: sa.Connection, glob: str) -> list[tuple[JobKey, Saved]]:
    """Every job seen under a glob."""
    query = sa.select(checkpoint).where(checkpoint.c.glob == glob)
    return [
        (JobKey(job=row.job, user=row.user, jobname=row.jobname), _saved(row.seen_at, row.seen_at, row.body))
        for row in connection.execute(query)
    ]


def readers(connection: sa.Connection, glob: str) -> list[tuple[str, float, str]]:
    """Who looks at a glob: the node, when it last did, and what kept it from seeing all."""
    query = sa.select(checkpoint_reader).where(checkpoint_reader.c.glob == glob)
    rows = connection.execute(query.order_by(checkpoint_reader.c.looked_at.desc()))
    return [(row.node, row.looked_at, row.problem) for row in rows]


def _body(found: Checkpoints, looked_s: float) -> dict[str, Any]:
    """As it was at the look: only the row's own time moves when our clock is set."""
    body = found.model_dump(mode="json", exclude={"key"})
    return body | {"ages": [max(0.0, age - looked_s) for age in found.ages]}


def _saved(looked_at: float, seen_at: float, body: dict[str, Any]) -> Saved:
    return Saved(
        looked_at=looked_at,
        known=True,
        newest=body["newest"],
        times=tuple(seen_at - age for age in body["ages"]),
        save_s=body["save_s"],
        cadence_s=body["cadence_s"],
        partial=tuple(body["partial"]),
        writing=body["writing"],
    )


def _reader(connection: sa.Connection, node: str, look: CheckpointLook, at: float) -> None:
    """A look with a problem saw nothing: when the last good one was stays on the books."""
    row = {"glob": look.glob, "node": node, "problem": look.problem, "looked_at": 0.0 if look.problem else at}
    keep = ("looked_at",) if look.problem else ()
    _upsert(connection, checkpoint_reader, ("glob", "node"), [row], keep)


def _upsert(
    connection: sa.Connection,
    table: sa.Table,
    key: tuple[str, ...],
    rows: list[dict[str, Any]],
    keep: tuple[str, ...] = (),
) -> None:
    insert = (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(table)
    changed = {name: insert.excluded[name] for name in rows[0] if name not in {*key, *keep}}
    connection.execute(insert.on_conflict_do_update(index_elements=list(key), set_=changed), rows)
