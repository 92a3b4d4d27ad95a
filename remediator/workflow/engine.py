"""Moves incidents along their plans: applies answers, then says which steps go next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from remediator.model.checkpoint import Saved
from remediator.model.incident import Incident
from remediator.model.plan import Done, Hold, StepRow, Wait, Yield
from remediator.model.run import JobRun
from remediator.model.spare import Spare
from remediator.model.timing import Timing
from remediator.settings import Requeues
from remediator.store import commands, incidents, spares, steps
from remediator.store.steps import Place
from remediator.workflow import notices
from remediator.workflow.calls import Answer, Call
from remediator.workflow.ending import end
from remediator.workflow.follow import FollowUps
from remediator.workflow.givenback import may_stop
from remediator.workflow.holds import HELD_SINCE, reminder
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import UNLIMITED, Ledger, resumed, waiting
from remediator.workflow.plans import main_rows
from remediator.workflow.requeues import UNCAPPED
from remediator.workflow.saved import BLIND, READS, Clocks, hasten, stopped_at
from remediator.workflow.standing import Standing
from remediator.workflow.step import Hurried, Local, Step, Writing
from remediator.workflow.steps import STEPS
from remediator.workflow.suspects import change_plan
from remediator.workflow.yielding import Yields

LOOK_AGAIN_S = 5.0


def _flies(row: StepRow, busy: frozenset[Place]) -> bool:
    """Nothing is taken back while a call of the incident's plan is under way: it may yet set something."""
    others = {incident for incident, name, _ in busy if not name.startswith("undo-")}
    return row.track == "back" and row.incident in others


def _is_news(run: JobRun, after: StepRow) -> bool:
    """The end of a job that was left alone is no news to its owner; that it runs again is."""
    proven = after.name == "prove-resume" and after.state == "done"
    return proven and (run.release == "requeue" or "restart" in after.facts)


