"""Messages to people: written in the transaction of what they tell, delivered later, never lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from remediator.model.message import Message
from remediator.store.schema import outbox

_INSERT = sa.insert(outbox)


@dataclass(frozen=True)
class Waiting:
    """A message that no channel has taken yet."""

    id: int
    incident: str
    message: Message
    written_at: float
    attempts: int


def put(connection: sa.Connection, incident: str, messages: Sequence[Message], now: float) -> None:
    """Write messages; they are due at once."""
    rows = [
        message.model_dump() | {"incident": incident, "written_at": now, "due_at": now, "attempts": 0}
        for message in messages
    ]
    if rows:
        connection.execute(_INSERT, rows)


def told_since(connection: sa.Connection, beginning: str, since: float) -> bool:
    """Whether a message of no incident that begins so was written after `since`."""
    query = sa.select(outbox.c.id).where(
        outbox.c.incident == "",
        outbox.c.written_at > since,
        outbox.c.text.startswith(beginning, autoescape=True),
    )
    return connection.execute(query.limit(1)).first() is not None


def due(connection: sa.Connection, now: float, limit: int = 100) -> list[Waiting]:
    """Messages to be delivered now, oldest first."""
    query = (
        sa.select(outbox)
        .where(outbox.c.delivered_at.is_(None), outbox.c.due_at <= now)
        .order_by(outbox.c.id)
        .limit(limit)
    )
    return [
        Waiting(
            row.id,
            row.incident,
            Message(audience=row.audience, urgency=row.urgency, text=row.text),
            row.written_at,
            row.attempts,
        )
        for row in connection.execute(query)
    ]


def delivered(connection: sa.Connection, message_id: int, now: float) -> None:
    """Every channel took it."""
    connection.execute(sa.update(outbox).where(outbox.c.id == message_id).values(delivered_at=now))


def later(connection: sa.Connection, message_id: int, due_at: float) -> None:
    """A channel did not take it: try again at `due_at`."""
    values = {"due_at": due_at, "attempts": outbox.c.attempts + 1}
    connection.execute(sa.update(outbox).where(outbox.c.id == message_id).values(values))
