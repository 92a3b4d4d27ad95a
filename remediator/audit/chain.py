"""Appending to the chain and proving that nobody changed it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

from remediator.model.record import GENESIS, Entry, canonical, chain_hash
from remediator.store.schema import audit

_LAST = sa.select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1)
_INSERT = sa.insert(audit)


_WRITTEN = "audit-head"


@dataclass(frozen=True)
class Head:
    """Number and hash of the last record; 0 before the first."""

    seq: int
    hash: str


@dataclass(frozen=True)
class Verdict:
    """Result of a verification; `broken_at` is the first bad record's number."""

    records: int
    head: str
    broken_at: int | None = None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """True when every record is in place and unchanged."""
        return self.broken_at is None


def append(connection: sa.Connection, entry: Entry) -> int:
    """Add one record in the caller's transaction; returns its number, which has no gaps."""
    previous = _head(connection)
    seq = previous.seq + 1
    body = canonical(entry, seq)
    head = Head(seq, chain_hash(previous.hash, body))
    connection.execute(_INSERT, {"seq": seq, "hash": head.hash, "incident": entry.incident, "body": body})
    connection.info[_WRITTEN] = (_within(connection), head)
    return seq


@contextmanager
def savepoint(connection: sa.Connection) -> Iterator[None]:
    """What an error takes back, and no more. Plain words: SQLAlchemy's own is compiled anew each time."""
    connection.exec_driver_sql("SAVEPOINT judged")
    try:
        yield
    except BaseException:
        connection.info.pop(_WRITTEN, None)
        with suppress(sa.exc.DBAPIError):  # a store in trouble has taken back everything; that error counts
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT judged")
            connection.exec_driver_sql("RELEASE SAVEPOINT judged")
        raise
    connection.exec_driver_sql("RELEASE SAVEPOINT judged")


def _head(connection: sa.Connection) -> Head:
    """The last record: what this very transaction or nested one wrote last, else it is read. What another
    nested one wrote may be gone with it.
    """
    within, head = connection.info.get(_WRITTEN, (None, None))
    if head is not None and within == _within(connection):
        return cast(Head, head)
    last = connection.execute(_LAST).one_or_none()
    return Head(last.seq, last.hash) if last else Head(0, GENESIS)


def _within(connection: sa.Connection) -> tuple[object, object]:
    return connection.get_transaction(), connection.get_nested_transaction()


def verify(connection: sa.Connection) -> Verdict:
    """Recompute the whole chain; stops at the first record that does not fit."""
    previous, count = GENESIS, 0
    for row in connection.execute(sa.select(audit).order_by(audit.c.seq)):
        count += 1
        problem = _problem(row, count, previous)
        if problem:
            return Verdict(count, previous, broken_at=row.seq, problem=problem)
        previous = row.hash
    return Verdict(count, previous)


def _problem(row: Any, expected_seq: int, previous: str) -> str:
    if row.seq != expected_seq:
        return f"record {expected_seq} is missing"
    if row.hash != chain_hash(previous, row.body):
        return "the record or one before it was changed"
    try:
        body = json.loads(row.body)
    except ValueError:
        return "the record is not JSON"
    if body.get("seq") != row.seq or body.get("incident") != row.incident:
        return "the record's index columns were changed"
    return ""


def read(connection: sa.Connection, incident: str | None = None) -> Iterator[dict[str, Any]]:
    """Records as dictionaries with their hash, oldest first; of one incident or of all."""
    query = sa.select(audit).order_by(audit.c.seq)
    if incident is not None:
        query = query.where(audit.c.incident == incident)
    for row in connection.execute(query):
        yield json.loads(row.body) | {"hash": row.hash}
