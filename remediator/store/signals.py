"""Signal rows: written by the intake, judged once by the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    sa.select(signal.c.id, *_COLUMNS)
    .where(signal.c.handled_at.is_(None), signal.c.id > sa.bindparam("after"))
    .order_by(signal.c.id)
    .limit(sa.bindparam("limit"))
)
_SETTLE = sa.update(signal).where(signal.c.id == sa.bindparam("row"))
_OF_NODE = (
    sa.select(*_COLUMNS)
    .where(signal.c.node == sa.bindparam("node"), signal.c.seen_at >= sa.bindparam("since"))
    .order_by(signal.c.seen_at)
    .limit(200)
)
_OF_BOOT = sa.select(*_COLUMNS).where(
    signal.c.node == sa.bindparam("node"), signal.c.boot_id == sa.bindparam("boot")
)
_OF_INCIDENT = sa.select(*_COLUMNS).where(signal.c.incident == sa.bindparam("incident")).order_by(signal.c.id)


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


def unhandled(connection: sa.Connection, after: int, limit: int) -> list[tuple[int, Signal]]:
    """The oldest signals nobody has judged yet, with their row ids, of those behind row `after`."""
    rows = connection.execute(_UNHANDLED, {"after": after, "limit": limit})
    return [(row[0], _signal(row[1:])) for row in rows]


def of_node(connection: sa.Connection, node: str, since: float) -> list[Signal]:
    """What was seen on a node from `since` on (by `seen_at`), judged or not, oldest first."""
    return [_signal(row) for row in connection.execute(_OF_NODE, {"node": node, "since": since})]


def of_boot(connection: sa.Connection, node: str, boot_id: str) -> list[Signal]:
    """Everything that was ever seen on one boot of a node."""
    return [_signal(row) for row in connection.execute(_OF_BOOT, {"node": node, "boot": boot_id})]


def first_seen(connection: sa.Connection, dedupe: str) -> float | None:
    """When the one signal of this name was seen."""
    query = sa.select(signal.c.seen_at).where(signal.c.dedupe == dedupe)
    return connection.execute(query).scalar_one_or_none()


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
