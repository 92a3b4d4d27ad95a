"""Which machines showed one cause of late, by what they share; rows, so that a restart forgets none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.store.schema import OPEN, incident, sighting

GROUP = "group/"
_KEYS = ["cause", "machine", "kind"]


def _shown(insert: Any, newer: Any) -> Any:
    """Insert, or let the newest sighting count."""
    new = insert.excluded
    values = {"value": new.value, "node": new.node, "at": newer(sighting.c.at, new.at)}
    return insert.on_conflict_do_update(index_elements=_KEYS, set_=values)


_SHOWN = {
    "sqlite": _shown(sqlite.insert(sighting), sa.func.max),
    "postgresql": _shown(postgresql.insert(sighting), sa.func.greatest),
}
_ALIKE = sa.and_(
    sighting.c.cause == sa.bindparam("cause"),
    sighting.c.kind == sa.bindparam("kind"),
    sighting.c.value == sa.bindparam("value"),
)
_SINCE = sighting.c.at > sa.bindparam("since")
_COUNT = sa.select(sa.func.count()).where(_ALIKE, _SINCE)
_SHARES = sa.select(sighting.c.kind, sighting.c.value).where(
    sighting.c.cause == sa.bindparam("cause"), sighting.c.machine == sa.bindparam("machine")
)
_SAME = (
    sa.select(sighting.c.kind, sa.func.min(sighting.c.value), sa.func.count())
    .where(
        sighting.c.cause == sa.bindparam("cause"),
        sighting.c.machine.in_(sa.select(sighting.c.machine).where(_ALIKE, _SINCE)),
    )
    .group_by(sighting.c.kind)
    .having(sa.func.count(sa.distinct(sighting.c.value)) == 1)
)
_NAMES = sa.select(sighting.c.node).where(_ALIKE, _SINCE).order_by(sighting.c.at, sighting.c.node)
_GROUPS = (
    sa.select(incident.c.id, incident.c.key, incident.c.opened_at)
    .where(OPEN, incident.c.key >= GROUP, incident.c.key < "group0")
    .order_by(incident.c.opened_at)
)
_MEMBERS = (
    sa.select(incident.c.id, incident.c.key, incident.c.node, incident.c.boot_id, incident.c.rule)
    .where(OPEN, incident.c.key.in_(sa.select(sighting.c.machine).where(_ALIKE)))
    .order_by(incident.c.opened_at)
)


def add(
    connection: sa.Connection,
    cause: str,
    machine: str,
    node: str,
    shares: Sequence[tuple[str, str]],
    at: float,
) -> None:
    """The machine shows this cause; its newest sighting counts."""
    rows = [
        {"cause": cause, "machine": machine, "kind": kind, "value": value, "node": node, "at": at}
        for kind, value in shares
    ]
    if rows:
        connection.execute(_SHOWN[connection.dialect.name], rows)


def shares(connection: sa.Connection, cause: str, machine: str) -> list[tuple[str, str]]:
    """What a machine shared with others when it last showed the cause."""
    rows = connection.execute(_SHARES, {"cause": cause, "machine": machine})
    return [(row.kind, row.value) for row in rows]


def count(connection: sa.Connection, cause: str, kind: str, value: str, since: float) -> int:
    """How many machines that share this showed the cause since then."""
    values = {"cause": cause, "kind": kind, "value": value, "since": since}
    return int(connection.execute(_COUNT, values).scalar_one())


def nodes(connection: sa.Connection, cause: str, kind: str, value: str, since: float) -> list[str]:
    """Their names, the first to show it first."""
    values = {"cause": cause, "kind": kind, "value": value, "since": since}
    return list(connection.execute(_NAMES, values).scalars())


def alike(connection: sa.Connection, cause: str, kind: str, value: str, since: float) -> dict[str, str]:
    """What else all of these machines share, by kind."""
    values = {"cause": cause, "kind": kind, "value": value, "since": since}
    known = count(connection, cause, kind, value, since)
    rows = connection.execute(_SAME, values)
    return {row[0]: row[1] for row in rows if row[2] == known}


def groups(connection: sa.Connection) -> list[sa.Row[Any]]:
    """The groups (id, key, opened_at) that stand, oldest first."""
    return list(connection.execute(_GROUPS))


def members(connection: sa.Connection, cause: str, kind: str, value: str) -> list[sa.Row[Any]]:
    """Open incidents (id, key, node, boot_id, rule) of the machines that showed it."""
    return list(connection.execute(_MEMBERS, {"cause": cause, "kind": kind, "value": value}))
