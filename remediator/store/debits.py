"""Budgets as rows: who drew on which, once per incident; an incident that closes gives back what it drew."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from remediator.store.schema import OPEN, UNFINISHED, debit, incident, step

_OPEN_IDS = sa.select(incident.c.id).where(OPEN).scalar_subquery()
_GOES_ON = sa.exists().where(
    step.c.incident == incident.c.id, UNFINISHED, step.c.name.in_(sa.bindparam("until", expanding=True))
)
_NOT_BEGUN = sa.exists().where(
    step.c.incident == incident.c.id,
    step.c.state == sa.literal_column("'held'"),
    step.c.acted_at.is_(None),
    step.c.name.in_(sa.bindparam("first", expanding=True)),
)
_OF_POOL = sa.and_(debit.c.pool == sa.bindparam("pool"), debit.c.budget == sa.bindparam("budget"))
_STANDING = (
    sa.select(
        debit.c.incident,
        incident.c.node,
        debit.c.at,
        sa.and_(OPEN, _GOES_ON, ~_NOT_BEGUN).label("in_use"),
    )
    .join(incident, incident.c.id == debit.c.incident)
    .where(
        sa.or_(
            sa.and_(_OF_POOL, debit.c.at > sa.bindparam("since")),
            sa.and_(_OF_POOL, debit.c.incident.in_(_OPEN_IDS)),
        )
    )
)

_INSERT = sa.insert(debit)


def standing(
    connection: sa.Connection,
    pool: str,
    budget: str,
    *,
    first: Collection[str],
    until: Collection[str],
    since: float,
) -> list[sa.Row[Any]]:
    """Debits (incident, node, at, in_use) drawn after `since` or by open incidents. One is in use while its
    incident is open and one of its steps named in `until` is not done, unless one named in `first` is held
    before it ever acted.
    """
    known = {"pool": pool, "budget": budget, "since": since}
    values = known | {"first": list(first), "until": list(until)}
    return list(connection.execute(_STANDING, values).all())


def add(
    connection: sa.Connection, incident_id: str, budget: str, pool: str, step_name: str, at: float
) -> None:
    """Debit a budget; the schema refuses a second debit of the same incident."""
    values = {"incident": incident_id, "budget": budget, "pool": pool, "step": step_name, "at": at}
    connection.execute(_INSERT, values)
