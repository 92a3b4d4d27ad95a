"""Strike rows: which run of which job crashed on which machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from remediator.model.strike import Strike
from remediator.store.schema import strike

_INSERT_NEW = {
    "sqlite": sqlite.insert(strike).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(strike).on_conflict_do_nothing(),
}
_JOBS = sa.select(strike.c.job).where(
    strike.c.machine == sa.bindparam("machine"), strike.c.at >= sa.bindparam("fresh")
)
_AGAINST = (
    sa.select(strike)
    .where(strike.c.job.in_(_JOBS), strike.c.at >= sa.bindparam("since"))
    .order_by(strike.c.at, strike.c.run, strike.c.machine)
)
_BETWEEN = sa.select(sa.func.count(sa.distinct(strike.c.job))).where(
    strike.c.at.between(sa.bindparam("since"), sa.bindparam("until"))
)


def add(connection: sa.Connection, strikes: Sequence[Strike]) -> None:
    """Count them; a run counts once on a machine."""
    if strikes:
        connection.execute(_INSERT_NEW[connection.dialect.name], [asdict(one) for one in strikes])


def against(connection: sa.Connection, machine: str, since: float, fresh: float) -> list[Strike]:
    """All strikes since `since`, on whichever machine, of the jobs that crashed on `machine` since `fresh`.

    What a machine was tested for since is left out by `fresh`: its rows before that are not returned.
    """
    rows = connection.execute(_AGAINST, {"machine": machine, "since": since, "fresh": fresh})
    found = [Strike(**row._mapping) for row in rows]
    return [one for one in found if one.machine != machine or one.at >= fresh]


def since(connection: sa.Connection, at: float) -> list[Strike]:
    """All strikes since then, oldest first."""
    query = sa.select(strike).where(strike.c.at >= at).order_by(strike.c.at)
    return [Strike(**row._mapping) for row in connection.execute(query)]


def of_machine(connection: sa.Connection, machine: str, since: float) -> list[Strike]:
    """Strikes against one machine since then, oldest first."""
    query = sa.select(strike).where(strike.c.machine == machine, strike.c.at >= since).order_by(strike.c.at)
    return [Strike(**row._mapping) for row in connection.execute(query)]


def machines_of(connection: sa.Connection, node: str) -> list[str]:
    """Keys of the machines that were struck under this name, the latest first."""
    query = (
        sa.select(strike.c.machine)
        .where(strike.c.node == node)
        .group_by(strike.c.machine)
        .order_by(sa.func.max(strike.c.at).desc())
    )
    return list(connection.execute(query).scalars())


def of_run(connection: sa.Connection, run: str) -> frozenset[str]:
    """Keys of the machines that a run struck."""
    query = sa.select(strike.c.machine).where(strike.c.run == run)
    return frozenset(connection.execute(query).scalars())


def rows_of_run(connection: sa.Connection, run: str) -> list[Strike]:
    """Each strike of a run."""
    query = sa.select(strike).where(strike.c.run == run).order_by(strike.c.machine)
    return [Strike(**row._mapping) for row in connection.execute(query)]


def rows_of_job(connection: sa.Connection, job: str, since: float) -> list[Strike]:
    """Each strike of a job's runs since then."""
    query = sa.select(strike).where(strike.c.job == job, strike.c.at >= since)
    return [Strike(**row._mapping) for row in connection.execute(query.order_by(strike.c.at))]


def put(connection: sa.Connection, better: Strike) -> None:
    """Count it with this evidence, whether or not the run counts on that machine already."""
    same = strike.c.run == better.run, strike.c.machine == better.machine
    connection.execute(sa.delete(strike).where(*same))
    add(connection, [better])


def jobs_between(connection: sa.Connection, since: float, until: float) -> int:
    """How many jobs crashed in this time."""
    return int(connection.execute(_BETWEEN, {"since": since, "until": until}).scalar_one())
