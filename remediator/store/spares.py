"""Which incident has which spare: unique rows, so that two incidents never share one."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from remediator.model.spare import Spare
from remediator.store.schema import OPEN, incident, refused_spare, spare

_OPEN_IDS = sa.select(incident.c.id).where(OPEN).scalar_subquery()

_OF_INCIDENT = sa.select(spare).where(spare.c.incident == sa.bindparam("incident"))


def of_incident(connection: sa.Connection, incident_id: str) -> Spare | None:
    """The spare an incident has."""
    row = connection.execute(_OF_INCIDENT, {"incident": incident_id}).one_or_none()
    return Spare(**row._mapping) if row else None


def taken(connection: sa.Connection) -> dict[str, str]:
    """UIDs of the nodes that are some open incident's spare, and whose."""
    query = sa.select(spare.c.uid, spare.c.incident).where(spare.c.incident.in_(_OPEN_IDS))
    return {row.uid: row.incident for row in connection.execute(query)}


def unavailable(connection: sa.Connection, incident_id: str) -> dict[str, str]:
    """UIDs of spares this incident cannot have, each with why as the end of a sentence."""
    query = sa.select(refused_spare.c.uid).where(refused_spare.c.incident == incident_id)
    gone = dict.fromkeys(connection.execute(query).scalars(), "was tried already")
    others = taken(connection).items()
    return gone | {uid: f"is for incident {other}" for uid, other in others if other != incident_id}


def take(connection: sa.Connection, incident_id: str, offers: Sequence[Sequence[str]]) -> Spare | None:
    """Claim the first offered (name, uid) that no open incident has and this one has not refused."""
    gone = unavailable(connection, incident_id)
    for name, uid in offers:
        if uid not in gone:
            claimed = Spare(node=name, uid=uid, incident=incident_id)
            connection.execute(sa.delete(spare).where(spare.c.uid == uid))  # a closed incident's, long ago
            connection.execute(sa.insert(spare).values(claimed.model_dump()))
            return claimed
    return None


def refuse(connection: sa.Connection, incident_id: str) -> None:
    """Let go of the incident's spare and do not take it again for this incident."""
    claimed = of_incident(connection, incident_id)
    if claimed is not None:
        connection.execute(sa.delete(spare).where(spare.c.incident == incident_id))
        connection.execute(sa.insert(refused_spare).values(incident=incident_id, uid=claimed.uid))


def let_go(connection: sa.Connection, incident_id: str) -> None:
    """The incident has no spare any more; anybody may take the node."""
    connection.execute(sa.delete(spare).where(spare.c.incident == incident_id))


def admitted(connection: sa.Connection, incident_id: str) -> None:
    """The spare is a worker now."""
    connection.execute(sa.update(spare).where(spare.c.incident == incident_id).values(state="admitted"))
