"""Since when this store has known the cluster."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.store.schema import meta

SINCE = "watching-since"
_READ = sa.select(meta.c.value).where(meta.c.key == SINCE)


def begin(connection: sa.Connection, now: float) -> None:
    """The service watches; only the first time counts."""
    if watching_since(connection) is None:
        connection.execute(sa.insert(meta).values(key=SINCE, value=repr(now)))


def move(connection: sa.Connection, seconds: float) -> None:
    """The clock it was measured by was set."""
    since = watching_since(connection)
    if since is not None:
        connection.execute(sa.update(meta).where(meta.c.key == SINCE).values(value=repr(since + seconds)))


def watching_since(connection: sa.Connection) -> float | None:
    """When the service first watched; None before that."""
    value = connection.execute(_READ).scalar()
    return None if value is None else float(value)