class Engine:
    """Everything happens on the caller's connection; the caller holds the epoch."""

    def __init__(
        self,
        journal: Journal,
        cluster: str,
        ledger: Ledger = UNLIMITED,
        *,
        requeues: Requeues = UNCAPPED,
        dry_run: bool = False,
        clocks: Clocks = BLIND,
    ) -> None:
        self.dry_run = dry_run
        self._clocks = clocks
        self._journal = journal
        self._ledger = ledger
        self._follow_ups = FollowUps(journal, cluster, requeues, clocks)
        self._yields = Yields(journal, cluster)
        self.standing = Standing(journal)

    def start(
        self, connection: sa.Connection, incident: Incident, now: float, facts: dict[str, Any] | None = None
    ) -> None:
        """Put the plan's steps on the books; `facts` are known to each of them from the beginning. What
        begins in a dry run stays one to its end.
        """
        if incident.dry_run != self.dry_run:
            incidents.update(connection, incident.id, dry_run=self.dry_run)
        steps.insert(connection, main_rows(incident.plan, incident.id, now, facts))
        self._journal.record(connection, "incident-opened", incident, now, why=incident.sentence)

    def adopt(
        self, connection: sa.Connection, incident: Incident, run: JobRun, now: float, lost: str = ""
    ) -> None:
        """Put the steps of a job run, which may have `lost` a node, on the books of an incident that knows it
        without a survey.
        """
        begun = incident.model_copy(update={"dry_run": self.dry_run})
        facts: dict[str, Any] = {"runs": [run.model_dump(mode="json")]}
        if lost:
            facts["lost"] = {"run": run.key, "nodes": [lost]}
        self._follow_ups.follow(connection, begun, facts, now)

    def end_dry_run(self, connection: sa.Connection, incident: Incident, now: float) -> None:
        """End what was begun in a dry run that is over, so that what comes now can act."""
        end(connection, self._journal, incident, "the dry run is over; nothing was written", now)

    def overtake(
        self, connection: sa.Connection, incident: Incident, changes: dict[str, Any], now: float
    ) -> Incident:
        """Evidence decides about a machine that was only suspect: its plan becomes another one."""
        return change_plan(connection, self._journal, incident, now, **changes)

    def saved(self, connection: sa.Connection, pool: str, run: JobRun) -> Saved:
        """What is known of the checkpoints of a run in this pool."""
        return self._clocks.of(connection, pool, run)

    def hasten(
        self, connection: sa.Connection, incident: Incident, timing: Timing, why: str, now: float
    ) -> None:
        """Graver evidence lets jobs that were given time wait less; never the other way."""
        hasten(connection, self._journal, incident, timing, why, now)

    def call_off(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        """End an incident whose evidence has passed, and give its node back."""
        self._yields.call_off(connection, incident, why, now)

    def stop_return(self, connection: sa.Connection, returning: Incident, why: str, now: float) -> bool:
        """End a return because of a new fault; False while one of its writes is under way or half done."""
        if not may_stop(steps.of_incident(connection, returning.id)):
            return False
        end(connection, self._journal, returning, f"the return is stopped by a new fault: {why}", now)
        return True

    def apply(self, connection: sa.Connection, answer: Answer, now: float) -> None:
        """OUTCOME of one attempt or look, and what follows from it."""
        incident, row = answer.call.incident, answer.call.row
        self._ledger.changed()
        if answer.outcome is None:
            self._postpone(connection, answer.call, now)
            return
        after = self._journal.outcome(connection, incident, row, answer.outcome, now)
        present = incidents.get(connection, incident.id)  # the call's copy is as old as the call
        if present is None or not (present.goes_on or row.track == "back"):
            return  # it has yielded meanwhile: what comes back late is on the record and leads to nothing
        if isinstance(answer.outcome, Yield):
            self._yields.begin(connection, present, answer.outcome, now)
            return
        if answer.call.run and _is_news(answer.call.run, after):
            notices.post(connection, incident, notices.back(incident, answer.call.run, after), now)
        if isinstance(answer.outcome, Wait | Done):
            self._follow_ups.follow(connection, incident, answer.outcome.facts, now)
        if row.track == "back" and after.state == "held" and HELD_SINCE not in row.facts:
            notices.post(connection, present, notices.held(present, after.sentence), now)
        self._move_incident(connection, present, after, now)

    def _postpone(self, connection: sa.Connection, call: Call, now: float) -> None:
        if call.may_act:
            self._journal.not_begun(connection, call.incident, call.row, now)
        else:
            steps.update(connection, call.row, state="pending", due_at=now)

    def calls(
        self, connection: sa.Connection, in_flight: frozenset[Place], now: float
    ) -> tuple[list[Call], float | None]:
        """Steps to be handed out now, and when to come back; INTENTs are written on the way.

        Steps that ask nobody outside are taken here and now, and what becomes ready by them too.
        """
        out: list[Call] = []
        if commands.paused_by(connection):
            return out, None
        while True:
            busy = in_flight.union(*(call.places for call in out))
            due, later = steps.due(connection, busy, now)
            due = [row for row in due if not _flies(row, busy)]
            fresh = self._hand_out(connection, due, now)
            out += [call for call in fresh if not isinstance(STEPS[call.row.name], Local)]
            if not self._take_local(connection, fresh, now):
                return out, later

    def _take_local(self, connection: sa.Connection, calls: Iterable[Call], now: float) -> bool:
        """Conclude the steps that need no worker; False when there was none."""
        found = False
        for call in calls:
            step = STEPS[call.row.name]
            if isinstance(step, Local):
                found = True
                self.apply(connection, Answer(call, step.conclude(call.incident, call.spare, now)), now)
        return found

    def _hand_out(self, connection: sa.Connection, due: Iterable[StepRow], now: float) -> list[Call]:
        out: list[Call] = []
        for incident_id, rows in groupby(due, key=lambda row: row.incident):
            incident = incidents.get(connection, incident_id)
            if incident is not None and not incident.held_by:
                known = [self._remind(connection, incident, row, now) for row in rows]
                asks = any(not isinstance(STEPS[row.name], Local) for row in known)
                runs = tuple(steps.runs_seen(connection, incident_id)) if asks else ()
                spare = spares.of_incident(connection, incident_id)
                affordable = [self._afford(connection, incident, row, now) for row in known]
                out += [self._call(connection, incident, row, runs, spare, now) for row in affordable if row]
        return out

    def _remind(self, connection: sa.Connection, incident: Incident, row: StepRow, now: float) -> StepRow:
        """The row; people are told again about one that has been held for long."""
        after = reminder(row, now)
        if after is None:
            return row
        steps.update(connection, row, facts=after.facts)
        page = notices.still_held(incident, row, now - after.facts[HELD_SINCE])
        notices.post(connection, incident, page, now)
        self._journal.record(connection, "still-held", incident, now, row=row, why=row.sentence)
        return after

    def _afford(
        self, connection: sa.Connection, incident: Incident, row: StepRow, now: float
    ) -> StepRow | None:
        """The row, once the budget it needs is debited; None when it has to wait for that, and says so."""
        refused = self._ledger.draw(connection, incident, row, now)
        if refused is None:
            return resumed(row, now)
        outcome = Hold(refused, after=LOOK_AGAIN_S)
        after = self._journal.outcome(connection, incident, waiting(row), outcome, now)
        present = incidents.get(connection, incident.id) or incident  # another row of it may be held by now
        told = self._ledger.is_grouped(connection, present)
        self._move_incident(connection, present, after, now, told=told)
        return None

    def _call(
        self,
        connection: sa.Connection,
        incident: Incident,
        row: StepRow,
        runs: tuple[JobRun, ...],
        spare: Spare | None,
        now: float,
    ) -> Call:
        step = STEPS[row.name]
        if row.started_at is None:
            row = replace(row, started_at=now)
        elif row.state != "held" and not row.overdue and now - row.started_at > step.bound_s:
            row = self._journal.overdue(connection, incident, row, now)
            notices.post(connection, incident, notices.overdue(incident, row), now)
        run = next((run for run in runs if run.key == row.subject), None)
        may_act = False
        if isinstance(step, Writing) and row.state == "pending" and not incident.dry_run:
            may_act = True
            act, budget = step.intention(incident, run), self._ledger.budget_of(row)
            row = self._journal.intent(connection, incident, row, act, now, budget)
        taken = spares.unavailable(connection, incident.id) if row.name == "claim-spare" else {}
        first = may_act and row.attempt == 1  # a step that has to be tried again may have to be for long
        then = self._straight_on(connection, incident, step, now) if first else None
        call = Call(incident, row, may_act, run, runs, spare, taken, then)
        return self._with_checkpoints(connection, call, run) if run and row.name in READS else call

    def _with_checkpoints(self, connection: sa.Connection, call: Call, run: JobRun) -> Call:
        """The call, with what agents have seen the run save."""
        saved = self._clocks.of(connection, call.incident.pool, run)
        return replace(call, saved=saved, stopped_at=stopped_at(connection, call.incident, run))

    def _straight_on(
        self, connection: sa.Connection, incident: Incident, step: Step, now: float
    ) -> Call | None:
        """The step that the same worker takes right after this one, its INTENT committed with this one's."""
        after = step.then if isinstance(step, Hurried) else ""
        row = steps.get(connection, incident.id, after) if after else None
        if row is None or row.state != "pending":
            return None
        return self._call(connection, incident, row, (), None, now)

    def _move_incident(
        self, connection: sa.Connection, present: Incident, row: StepRow, now: float, *, told: bool = False
    ) -> None:
        if row.track == "back":
            if row.name == "yield" and row.state == "done":
                self._yields.end(connection, present, row.sentence, now)
            return
        if row.name == "close" and row.state == "done":
            incidents.update(connection, present.id, state="closed", closed_at=now)
            self._journal.record(connection, "incident-closed", present, now, why=row.sentence)
            notices.post(connection, present, notices.closed(present, row.sentence), now)
            return
        held = bool(present.held_by) or row.state == "held" or steps.any_held(connection, present.id)
        state = "held" if held else "open"
        if state != present.state:
            incidents.update(connection, present.id, state=state)
            action = "incident-held" if held else "incident-resumed"
            if held and not told:
                notices.post(connection, present, notices.held(present, row.sentence), now)
            self._journal.record(connection, action, present, now, row=row, why=row.sentence)
