"""INTENT before an act, OUTCOME after it: each in one transaction with its audit record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from remediator.audit import chain
from remediator.model.ids import operation_id
from remediator.model.incident import Incident
from remediator.model.plan import Again, Done, Hold, Outcome, StepRow, Unknown, Wait, Yield
from remediator.model.record import Entry
from remediator.store import steps
from remediator.workflow.holds import ageless, aging

MAX_BACKOFF_S = 10.0
MAX_REFUSED_S = 120.0
TRIES = "tries"
NAMES = {Done: "done", Wait: "wait", Again: "retry", Unknown: "ambiguous", Hold: "hold", Yield: "overridden"}


class Journal:
    """Writes steps and records as one actor in one epoch."""

    def __init__(self, actor: str, epoch: int) -> None:
        self.actor = actor
        self.epoch = epoch
        self._fresh: list[Entry] = []

    def take(self) -> tuple[Entry, ...]:
        """The entries written since the last call; for the log, once they are committed."""
        fresh, self._fresh = tuple(self._fresh), []
        return fresh

    def intent(
        self,
        connection: sa.Connection,
        incident: Incident,
        row: StepRow,
        act: str,
        now: float,
        budget: str | None = None,
    ) -> StepRow:
        """Commit to one act: what (`act`), on which target, under which operation id, on which budget."""
        after = replace(
            row,
            state="running",
            attempt=row.attempt + 1,
            started_at=row.started_at if row.started_at is not None else now,
            acted_at=now,
        )
        _save(connection, after)
        detail = {"act": act} | ({"budget": budget} if budget else {})
        self.record(connection, "intent", incident, now, row=after, why=incident.sentence, detail=detail)
        return after

    def outcome(
        self, connection: sa.Connection, incident: Incident, row: StepRow, outcome: Outcome, now: float
    ) -> StepRow:
        """Write down how an attempt or a look ended; a repeated look that says the same adds no record."""
        after = settled(row, outcome, now)
        _save(connection, after)
        if row.state == "running" or (after.state, after.sentence) != (row.state, row.sentence):
            self.record(
                connection,
                "outcome",
                incident,
                now,
                row=after,
                outcome=NAMES[type(outcome)],
                why=outcome.sentence,
                detail=after.facts if isinstance(outcome, Done) else {},
            )
        return after

    def not_begun(self, connection: sa.Connection, incident: Incident, row: StepRow, now: float) -> None:
        """The step before did not end as hoped: this one is as if it had never been handed out."""
        after = replace(row, state="pending", due_at=now, started_at=None, acted_at=None)
        _save(connection, after)
        why = "the step before it is not done: nothing was sent"
        self.record(connection, "outcome", incident, now, row=after, outcome="not-begun", why=why)

    def overdue(self, connection: sa.Connection, incident: Incident, row: StepRow, now: float) -> StepRow:
        """Tell people once that a step passed its bound; the step itself goes on looking."""
        after = replace(row, overdue=True)
        _save(connection, after)
        self.record(connection, "overdue", incident, now, row=after, why=row.sentence)
        return after

    def record(
        self,
        connection: sa.Connection,
        action: str,
        incident: Incident | None,
        now: float,
        *,
        row: StepRow | None = None,
        why: str = "",
        outcome: str = "",
        detail: dict[str, Any] | None = None,
        target: str = "",
    ) -> None:
        """One audit record about an incident or a step."""
        operation = operation_id(row.incident, row.name, row.subject, row.attempt) if row else ""
        entry = Entry(
            at=now,
            actor=self.actor,
            epoch=self.epoch,
            action=action,
            incident=incident.id if incident else "",
            target=target or (incident.node if incident else ""),
            operation=operation,
            why=why,
            outcome=outcome,
            detail=detail or {},
            step=row.name if row else "",
            subject=row.subject if row else "",
            attempt=row.attempt if row else 0,
        )
        chain.append(connection, entry)
        self._fresh.append(entry)


def settled(row: StepRow, outcome: Outcome, now: float) -> StepRow:
    """The row after an outcome: done, to be looked at again, to be tried again, held, or a person's now.

    A hold is nobody's delay: the step's bound counts from the last look that found one. What is tried again
    is looked at before that: an INTENT stands before a write only, however long a server is away.
    """
    started = now if row.started_at is None or row.state == "held" else row.started_at
    tries = row.facts.get(TRIES, 0)
    facts = {name: value for name, value in ageless(row.facts).items() if name != TRIES}
    base = replace(row, sentence=outcome.sentence, started_at=started, facts=facts)
    match outcome:
        case Done(facts=facts):
            # One that only looked once more ended when it first did.
            ended_at = now if row.ended_at is None or row.state == "running" else row.ended_at
            return replace(base, state="done", ended_at=ended_at, facts={**base.facts, **facts})
        case Wait(after=after, patient=patient):
            return replace(base, state="waiting", due_at=now + after, started_at=None if patient else started)
        case Again(after=after):
            due_at = now + backoff(after, tries + 1)
            return replace(base, state="waiting", due_at=due_at, facts=facts | {TRIES: tries + 1})
        case Unknown(after=after):
            return replace(base, state="waiting", due_at=now + after)
        case Hold():
            return _held(base, row, outcome, now)
        case Yield():
            return replace(base, state="held", due_at=now)


def _held(base: StepRow, row: StepRow, hold: Hold, now: float) -> StepRow:
    """A refused act is tried again at growing distances; a mere look costs nothing and keeps its pace."""
    refused = row.state == "running"
    tries = row.facts.get(TRIES, 0) + refused
    pause = backoff(hold.after, tries, MAX_REFUSED_S) if refused else hold.after
    facts = {**row.facts, **hold.facts} | ({TRIES: tries} if tries else {})
    return replace(base, state="held", due_at=now + pause, facts=aging(facts, now))


def backoff(after: float, tries: int, most: float = MAX_BACKOFF_S) -> float:
    """Doubling delay from `after`, at most 10 s unless told: a step is few and people wait for it."""
    return float(min(after * 2 ** min(max(tries - 1, 0), 10), max(most, after)))


def _save(connection: sa.Connection, row: StepRow) -> None:
    steps.update(
        connection,
        row,
        state=row.state,
        attempt=row.attempt,
        due_at=row.due_at,
        started_at=row.started_at,
        acted_at=row.acted_at,
        ended_at=row.ended_at,
        overdue=row.overdue,
        sentence=row.sentence,
        facts=row.facts,
    )
