"""Incident rows: at most one open per key, which the schema itself enforces."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from remediator.model.incident import GIVE_BACK, Incident
from remediator.store.schema import OPEN, incident, step

# Built once: making and keying a statement costs more than SQLite needs to run it.
REAL = ~incident.c.dry_run
_GET = sa.select(incident).where(incident.c.id == sa.bindparam("id"))
_OPEN_FOR = sa.select(incident).where(incident.c.key == sa.bindparam("key"), OPEN)
_LAST_CLOSED = (
    sa.select(incident)
    .where(incident.c.key == sa.bindparam("key"), ~OPEN, incident.c.plan != GIVE_BACK, REAL)
    .order_by(incident.c.closed_at.desc())
    .limit(1)
)
_LAST_RETURN = (
    sa.select(incident)
    .where(
        incident.c.key == sa.bindparam("key"),
        incident.c.state == "closed",
        incident.c.plan == GIVE_BACK,
        REAL,
    )
    .order_by(incident.c.closed_at.desc())
    .limit(1)
)
_STARTED = sa.exists().where(step.c.incident == incident.c.id)
_OPEN_COUNT = sa.select(sa.func.count()).select_from(incident).where(OPEN)
_AT_THE_DOOR = (
    sa.select(incident.c.id, incident.c.key, incident.c.node, incident.c.held_by)
    .where(OPEN, incident.c.state == "held", ~_STARTED)
    .order_by(incident.c.opened_at)
)
_AMONG = _AT_THE_DOOR.where(incident.c.id.in_(sa.bindparam("ids", expanding=True)))
_BEGUN = (
    sa.select(incident)
    .where(
        incident.c.key == sa.bindparam("key"),
        incident.c.opened_at >= sa.bindparam("since"),
        incident.c.plan != GIVE_BACK,
        _STARTED,
        REAL,
    )
    .order_by(incident.c.opened_at)
)
_KNOWN = sa.select(incident.c.key).where(incident.c.key.in_(sa.bindparam("keys", expanding=True))).distinct()
_INSERT = sa.insert(incident)
_UPDATE = sa.update(incident).where(incident.c.id == sa.bindparam("of"))
_OPEN_AMONG = sa.select(incident).where(incident.c.key.in_(sa.bindparam("keys", expanding=True)), OPEN)
_ALL_OPEN = sa.select(incident).where(OPEN).order_by(incident.c.opened_at)


_WRITES = "incident-writes"


class Held(NamedTuple):
    """Of an incident that waits at the door what tells whether it is worth reading: there can be hundreds."""

    id: str
    key: str
    node: str
    held_by: str


def _incident(row: Any) -> Incident:
    values = dict(row._mapping)
    values["slurm_nodes"] = tuple(values["slurm_nodes"])
    return Incident(**values)


def insert(connection: sa.Connection, new: Incident) -> None:
    """Open an incident."""
    _count(connection)
    values = new.model_dump()
    values["slurm_nodes"] = list(new.slurm_nodes)
    connection.execute(_INSERT, values)


def writes(connection: sa.Connection) -> int:
    """A number that is another one after each write here: what was read before may be another by then. What a
    savepoint takes back is not counted.
    """
    return int(connection.info.get(_WRITES, 0))


def _count(connection: sa.Connection) -> None:
    connection.info[_WRITES] = writes(connection) + 1


def get(connection: sa.Connection, incident_id: str) -> Incident | None:
    """One incident by id."""
    row = connection.execute(_GET, {"id": incident_id}).one_or_none()
    return _incident(row) if row else None


def open_for(connection: sa.Connection, key: str) -> Incident | None:
    """The open incident of a machine."""
    row = connection.execute(_OPEN_FOR, {"key": key}).one_or_none()
    return _incident(row) if row else None


def open_among(connection: sa.Connection, keys: Collection[str]) -> dict[str, Incident]:
    """The open incidents of those of these machines that have one, by their keys."""
    rows = connection.execute(_OPEN_AMONG, {"keys": list(keys)}) if keys else ()
    return {row.key: _incident(row) for row in rows}


def in_hand(connection: sa.Connection, key: str) -> bool:
    """Whether something is done about a machine, or waits to be: more than being observed."""
    found = open_for(connection, key)
    return found is not None and not found.observed


def last_closed(connection: sa.Connection, key: str) -> Incident | None:
    """The newest incident of a machine that has ended, closed or overridden; no return and no dry run."""
    row = connection.execute(_LAST_CLOSED, {"key": key}).one_or_none()
    return _incident(row) if row else None


def last_return(connection: sa.Connection, key: str) -> Incident | None:
    """The newest return of a machine to service that went through."""
    row = connection.execute(_LAST_RETURN, {"key": key}).one_or_none()
    return _incident(row) if row else None


def known(connection: sa.Connection, keys: Collection[str]) -> frozenset[str]:
    """Those of these machines that some incident is, or was, about."""
    return frozenset(connection.execute(_KNOWN, {"keys": list(keys)}).scalars() if keys else ())


def open_count(connection: sa.Connection) -> int:
    """How many incidents have not ended."""
    return int(connection.execute(_OPEN_COUNT).scalar_one())


def held_at_the_door(connection: sa.Connection, among: Collection[str] | None = None) -> list[Held]:
    """Held incidents without a single step, oldest first: decided, but forbidden for now."""
    if among is None:
        return [Held(*row) for row in connection.execute(_AT_THE_DOOR).all()]
    return [Held(*row) for row in connection.execute(_AMONG, {"ids": list(among)})] if among else []


def all_open(connection: sa.Connection) -> list[Incident]:
    """Every open or held incident, oldest first."""
    return [_incident(row) for row in connection.execute(_ALL_OPEN)]


def recent(connection: sa.Connection, limit: int = 50) -> list[Incident]:
    """The newest incidents, newest first."""
    query = sa.select(incident).order_by(incident.c.opened_at.desc()).limit(limit)
    return [_incident(row) for row in connection.execute(query)]


def count_for(connection: sa.Connection, key: str, since: float) -> int:
    """How many incidents of one key were opened since then."""
    query = sa.select(sa.func.count()).where(incident.c.key == key, incident.c.opened_at >= since, REAL)
    return int(connection.execute(query).scalar_one())


def begun(connection: sa.Connection, key: str, since: float) -> list[Incident]:
    """Incidents of a machine opened since then that have begun to carry out their plan, oldest first; no
    returns, no dry runs.
    """
    return [_incident(row) for row in connection.execute(_BEGUN, {"key": key, "since": since})]


def keys_of(connection: sa.Connection, node: str) -> list[str]:
    """Keys of the machines that incidents knew under this name, the latest first."""
    query = (
        sa.select(incident.c.key)
        .where(incident.c.node == node, incident.c.node_uid != "", ~incident.c.key.startswith("job/"))
        .group_by(incident.c.key)
        .order_by(sa.func.max(incident.c.opened_at).desc())
    )
    return list(connection.execute(query).scalars())


def of_key(connection: sa.Connection, key: str, limit: int = 50) -> list[Incident]:
    """The newest incidents of a machine, newest first."""
    query = sa.select(incident).where(incident.c.key == key).order_by(incident.c.opened_at.desc())
    return [_incident(row) for row in connection.execute(query.limit(limit))]


def treating(connection: sa.Connection, plans: Sequence[str], since: float) -> list[Incident]:
    """Incidents with one of `plans` that have begun to carry it out and whose fault was since then."""
    query = sa.select(incident).where(
        incident.c.plan.in_(plans), incident.c.fault_at >= since, _STARTED, REAL
    )
    return [_incident(row) for row in connection.execute(query.order_by(incident.c.opened_at))]


def update(connection: sa.Connection, incident_id: str, **values: Any) -> None:
    """Change columns of one incident."""
    _count(connection)
    connection.execute(_UPDATE, values | {"of": incident_id})
