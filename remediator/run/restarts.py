"""A job's own incident, by which it is restarted: what happens to its nodes is another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from remediator.model.ids import incident_id
from remediator.model.incident import RESTART_JOB, Incident
from remediator.model.machine import Machine
from remediator.model.run import JobRun
from remediator.store import incidents, steps
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal


def job_key(run: JobRun) -> str:
    """Of the incident of a job; it is no machine's."""
    return f"job/{run.job_id}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job is restarted; `at` is when that began, `detail` goes into the record."""

    rule: str
    cause: str
    sentence: str
    at: float
    detail: dict[str, Any]


class Restarts:
    """Opens such incidents, in the core's transaction."""

    def __init__(self, cluster: str, engine: Engine, journal: Journal) -> None:
        self._cluster = cluster
        self._engine = engine
        self._journal = journal

    def begin(
        self, connection: sa.Connection, run: JobRun, machine: Machine, reason: Reason, now: float
    ) -> str:
        """Restart the job of this run, one of whose machines stands for where it is; the incident's id."""
        sentence = f"dry run: {reason.sentence}" if self._engine.dry_run else reason.sentence
        incident = Incident(
            id=incident_id(now),
            key=job_key(run),
            node=machine.name,
            node_uid=machine.uid,
            boot_id=machine.boot_id,
            pool=machine.pool or "",
            tier="T3",
            rule=reason.rule,
            cause=reason.cause,
            plan=RESTART_JOB,
            sentence=sentence,
            fault_at=min(reason.at, now),
            opened_at=now,
        )
        incidents.insert(connection, incident)
        detail = {"plan": incident.plan} | reason.detail
        self._journal.record(connection, "decision", incident, now, why=sentence, detail=detail)
        if not self._engine.dry_run:
            steps.hand_over(connection, self._cluster, run, incident.id)
        self._engine.start(connection, incident, now)
        self._engine.adopt(connection, incident, run, now)
        return incident.id
