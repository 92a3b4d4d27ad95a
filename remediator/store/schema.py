"""Tables. Forward-only: a change adds a migration and raises VERSION."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

VERSION = 1
metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
)

leadership = sa.Table(
    "leadership",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("holder", sa.String, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("expires_at", sa.Float, nullable=False),
)

signal = sa.Table(
    "signal",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("dedupe", sa.String, nullable=False, unique=True),
    sa.Column("source", sa.String, nullable=False),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("boot_id", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("code", sa.Integer),
    sa.Column("pci", sa.String),
    sa.Column("seen_at", sa.Float, nullable=False),
    sa.Column("received_at", sa.Float, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
    sa.Column("handled_at", sa.Float),
    sa.Column("incident", sa.String),
    sa.Column("verdict", sa.String),
    sa.Column("due_at", sa.Float, nullable=False, server_default="0"),
)
_unhandled = signal.c.handled_at.is_(None)
sa.Index("signal_due", signal.c.due_at, signal.c.id, sqlite_where=_unhandled, postgresql_where=_unhandled)
sa.Index("signal_by_node", signal.c.node, signal.c.seen_at)
_evidence = signal.c.incident.is_not(None)
sa.Index("signal_of_incident", signal.c.incident, sqlite_where=_evidence, postgresql_where=_evidence)

incident = sa.Table(
    "incident",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("key", sa.String, nullable=False),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("node_uid", sa.String, nullable=False),
    sa.Column("boot_id", sa.String, nullable=False),
    sa.Column("slurm_nodes", sa.JSON, nullable=False),
    sa.Column("tier", sa.String, nullable=False),
    sa.Column("rule", sa.String, nullable=False),
    sa.Column("cause", sa.String, nullable=False),
    sa.Column("plan", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("sentence", sa.String, nullable=False),
    sa.Column("fault_at", sa.Float, nullable=False),
    sa.Column("opened_at", sa.Float, nullable=False),
    sa.Column("closed_at", sa.Float),
    sa.Column("held_by", sa.String, nullable=False),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("dry_run", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("timing", sa.String, nullable=False, server_default="now"),
    sa.Column("observed", sa.Boolean, nullable=False, server_default=sa.false()),
)
# Literals: a planner cannot tell that a query's parameter implies a partial index's condition.
ENDED: sa.ColumnElement[Any] = sa.literal_column("('closed', 'overridden')")
OPEN = incident.c.state.op("NOT IN", is_comparison=True)(ENDED)
sa.Index("incident_one_open", incident.c.key, unique=True, sqlite_where=OPEN, postgresql_where=OPEN)
sa.Index("incident_by_pool", incident.c.pool, incident.c.opened_at)
sa.Index("incident_by_node", incident.c.node, incident.c.opened_at)
sa.Index("incident_by_key", incident.c.key, incident.c.closed_at)

step = sa.Table(
    "step",
    metadata,
    sa.Column("incident", sa.String, sa.ForeignKey("incident.id"), primary_key=True),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("subject", sa.String, primary_key=True),
    sa.Column("track", sa.String, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("due_at", sa.Float, nullable=False),
    sa.Column("started_at", sa.Float),
    sa.Column("acted_at", sa.Float),
    sa.Column("ended_at", sa.Float),
    sa.Column("overdue", sa.Boolean, nullable=False),
    sa.Column("sentence", sa.String, nullable=False),
    sa.Column("facts", sa.JSON, nullable=False),
)
UNFINISHED = step.c.state != sa.literal_column("'done'")
sa.Index("step_unfinished", step.c.incident, step.c.ordinal,
         sqlite_where=UNFINISHED, postgresql_where=UNFINISHED)  # fmt: skip

debit = sa.Table(
    "debit",
    metadata,
    sa.Column("incident", sa.String, sa.ForeignKey("incident.id"), primary_key=True),
    sa.Column("budget", sa.String, primary_key=True),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("step", sa.String, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
)
sa.Index("debit_of_pool", debit.c.pool, debit.c.budget, debit.c.at)

breaker = sa.Table(
    "breaker",
    metadata,
    sa.Column("pool", sa.String, primary_key=True),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("since", sa.Float, nullable=False),
    sa.Column("canary", sa.String, nullable=False),
)

# Which machine showed which cause, last when, once for each thing it shares with others.
sighting = sa.Table(
    "sighting",
    metadata,
    sa.Column("cause", sa.String, primary_key=True),
    sa.Column("machine", sa.String, primary_key=True),
    sa.Column("kind", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
)
sa.Index("sighting_of_cause", sighting.c.cause, sighting.c.kind, sighting.c.value, sighting.c.at)

job_run = sa.Table(
    "job_run",
    metadata,
    sa.Column("cluster", sa.String, primary_key=True),
    sa.Column("job_id", sa.Integer, primary_key=True),
    sa.Column("submit_time", sa.Integer, primary_key=True),
    sa.Column("restart_count", sa.Integer, primary_key=True),
    sa.Column("owner", sa.String, sa.ForeignKey("incident.id"), nullable=False),
)

# A run is owned by one incident and may be watched by several.
watched_run = sa.Table(
    "watched_run",
    metadata,
    sa.Column("incident", sa.String, sa.ForeignKey("incident.id"), primary_key=True),
    sa.Column("run", sa.String, primary_key=True),
    sa.Column("body", sa.JSON, nullable=False),
)

# One run of a job crashed on one machine; all rows of a run have the same `at`.
strike = sa.Table(
    "strike",
    metadata,
    sa.Column("run", sa.String, primary_key=True),
    sa.Column("machine", sa.String, primary_key=True),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("job", sa.String, nullable=False),
    sa.Column("work", sa.String, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("evidence", sa.String, nullable=False),
)
sa.Index("strike_by_machine", strike.c.machine, strike.c.at)
sa.Index("strike_by_job", strike.c.job, strike.c.at)
sa.Index("strike_by_time", strike.c.at)

# The last state an agent saw of each job's checkpoints; ages in `body` count back from `seen_at`.
checkpoint = sa.Table(
    "checkpoint",
    metadata,
    sa.Column("glob", sa.String, primary_key=True),
    sa.Column("job", sa.String, primary_key=True),
    sa.Column("user", sa.String, primary_key=True),
    sa.Column("jobname", sa.String, primary_key=True),
    sa.Column("seen_at", sa.Float, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
)

checkpoint_reader = sa.Table(
    "checkpoint_reader",
    metadata,
    sa.Column("glob", sa.String, primary_key=True),
    sa.Column("node", sa.String, primary_key=True),
    sa.Column("looked_at", sa.Float, nullable=False),
    sa.Column("problem", sa.String, nullable=False),
)

spare = sa.Table(
    "spare",
    metadata,
    sa.Column("uid", sa.String, primary_key=True),
    sa.Column("node", sa.String, nullable=False),
    sa.Column("incident", sa.String, sa.ForeignKey("incident.id"), nullable=False, unique=True),
    sa.Column("state", sa.String, nullable=False),
)

refused_spare = sa.Table(
    "refused_spare",
    metadata,
    sa.Column("incident", sa.String, sa.ForeignKey("incident.id"), primary_key=True),
    sa.Column("uid", sa.String, primary_key=True),
)

outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("incident", sa.String, nullable=False),
    sa.Column("audience", sa.String, nullable=False),
    sa.Column("urgency", sa.String, nullable=False),
    sa.Column("text", sa.String, nullable=False),
    sa.Column("written_at", sa.Float, nullable=False),
    sa.Column("due_at", sa.Float, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("delivered_at", sa.Float),
)

# What a person asked for by the command line; the core answers it in the turn that carries it out.
command = sa.Table(
    "command",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("verb", sa.String, nullable=False),
    sa.Column("argument", sa.String, nullable=False),
    sa.Column("actor", sa.String, nullable=False),
    sa.Column("asked_at", sa.Float, nullable=False),
    sa.Column("answered_at", sa.Float),
    sa.Column("done", sa.Boolean, nullable=False),
    sa.Column("answer", sa.String, nullable=False),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Column("incident", sa.String, nullable=False, index=True),
    sa.Column("body", sa.Text, nullable=False),
)

# The record cannot be changed by the role that writes it (PostgreSQL: by grants, see the chart).
for verb in ("UPDATE", "DELETE"):
    sa.event.listen(
        audit,
        "after_create",
        sa.DDL(  # type: ignore[no-untyped-call]  # SQLAlchemy left this constructor untyped
            f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
            f"BEGIN SELECT RAISE(ABORT, 'the audit record is append-only'); END"
        ).execute_if(dialect="sqlite"),
    )
