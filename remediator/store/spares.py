"""Which incident has which spare: unique rows, so that two incidents never share one."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from remediator.model.spare import Spare
from remediator.store.schema import refused_spare, spare


def of_incident(connection: sa.Connection, incident: str) -> Spare | None:
    """The spare an incident has."""
    row = connection.execute(sa.select(spare).where(spare.c.incident == incident)).one_or_none()
    return Spare(**row._mapping) if row else None


def taken(connection: sa.Connection) -> set[str]:
    """UIDs of the nodes that are some incident's spare."""
    return set(connection.execute(sa.select(spare.c.uid)).scalars())


def take(connection: sa.Connection, incident: str, offers: Sequence[Sequence[str]]) -> Spare | None:
    """Claim the first offered (name, uid) that is free and was not refused by this incident."""
    query = sa.select(refused_spare.c.uid).where(refused_spare.c.incident == incident)
    refused = set(connection.execute(query).scalars())
    for name, uid in offers:
        if uid not in taken(connection) | refused:
            claimed = Spare(node=name, uid=uid, incident=incident)
            connection.execute(sa.insert(spare).values(claimed.model_dump()))
            return claimed
    return None


def refuse(connection: sa.Connection, incident: str) -> None:
    """Let go of the incident's spare and do not take it again for this incident."""
    claimed = of_incident(connection, incident)
    if claimed is not None:
        connection.execute(sa.delete(spare).where(spare.c.incident == incident))
        connection.execute(sa.insert(refused_spare).values(incident=incident, uid=claimed.uid))


def let_go(connection: sa.Connection, incident: str) -> None:
    """The incident has no spare any more; anybody may take the node."""
    connection.execute(sa.delete(spare).where(spare.c.incident == incident))


def admitted(connection: sa.Connection, incident: str) -> None:
    """The spare is a worker now."""
    connection.execute(sa.update(spare).where(spare.c.incident == incident).values(state="admitted"))
