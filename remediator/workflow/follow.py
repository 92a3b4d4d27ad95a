"""What a step found and only the core may act on: job runs, offered spares, a spare to let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from remediator.model.incident import Incident
from remediator.model.plan import StepRow
from remediator.model.run import JobRun
from remediator.settings import Requeues
from remediator.store import incidents, spares, steps
from remediator.workflow import notices
from remediator.workflow.ending import end
from remediator.workflow.forgotten import ASKS, CTLD_STARTED
from remediator.workflow.journal import Journal
from remediator.workflow.plans import job_rows, loss_rows
from remediator.workflow.requeues import capped
from remediator.workflow.saved import BLIND, Clocks, hasten_run, held_for
from remediator.workflow.silence import HELD, UNFENCED
from remediator.workflow.successors import JOINED
from remediator.workflow.suspects import AFTER_FAILURE, change_plan, passed

WORDS = {"replace": "the machine is replaced", "drain-only": "the machine stays drained and fenced"}
MOVING = frozenset({"release-jobs", "restart-job", "hold-jobs", "start-jobs"})

Follow = Callable[[sa.Connection, Incident, Any, float], None]


def with_survey(names: set[str]) -> set[str]:
    """While a DRAIN was missing a job may have come that nobody knows of."""
    return names | {"survey"} if "drain-slurm" in names else names


class FollowUps:
    """One method per kind of fact, each in the transaction of the outcome that brought it."""

    def __init__(self, journal: Journal, cluster: str, requeues: Requeues, clocks: Clocks = BLIND) -> None:
        self._clocks = clocks
        self._journal = journal
        self._cluster = cluster
        self._requeues = requeues
        self._kinds: dict[str, Follow] = {
            "workers": self._workers,
            "runs": self._runs,
            "offers": self._offers,
            "refuse": self._refuse,
            "again": self._again,
            "retired": self._retired,
            "admitted": self._admitted,
            "ends": self._ends,
            "requeued": self._requeued,
            "lost": self._lost,
            "hold": self._hold,
            "hold_again": self._hold_again,
            "stays_held": self._stays_held,
            "forgotten": self._forgotten,
            "let_go": self._let_go,
            "untouched": self._untouched,
            JOINED: self._joined,
            "evicted_workers": self._evicted,
            "stranded": self._stranded,
            "fit": self._fit,
            "unfit": self._unfit,
        }

    def follow(
        self, connection: sa.Connection, incident: Incident, facts: dict[str, Any], now: float
    ) -> None:
        """Do what these facts ask for; others are only kept."""
        for kind, value in facts.items():
            if kind in self._kinds:
                self._kinds[kind](connection, incident, value, now)

    def _workers(self, connection: sa.Connection, incident: Incident, names: list[str], now: float) -> None:
        incidents.update(connection, incident.id, slurm_nodes=names)
        why = f"Slurm workers of {incident.node} are now: {', '.join(names) or 'none'}"
        self._journal.record(connection, "workers", incident, now, why=why, detail={"workers": names})

    def _runs(
        self, connection: sa.Connection, incident: Incident, bodies: list[dict[str, Any]], now: float
    ) -> None:
        incident = incidents.get(connection, incident.id) or incident  # it may be in more haste by now
        read = self._clocks.are_read(connection, incident, now)
        for body in bodies:
            run = self._restartable(connection, incident, JobRun.model_validate(body), now)
            owner = self._claim(connection, incident, run)
            owned = owner == incident.id
            rows = job_rows(
                incident.plan, incident.id, run, now, owned=owned, waits=incident.waits, read=read
            )
            steps.insert(connection, rows)
            meant = "is to be requeued" if run.release == "requeue" else "is left alone"
            why = f"job {run.address} of {run.user} {meant}{f' ({run.why})' if run.why else ''}"
            if owned:
                notices.post(connection, incident, notices.to_owner(incident, run), now)
                if run.held_because:
                    why = f"job {run.address} of {run.user} is to be requeued held: {run.held_because}"
                    notices.post(connection, incident, notices.capped(incident, run), now)
            else:
                why = f"job {run.address} is already being moved by incident {owner}"
                self._hasten(connection, incident, owner, run, now)
            self._journal.record(
                connection,
                "job-run",
                incident,
                now,
                why=why,
                target=run.address,
                detail=run.model_dump(mode="json"),
            )

    def _restartable(
        self, connection: sa.Connection, incident: Incident, found: JobRun, now: float
    ) -> JobRun:
        """The run, to be held where a restart would do harm: to machines, or to what it has computed."""
        run = capped(connection, self._cluster, incident.node_uid, found, self._requeues, now)
        why = "" if run.held_because else held_for(self._clocks.of(connection, incident.pool, run))
        return run.model_copy(update={"held_because": why}) if why and run.release == "requeue" else run

    def _hasten(
        self, connection: sa.Connection, incident: Incident, owner: str, run: JobRun, now: float
    ) -> None:
        other = incidents.get(connection, owner)
        if other is not None:
            why = f"incident {incident.id} on {incident.node} needs job {run.address} moved: {incident.cause}"
            hasten_run(connection, self._journal, other, run, incident.timing, why, now)

    def _claim(self, connection: sa.Connection, incident: Incident, run: JobRun) -> str:
        """Who owns the run's one requeue; a dry run takes it from nobody."""
        if not incident.dry_run:
            return steps.claim_run(connection, self._cluster, incident.id, run)
        steps.watch_run(connection, incident.id, run)
        return incident.id

    def _offers(
        self, connection: sa.Connection, incident: Incident, offers: list[list[str]], now: float
    ) -> None:
        taken = spares.take(connection, incident.id, offers)
        why = (
            f"spare {taken.node} is for this incident" if taken else "every offered spare is somebody else's"
        )
        target = taken.node if taken else incident.node
        self._journal.record(connection, "spare-claimed", incident, now, why=why, target=target)

    def _refuse(self, connection: sa.Connection, incident: Incident, uid: str, now: float) -> None:
        spares.refuse(connection, incident.id)
        why = f"the spare with UID {uid} is not taken for this incident again"
        self._journal.record(connection, "spare-refused", incident, now, why=why)

    def _retired(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        notices.post(connection, incident, notices.spare_retired(incident, why), now)

    def _again(
        self, connection: sa.Connection, incident: Incident, names: str | list[str], now: float
    ) -> None:
        again = with_survey({names} if isinstance(names, str) else set(names))
        for row in steps.of_incident(connection, incident.id):
            if row.name in again and row.state == "done":
                steps.reopen(connection, row, now)

    def _admitted(self, connection: sa.Connection, incident: Incident, _node: str, _now: float) -> None:
        spares.admitted(connection, incident.id)

    def _ends(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        end(connection, self._journal, incident, why, now)

    def _requeued(
        self, connection: sa.Connection, incident: Incident, taken: dict[str, Any], _now: float
    ) -> None:
        for row in steps.of_incident(connection, incident.id):
            if row.subject == taken["run"]:
                asks = row.facts.get(ASKS, 0) + 1
                facts = {**row.facts, ASKS: asks, CTLD_STARTED: taken[CTLD_STARTED]}
                steps.update(connection, row, facts=facts)

    def _lost(self, connection: sa.Connection, incident: Incident, lost: dict[str, Any], now: float) -> None:
        known = {row.name for row in _of_run(connection, incident, lost["run"])}
        late = loss_rows(incident.plan, incident.id, lost["run"], now)
        steps.insert(connection, [row for row in late if row.name not in known])
        for row in _of_run(connection, incident, lost["run"]):
            steps.update(connection, row, facts={**row.facts, UNFENCED: lost["nodes"]})

    def _hold(self, connection: sa.Connection, incident: Incident, held: dict[str, Any], _now: float) -> None:
        for row in _of_run(connection, incident, held["run"]):
            steps.update(connection, row, facts={**row.facts, HELD: held[CTLD_STARTED]})

    def _hold_again(self, connection: sa.Connection, incident: Incident, run: str, now: float) -> None:
        for row in _of_run(connection, incident, run):
            if row.name == "hold-jobs":
                steps.update(connection, row, state="waiting", due_at=now, ended_at=None)

    def _stays_held(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        notices.post(connection, incident, notices.look(f"incident {incident.id}: {why}"), now)

    def _forgotten(self, connection: sa.Connection, incident: Incident, run: str, now: float) -> None:
        for row in steps.of_incident(connection, incident.id):
            if row.subject == run and row.name in MOVING:
                steps.reopen(connection, row, now)

    def _let_go(self, connection: sa.Connection, incident: Incident, _uid: str, _now: float) -> None:
        spares.let_go(connection, incident.id)

    def _untouched(self, connection: sa.Connection, incident: Incident, run: str, _now: float) -> None:
        """A fresh look shows the run as it was: whatever was meant to be asked for had no effect."""
        for row in steps.of_incident(connection, incident.id):
            if (row.name, row.subject) == ("release-jobs", run) and ASKS not in row.facts:
                steps.update(connection, row, acted_at=None)

    def _joined(self, connection: sa.Connection, incident: Incident, names: list[str], _now: float) -> None:
        """Each worker under a new name is offered to the jobs' places once, whatever Slurm said to it."""
        row = steps.get(connection, incident.id, "rejoin-slurm")
        if row is not None:
            before = row.facts.get(JOINED, ())
            steps.update(connection, row, facts={**row.facts, JOINED: [*before, *names]})

    def _evicted(self, connection: sa.Connection, incident: Incident, left: dict[str, str], _: float) -> None:
        row = steps.get(connection, incident.id, "evict-pods")
        if row is not None:
            steps.update(connection, row, facts={**row.facts, "evicted_workers": left})

    def _stranded(
        self, connection: sa.Connection, incident: Incident, jobs: list[list[str]], now: float
    ) -> None:
        for address, user in jobs:
            notices.post(connection, incident, notices.stranded(incident, address, user), now)

    def _fit(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        present = self._suspect(connection, incident)
        if present is not None:
            passed(connection, self._journal, present, why, now)

    def _unfit(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        present = self._suspect(connection, incident)
        if present is not None:
            plan = AFTER_FAILURE[present.plan]
            change_plan(connection, self._journal, present, now, plan=plan, sentence=f"{why}: {WORDS[plan]}")

    def _suspect(self, connection: sa.Connection, incident: Incident) -> Incident | None:
        """The incident as it is now, unless evidence has overtaken the test meanwhile."""
        present = incidents.get(connection, incident.id)
        return present if present is not None and present.plan in AFTER_FAILURE else None


def _of_run(connection: sa.Connection, incident: Incident, run: str) -> list[StepRow]:
    return [row for row in steps.of_incident(connection, incident.id) if row.subject == run]
