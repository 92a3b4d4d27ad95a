"""Writes what a crash laid over its nodes' readings says: on the job's record, on each named node's, and as a
strike against the one node that it names clearly.
"""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.run.openings import Inventory
from remediator.signals.job_ends import JOB_ENDED
from remediator.store import incidents, signals, strikes
from remediator.workflow.journal import Journal

SAME_END_S = 1.0


def is_too_early(connection: sa.Connection, signal: Signal) -> bool:
    """Whether the end of the job has yet to be judged itself."""
    return signals.is_unjudged(connection, f"{JOB_ENDED}:{signal.detail.get('run')}")


def record(
    connection: sa.Connection, journal: Journal, inventory: Inventory, signal: Signal, now: float
) -> tuple[str, str | None]:
    """The sentence and the incident that restarts the job, if there is one."""
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


def strike(
    connection: sa.Connection, journal: Journal, inventory: Inventory, signal: Signal, now: float
) -> Machine | None:
    """The one machine that is named clearly, against which the crash counts by its readings from now on. None
    where there is no such, or where the crash counts against nobody.
    """
    run, nodes = str(signal.detail.get("run")), list(signal.detail.get("nodes", []))
    counted = strikes.rows_of_run(connection, run)
    clear = signal.detail.get("clear") is True and len(nodes) == 1
    machine = inventory.machine(str(nodes[0])) if clear else None
    if not counted or machine is None or machine.pool is None:
        return None
    named = replace(counted[0], machine=machine.key, node=machine.name, evidence=signal.dedupe)
    strikes.put(connection, named)
    why = f"this crash counts against {machine.name}, which its readings name: {signal.detail.get('says')}"
    detail = {"run": run, "work": named.work, "evidence": signal.dedupe}
    journal.record(connection, "strike", None, now, why=why, target=machine.name, detail=detail)
    return machine


def _of_job(connection: sa.Connection, job_id: int, ended: float) -> Incident | None:
    newest = incidents.of_key(connection, f"job/{job_id}")
    return next((one for one in newest if abs(one.fault_at - ended) <= SAME_END_S), None)
