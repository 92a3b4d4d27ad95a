"""Times that are measured against our own clock move along when that clock is set."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from remediator.store import life
from remediator.store.schema import (
    OPEN,
    checkpoint,
    checkpoint_reader,
    debit,
    incident,
    outbox,
    sighting,
    signal,
    step,
)

_OPEN_IDS = sa.select(incident.c.id).where(OPEN).scalar_subquery()


def ahead(connection: sa.Connection, now: float) -> float:
    """By how much what has happened is later than `now`: at least so far was the clock set back meanwhile."""
    of_step = [sa.func.max(step.c[name]) for name in ("started_at", "acted_at", "ended_at")]
    happened = [
        *connection.execute(sa.select(*of_step).where(step.c.incident.in_(_OPEN_IDS))).one(),
        connection.execute(sa.select(sa.func.max(incident.c.opened_at)).where(OPEN)).scalar(),
    ]
    return max([0.0, *(float(at) - now for at in happened if at is not None)])


def move(connection: sa.Connection, seconds: float) -> None:
    """Move what waits, and what is still measured, by what the clock was set by (back: negative)."""
    _move(connection, sa.update(step).where(step.c.incident.in_(_OPEN_IDS)), seconds,
          step.c.due_at, step.c.started_at, step.c.acted_at, step.c.ended_at)  # fmt: skip
    _move(connection, sa.update(incident).where(OPEN), seconds, incident.c.fault_at, incident.c.opened_at)
    _move(connection, sa.update(debit), seconds, debit.c.at)
    _move(connection, sa.update(checkpoint), seconds, checkpoint.c.seen_at)
    _move(connection, sa.update(checkpoint_reader), seconds, checkpoint_reader.c.looked_at)
    life.move(connection, seconds)
    _move(connection, sa.update(sighting), seconds, sighting.c.at)
    _move(connection, sa.update(outbox).where(outbox.c.delivered_at.is_(None)), seconds, outbox.c.due_at)
    _move(connection, sa.update(signal).where(signal.c.handled_at.is_(None)), seconds, signal.c.received_at)
    waits = sa.and_(signal.c.handled_at.is_(None), signal.c.due_at > 0)
    _move(connection, sa.update(signal).where(waits), seconds, signal.c.due_at)


def _move(
    connection: sa.Connection, update: sa.Update, seconds: float, *columns: sa.Column[float | None] | Any
) -> None:
    connection.execute(update.values({column.name: column + seconds for column in columns}))
