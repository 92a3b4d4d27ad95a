"""Signal rows: written by the intake, judged once by the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.model.signal import Signal
from remediator.store.schema import signal

_NAMES = tuple(Signal.model_fields)
_COLUMNS = [signal.c[name] for name in _NAMES]
_INSERT_NEW = {
    "sqlite": sqlite.insert(signal).on_conflict_do_nothing(index_elements=["dedupe"]),
    "postgresql": postgresql.insert(signal).on_conflict_do_nothing(index_elements=["dedupe"]),
}
_UNHANDLED = (
    sa.select(signal.c.due_at, signal.c.id, *_COLUMNS)
    .where(
        signal.c.handled_at.is_(None),
        signal.c.due_at <= sa.bindparam("now"),
        sa.tuple_(signal.c.due_at, signal.c.id)
        > sa.tuple_(sa.bindparam("after_due", type_=sa.Float), sa.bindparam("after_row", type_=sa.Integer)),
    )
    .order_by(signal.c.due_at, signal.c.id)
    .limit(sa.bindparam("limit"))
)
_WAITING = sa.select(sa.func.count(), sa.func.min(signal.c.due_at)).where(
    signal.c.handled_at.is_(None), signal.c.due_at > sa.literal_column("0")
)
_SETTLE = sa.update(signal).where(signal.c.id == sa.bindparam("row"))
_OF_NODE = (
    sa.select(*_COLUMNS)
    .where(signal.c.node == sa.bindparam("node"), signal.c.seen_at >= sa.bindparam("since"))
    .order_by(signal.c.seen_at)
    .limit(1000)
)
_OF_BOOT = sa.select(*_COLUMNS).where(
    signal.c.node == sa.bindparam("node"), signal.c.boot_id == sa.bindparam("boot")
)
_OF_INCIDENT = sa.select(*_COLUMNS).where(signal.c.incident == sa.bindparam("incident")).order_by(signal.c.id)


class Place(NamedTuple):
    """Where a signal that nobody has judged yet stands: until when it waits (0: for nothing), and its row."""

    due_at: float
    row: int


FIRST = Place(-1.0, 0)
"""Before every signal."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one signal: the row it is in, why, and the incident it is evidence of."""

    row_id: int
    sentence: str
    incident: str | None


def insert_new(connection: sa.Connection, signals: Sequence[Signal]) -> int:
    """Insert those not seen before (by `dedupe`); returns how many were new."""
    if not signals:
        return 0
    rows = [item.model_dump() for item in signals]
    return connection.execute(_INSERT_NEW[connection.dialect.name], rows).rowcount


def unhandled(connection: sa.Connection, after: Place, limit: int, now: float) -> list[tuple[Place, Signal]]:
    """The next signals behind `after` that nobody has judged yet: the oldest first, then those whose time to
    wait is over. One that waits on is not among them.
    """
    values = {"after_due": after.due_at, "after_row": after.row, "limit": limit, "now": now}
    rows = connection.execute(_UNHANDLED, values).all()  # one fetch; an iteration makes one of each row
    return [(Place(row[0], row[1]), _signal(row[2:])) for row in rows]


def defer(connection: sa.Connection, until: Mapping[int, float]) -> None:
    """Let rows wait until these times; they are judged then, by whoever leads."""
    values = [{"row": row, "due_at": due_at} for row, due_at in until.items()]
    if values:
        connection.execute(_SETTLE, values)


def waiting(connection: sa.Connection) -> tuple[int, float | None]:
    """How many signals wait for others, and when the first of them is due."""
    count, due_at = connection.execute(_WAITING).one()
    return int(count), due_at


def of_node(connection: sa.Connection, node: str, since: float) -> list[Signal]:
    """What was seen on a node from `since` on (by `seen_at`), judged or not, oldest first."""
    return [_signal(row) for row in connection.execute(_OF_NODE, {"node": node, "since": since}).all()]


def of_boot(connection: sa.Connection, node: str, boot_id: str) -> list[Signal]:
    """Everything that was ever seen on one boot of a node."""
    return [_signal(row) for row in connection.execute(_OF_BOOT, {"node": node, "boot": boot_id})]


def received(connection: sa.Connection, since: float) -> list[Signal]:
    """Everything that came in since then, in the order it came."""
    query = sa.select(*_COLUMNS).where(signal.c.received_at >= since).order_by(signal.c.id)
    return [_signal(row) for row in connection.execute(query)]


def first_seen(connection: sa.Connection, dedupe: str) -> float | None:
    """When the one signal of this name was seen."""
    query = sa.select(signal.c.seen_at).where(signal.c.dedupe == dedupe)
    return connection.execute(query).scalar_one_or_none()


def is_unjudged(connection: sa.Connection, dedupe: str) -> bool:
    """Whether the one signal of this name is there, and nobody has judged it yet."""
    query = sa.select(signal.c.id).where(signal.c.dedupe == dedupe, signal.c.handled_at.is_(None))
    return connection.execute(query).first() is not None


def settle(connection: sa.Connection, at: float, verdicts: Sequence[Verdict]) -> None:
    """Write down what became of signals."""
    values = [
        {"row": verdict.row_id, "handled_at": at, "verdict": verdict.sentence, "incident": verdict.incident}
        for verdict in verdicts
    ]
    if values:
        connection.execute(_SETTLE, values)


def of_incident(connection: sa.Connection, incident: str) -> list[Signal]:
    """The evidence of an incident, oldest first."""
    return [_signal(row) for row in connection.execute(_OF_INCIDENT, {"incident": incident})]


def _signal(values: Sequence[object]) -> Signal:
    return Signal.model_validate(dict(zip(_NAMES, values, strict=True)))
