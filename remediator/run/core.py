"""The only writer of decisions: answers in, signals judged, next steps out, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from remediator.model.record import Entry
from remediator.model.view import SlurmView
from remediator.run.commands import Commands
from remediator.run.giveback import GiveBack
from remediator.run.triage import PAGE, Triage
from remediator.store import incidents
from remediator.store.engine import Store
from remediator.store.leadership import demand
from remediator.store.steps import Place
from remediator.workflow.calls import Answer, Call
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.standstill import stand_still

RECONSIDER_S = 5.0
NOTHING_SEEN = SlurmView()


@dataclass(frozen=True)
class Turn:
    """What one turn did: work for the workers, when to come back at the latest, and sentences for the log."""

    calls: tuple[Call, ...]
    wake_at: float
    sentences: tuple[str, ...]
    open_incidents: int
    treated: frozenset[str]
    entries: tuple[Entry, ...]


class Core:
    """Holds no state a restart would miss, except which calls are with the workers. `frozen` says why no
    step is taken at present.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        triage: Triage,
        journal: Journal,
        frozen: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._triage = triage
        give_back = GiveBack(triage.inventory, triage.rules, engine, journal)
        self._commands = Commands(journal, give_back)
        self._journal = journal
        self._frozen = frozen
        self._in_flight: set[Place] = set()

    def turn(self, now: float, answers: Sequence[Answer] = (), view: SlurmView = NOTHING_SEEN) -> Turn:
        """One pass. Raises Retry when the store does not take it (give the same answers again), Fenced when
        leadership moved on.
        """
        self._journal.take()  # what a failed turn wrote was rolled back
        flying = self._in_flight - {answer.call.place for answer in answers}
        with self._store.write() as connection:
            demand(connection, self._journal.epoch)
            for answer in answers:
                self._engine.apply(connection, answer, now)
            self._commands.carry_out(connection, now)
            judged = self._triage.judge(connection, now)
            admitted = self._triage.reconsider(connection, now)
            treated = self._engine.treated(connection, view, now)
            self._engine.guard_fences(connection, self._triage.inventory.machine, now)
            calls, later = self._next(connection, frozenset(flying), now)
            open_incidents = incidents.open_count(connection)
        self._in_flight = flying.union(*(call.places for call in calls))
        wake_at = min(later if later is not None else now + RECONSIDER_S, now + RECONSIDER_S)
        if len(judged) >= PAGE:
            wake_at = now
        sentences = tuple(judged + admitted)
        return Turn(tuple(calls), wake_at, sentences, open_incidents, treated, self._journal.take())

    def _next(
        self, connection: sa.Connection, busy: frozenset[Place], now: float
    ) -> tuple[list[Call], float | None]:
        """Steps to be handed out now and when to come back; none while everything stands still."""
        why = self._frozen()
        if why is None:
            return self._engine.calls(connection, busy, now)
        stand_still(connection, self._journal, busy, why, now)
        return [], None
