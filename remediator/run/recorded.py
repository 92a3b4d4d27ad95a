"""What a store has seen, as the rows of a trace."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.model.job_end import JobEnd
from remediator.run.trace import JobRow, NodeRow, Row, SignalRow
from remediator.signals.job_ends import JOB_ENDED, JOB_WATCH
from remediator.store import incidents, signals

MOST = 100_000


def recorded(connection: sa.Connection, since: float) -> list[Row]:
    """Nodes, jobs and signals that were received since then, in the order of time. Of jobs a store knows only
    those that ended badly; nodes without an incident are taken to be in the first pool.
    """
    rows: list[Row] = []
    pools = {one.node: one.pool for one in incidents.recent(connection, MOST) if one.pool}
    found = signals.received(connection, since)
    for node in dict.fromkeys(one.node for one in found if one.node):
        rows.append(NodeRow(at=since, type="node", node=node, pool=pools.get(node, "")))
    for one in found:
        if one.kind == JOB_ENDED:
            rows += _job(JobEnd.model_validate(one.detail), one.received_at)
        elif one.kind != JOB_WATCH:
            rows.append(
                SignalRow(at=one.received_at, type="signal", **one.model_dump(exclude={"received_at"}))
            )
    return sorted(rows, key=lambda row: row.at)


def _job(end: JobEnd, at: float) -> list[JobRow]:
    user, _, name = end.work.partition("/")
    began = end.began if end.began is not None else end.ended
    run = end.run
    start = JobRow(at=began, type="job", id=run.job_id, user=user, name=name, nodes=run.nodes)
    over = JobRow(at=at, type="job", id=run.job_id, state=end.state, code=end.code, signal=end.signal)
    return [start, over]
