"""Where each pool's breaker stands, as rows: a restart forgets none."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from remediator.model.incident import COMMON_CAUSE, GIVE_BACK, HOLD_JOB, RESTART_JOB
from remediator.store.schema import breaker, incident

_GET = sa.select(breaker).where(breaker.c.pool == sa.bindparam("pool"))
_SICK = (
    sa.select(sa.func.max(incident.c.opened_at))
    .where(
        incident.c.pool == sa.bindparam("pool"),
        incident.c.opened_at > sa.bindparam("since"),
        incident.c.plan.not_in([COMMON_CAUSE, GIVE_BACK, HOLD_JOB, RESTART_JOB]),
        ~incident.c.dry_run,
        ~incident.c.observed,
    )
    .group_by(incident.c.key)
)


def get(connection: sa.Connection, pool: str) -> sa.Row[Any] | None:
    """The row (state, since, canary) of a pool; None before anything ever happened there."""
    return connection.execute(_GET, {"pool": pool}).one_or_none()


def put(connection: sa.Connection, pool: str, state: str, since: float, canary: str) -> None:
    """Write where a pool's breaker stands."""
    connection.execute(sa.delete(breaker).where(breaker.c.pool == pool))
    values = {"pool": pool, "state": state, "since": since, "canary": canary}
    connection.execute(sa.insert(breaker).values(values))


def newly_sick(connection: sa.Connection, pool: str, since: float) -> list[float]:
    """When each machine of a pool was last found sick, of those that were since then; oldest first."""
    return sorted(connection.execute(_SICK, {"pool": pool, "since": since}).scalars())
