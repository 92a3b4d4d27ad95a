"""Appending to the chain and proving that nobody changed it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from remediator.model.record import GENESIS, Entry, canonical, chain_hash
from remediator.store.schema import audit

_LAST = sa.select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1)
_INSERT = sa.insert(audit)


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
    last = connection.execute(_LAST).one_or_none()
    seq, previous = (last.seq + 1, last.hash) if last else (1, GENESIS)
    body = canonical(entry, seq)
    values = {"seq": seq, "hash": chain_hash(previous, body), "incident": entry.incident, "body": body}
    connection.execute(_INSERT, values)
    return seq


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
