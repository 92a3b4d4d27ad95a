"""Signal rows: written by the intake, judged once by the core."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.model.signal import Signal
from remediator.store.schema import signal

_COLUMNS = [signal.c[name] for name in Signal.model_fields]


def insert_new(connection: sa.Connection, signals: Sequence[Signal]) -> int:
    """Insert those not seen before (by `dedupe`); returns how many were new."""
    if not signals:
        return 0
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(signal).on_conflict_do_nothing(index_elements=["dedupe"])
    return connection.execute(statement, [item.model_dump() for item in signals]).rowcount


def unhandled(connection: sa.Connection, limit: int = 500) -> list[tuple[int, Signal]]:
    """The oldest signals nobody has judged yet, with their row ids."""
    query = (
        sa.select(signal.c.id, *_COLUMNS)
        .where(signal.c.handled_at.is_(None))
        .order_by(signal.c.id)
        .limit(limit)
    )
    names = Signal.model_fields.keys()
    rows = connection.execute(query).all()
    return [(row[0], Signal(**dict(zip(names, row[1:], strict=True)))) for row in rows]


def settle(connection: sa.Connection, row_id: int, at: float, verdict: str, incident: str | None) -> None:
    """Write down what became of a signal."""
    values = {"handled_at": at, "verdict": verdict, "incident": incident}
    connection.execute(sa.update(signal).where(signal.c.id == row_id).values(values))


def of_incident(connection: sa.Connection, incident: str) -> list[Signal]:
    """The evidence of an incident, oldest first."""
    query = sa.select(*_COLUMNS).where(signal.c.incident == incident).order_by(signal.c.id)
    names = Signal.model_fields.keys()
    return [Signal(**dict(zip(names, row, strict=True))) for row in connection.execute(query)]
