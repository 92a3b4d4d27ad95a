"""Moves incidents along their plans: applies answers, then says which steps go next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

import sqlalchemy as sa

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, StepRow, Wait
from remediator.model.run import JobRun
from remediator.model.view import SlurmView
from remediator.store import commands, incidents, outbox, steps
from remediator.workflow import notices
from remediator.workflow.journal import Journal
from remediator.workflow.plans import job_rows, main_rows, ready
from remediator.workflow.step import Writing
from remediator.workflow.steps import STEPS

Place = tuple[str, str, str]


@dataclass(frozen=True)
class Call:
    """Work for a worker: one attempt at one step."""

    incident: Incident
    row: StepRow
    may_act: bool
    run: JobRun | None
    known_runs: frozenset[str]

    @property
    def place(self) -> Place:
        """Which step this is about."""
        return place_of(self.row)


@dataclass(frozen=True)
class Answer:
    """What a worker found; an outcome of None means that the step wants to act and needs an INTENT."""

    call: Call
    outcome: Outcome | None


def _lost(view: SlurmView, name: str, incident: Incident, row: StepRow) -> bool:
    seen = view.nodes.get(name)
    if seen is None or seen.read_at <= (row.ended_at or 0.0):
        return False
    return not (seen.drain and seen.reason.startswith(incident.reason_prefix))


def place_of(row: StepRow) -> Place:
    """A step's identity."""
    return (row.incident, row.name, row.subject)


class Engine:
    """Everything happens on the caller's connection; the caller holds the epoch."""

    def __init__(self, journal: Journal, cluster: str) -> None:
        self._journal = journal
        self._cluster = cluster

    def start(self, connection: sa.Connection, incident: Incident, now: float) -> None:
        """Put the plan's steps on the books."""
        steps.insert(connection, main_rows(incident.plan, incident.id, now))
        self._journal.record(connection, "incident-opened", incident, now, why=incident.sentence)

    def apply(self, connection: sa.Connection, answer: Answer, now: float) -> None:
        """OUTCOME of one attempt or look, and what follows from it."""
        incident, row = answer.call.incident, answer.call.row
        if answer.outcome is None:
            steps.update(connection, row, state="pending", due_at=now)
            return
        after = self._journal.outcome(connection, incident, row, answer.outcome, now)
        if after.name == "prove-resume" and after.state == "done" and answer.call.run:
            outbox.put(connection, incident.id, [notices.back(incident, answer.call.run, after)], now)
        if isinstance(answer.outcome, Wait | Done) and "runs" in answer.outcome.facts:
            self._add_runs(connection, incident, answer.outcome.facts["runs"], now)
        self._move_incident(connection, incident, after, now)

    def treated(self, connection: sa.Connection, view: SlurmView, now: float) -> frozenset[str]:
        """Slurm nodes that must stay drained; a step whose DRAIN is not seen any more looks again."""
        names: set[str] = set()
        for incident, row in steps.done_of_open(connection, "drain-slurm"):
            names.update(incident.slurm_nodes)
            if any(_lost(view, name, incident, row) for name in incident.slurm_nodes):
                steps.update(connection, row, state="waiting", due_at=now, ended_at=None)
                why = f"DRAIN of {', '.join(incident.slurm_nodes)} is not seen any more: looking again"
                self._journal.record(connection, "condition-lost", incident, now, row=row, why=why)
        return frozenset(names)

    def calls(
        self, connection: sa.Connection, in_flight: frozenset[Place], now: float
    ) -> tuple[list[Call], float | None]:
        """Steps to be handed out now, and when to come back; INTENTs are written on the way."""
        out: list[Call] = []
        later: list[float] = []
        if commands.paused_by(connection):
            return out, None
        for incident_id, group in groupby(steps.unfinished(connection), key=lambda row: row.incident):
            rows = list(group)
            fit = [row for row in rows if place_of(row) not in in_flight and ready(row, rows)]
            due = [row for row in fit if row.due_at <= now or row.state == "running"]
            later.extend(row.due_at for row in fit if row not in due)
            if due:
                out.extend(self._hand_out(connection, incident_id, due, now))
        return out, min(later, default=None)

    def _hand_out(
        self, connection: sa.Connection, incident_id: str, due: list[StepRow], now: float
    ) -> Iterable[Call]:
        incident = incidents.get(connection, incident_id)
        if incident is None or incident.held_by:
            return
        runs = {run.key: run for run in steps.runs_seen(connection, incident_id)}
        for row in due:
            yield self._call(connection, incident, row, runs, now)

    def _call(
        self, connection: sa.Connection, incident: Incident, row: StepRow, runs: dict[str, JobRun], now: float
    ) -> Call:
        step = STEPS[row.name]
        if row.started_at is None:
            row = replace(row, started_at=now)
        elif row.state != "held" and not row.overdue and now - row.started_at > step.bound_s:
            row = self._journal.overdue(connection, incident, row, now)
            outbox.put(connection, incident.id, [notices.overdue(incident, row)], now)
        run = runs.get(row.subject)
        may_act = False
        if isinstance(step, Writing) and row.state == "pending":
            may_act = True
            row = self._journal.intent(connection, incident, row, step.intention(incident, run), now)
        return Call(incident, row, may_act, run, frozenset(runs))

    def _add_runs(
        self, connection: sa.Connection, incident: Incident, bodies: list[dict[str, object]], now: float
    ) -> None:
        for body in bodies:
            run = JobRun.model_validate(body)
            owner = steps.claim_run(connection, self._cluster, incident.id, run)
            rows = job_rows(incident.plan, incident.id, run, now, owned=owner == incident.id)
            steps.insert(connection, rows)
            if owner == incident.id:
                outbox.put(connection, incident.id, [notices.to_owner(incident, run)], now)
            why = f"job {run.address} of {run.user}: {run.release}{f' ({run.why})' if run.why else ''}"
            if owner != incident.id:
                why = f"job {run.address} is already being moved by incident {owner}"
            self._journal.record(
                connection, "job-run", incident, now, why=why, target=run.address, detail=dict(body)
            )

    def _move_incident(self, connection: sa.Connection, incident: Incident, row: StepRow, now: float) -> None:
        if row.name == "close" and row.state == "done":
            incidents.update(connection, incident.id, state="closed", closed_at=now)
            self._journal.record(connection, "incident-closed", incident, now, why=row.sentence)
            outbox.put(connection, incident.id, [notices.closed(incident, row.sentence)], now)
            return
        present = incidents.get(connection, incident.id)
        held_by = present.held_by if present else ""
        held = bool(held_by) or row.state == "held" or self._any_held(connection, incident.id)
        state = "held" if held else "open"
        if state != incident.state:
            incidents.update(connection, incident.id, state=state)
            action = "incident-held" if held else "incident-resumed"
            if held:
                outbox.put(connection, incident.id, [notices.held(incident, row.sentence)], now)
            self._journal.record(connection, action, incident, now, row=row, why=row.sentence)

    def _any_held(self, connection: sa.Connection, incident_id: str) -> bool:
        return any(row.state == "held" for row in steps.of_incident(connection, incident_id))
