"""Leadership is a row with an epoch; a lease is dated by the database's clock, which may be set."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.errors import Fenced
from remediator.store.schema import leadership

NAME = "controller"
_EPOCH = sa.select(leadership.c.epoch).where(leadership.c.name == NAME).with_for_update(read=True)


def database_now(connection: sa.Connection) -> float:
    """Seconds since the epoch by the database's clock."""
    if connection.dialect.name == "sqlite":
        text = "SELECT (julianday('now') - 2440587.5) * 86400.0"
    else:
        text = "SELECT extract(epoch FROM clock_timestamp())"
    return float(connection.execute(sa.text(text)).scalar_one())


def holder(connection: sa.Connection) -> str | None:
    """Who leads now; None when nobody's lease holds."""
    row = connection.execute(sa.select(leadership).where(leadership.c.name == NAME)).one_or_none()
    return str(row.holder) if row and row.expires_at > database_now(connection) else None


def acquire(connection: sa.Connection, holder: str, lease_s: float, *, sole: bool = False) -> int | None:
    """The new epoch, or None while somebody else holds the lease.

    `sole` says that something else proves that no holder can be alive: a file lock, or a lease that
    nobody has renewed for longer than one lasts.
    """
    now = database_now(connection)
    row = connection.execute(
        sa.select(leadership).where(leadership.c.name == NAME).with_for_update()
    ).one_or_none()
    if row is None:
        values = {"name": NAME, "holder": holder, "epoch": 1, "expires_at": now + lease_s}
        connection.execute(sa.insert(leadership).values(values))
        return 1
    if row.expires_at > now and not sole:
        return None
    epoch = int(row.epoch) + 1
    connection.execute(
        sa.update(leadership)
        .where(leadership.c.name == NAME)
        .values(holder=holder, epoch=epoch, expires_at=now + lease_s)
    )
    return epoch


def renew(connection: sa.Connection, epoch: int, lease_s: float) -> bool:
    """Prolong the lease of `epoch`; False when somebody took over. Whether it has run out the holder counts
    by its own steady clock: the database's may have been set forward.
    """
    result = connection.execute(
        sa.update(leadership)
        .where(leadership.c.name == NAME, leadership.c.epoch == epoch)
        .values(expires_at=database_now(connection) + lease_s)
    )
    return bool(result.rowcount)


def claim(connection: sa.Connection) -> tuple[int, float] | None:
    """Epoch and end of the present lease as written, new with every renewal; None before the first."""
    row = connection.execute(sa.select(leadership).where(leadership.c.name == NAME)).one_or_none()
    return None if row is None else (int(row.epoch), float(row.expires_at))


def demand(connection: sa.Connection, epoch: int) -> None:
    """Fenced unless `epoch` is the present one; first statement of every write that decides."""
    found = connection.execute(_EPOCH).scalar()
    if found != epoch:
        raise Fenced(f"epoch {epoch} was superseded by {found}", epoch)
