"""Writes what a crash laid over its nodes' readings says: on the job's record, and on each named node's."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.model.incident import Incident
from remediator.model.signal import Signal
from remediator.run.openings import Inventory
from remediator.store import incidents
from remediator.workflow.journal import Journal

SAME_END_S = 1.0


def record(
    connection: sa.Connection, journal: Journal, inventory: Inventory, signal: Signal, now: float
) -> tuple[str, str | None]:
    """The sentence and the incident that restarts the job, if there is one; nothing comes of it."""
    said = signal.detail
    says, nodes = str(said.get("says")), [str(node) for node in said.get("nodes", [])]
    job = _of_job(connection, int(said.get("job", 0)), signal.seen_at)
    detail = {"evidence": signal.dedupe, "outcome": said.get("outcome"), "nodes": nodes}
    target = ", ".join(nodes) or f"job {said.get('job')}"
    journal.record(connection, signal.kind, job, now, why=says, detail=detail, target=target)
    for node in nodes:
        machine = inventory.machine(node)
        own = incidents.open_for(connection, machine.key) if machine else None
        if own is not None:
            journal.record(connection, signal.kind, own, now, why=says, detail=detail)
    return f"{says}: recorded", job.id if job else None


def _of_job(connection: sa.Connection, job_id: int, ended: float) -> Incident | None:
    newest = incidents.of_key(connection, f"job/{job_id}")
    return next((one for one in newest if abs(one.fault_at - ended) <= SAME_END_S), None)
