"""The only writer of decisions: answers in, signals judged, next steps out, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import sqlalchemy as sa

from remediator.model.record import Entry
from remediator.model.view import SlurmView
from remediator.policy.rules import Rules
from remediator.run.commands import Commands
from remediator.run.giveback import GiveBack
from remediator.run.jumps import LEAST_S
from remediator.run.triage import Triage
from remediator.store import incidents, jumps, life, signals
from remediator.store.engine import Store
from remediator.store.leadership import demand
from remediator.store.steps import Place
from remediator.workflow.calls import Answer, Call
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.standstill import stand_still

RECONSIDER_S = 5.0
ALL_S = 1.0
"""In a storm of signals those held at the door, thousands perhaps, are looked at once in as many seconds."""
NOTHING_SEEN = SlurmView()


class NewRules(Protocol):
    """Where a newer policy comes from."""

    def newer(self) -> Rules | None:
        """One that is not in force yet."""

    def taken(self, newer: Rules) -> None:
        """It is in force, and on the record."""


@dataclass(frozen=True)
class Turn:
    """What one turn did: work for the workers, when to come back at the latest, and sentences for the log.
    `waiting` signals have yet to be judged, with their companions; at `more` nobody has looked yet. `doubts`
    says in one word each why signals led to nothing.
    """

    calls: tuple[Call, ...]
    wake_at: float
    sentences: tuple[str, ...]
    open_incidents: int
    treated: frozenset[str]
    entries: tuple[Entry, ...]
    waiting: int = 0
    doubts: tuple[str, ...] = ()
    more: bool = False


class Core:
    """Holds no state a restart would miss, except which calls are with the workers and that it has begun.
    `frozen` says why no step is taken at present, `site` has the policy when its files have changed,
    `ask_early` may read for a call whose INTENT is about to be committed.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        triage: Triage,
        journal: Journal,
        frozen: Callable[[], str | None] = lambda: None,
        site: NewRules | None = None,
        ask_early: Callable[[Call], Call] = lambda call: call,
    ) -> None:
        self._store = store
        self._engine = engine
        self._triage = triage
        give_back = GiveBack(triage.inventory, triage.rules, engine, journal)
        self._commands = Commands(journal, give_back)
        self._journal = journal
        self._frozen = frozen
        self._site = site
        self._ask_early = ask_early
        # With what the clock was set by since each was handed out.
        self._in_flight: dict[Place, float] = {}
        self._begun = False
        self._all_at = float("-inf")

    def turn(
        self,
        now: float,
        answers: Sequence[Answer] = (),
        view: SlurmView = NOTHING_SEEN,
        jump: float = 0.0,
    ) -> Turn:
        """One pass. Raises Retry when the store does not take it (give the same answers again), Fenced when
        leadership moved on. `jump`: what the clock was set by since the last turn that was taken.
        """
        self._journal.take()  # what a failed turn wrote was rolled back
        known = {place: set_by + jump for place, set_by in self._in_flight.items()}
        back = {answer.call.place for answer in answers}
        flying = {place: set_by for place, set_by in known.items() if place not in back}
        newer = self._site.newer() if self._site else None
        with self._store.write() as connection:
            demand(connection, self._journal.epoch)
            self._adopt(connection, newer, now)
            self._keep_time(connection, now, jump)
            if not self._begun:
                life.begin(connection, now)
                self._engine.standing.begin(connection, now)
            for answer in answers:
                self._engine.apply(connection, moved(answer, known.get(answer.call.place, 0.0)), now)
            asked = self._commands.carry_out(connection, now)
            judged, more = self._triage.judge(connection, now, lambda: self._store.is_wanted)
            storms = bool(judged) and not (asked or newer) and now < self._all_at + ALL_S
            among = self._triage.touched if storms else None
            admitted = self._triage.openings.reconsider(connection, now, among)
            treated = self._engine.standing.treated(connection, view, now)
            self._engine.standing.guard_fences(connection, self._triage.inventory.machine, now)
            calls, later = self._next(connection, frozenset(flying), now)
            calls = [self._ask_early(call) for call in calls]
            open_incidents = incidents.open_count(connection)
            waiting, due_at = signals.waiting(connection)
        if self._site and newer:
            self._site.taken(newer)
        self._begun = True
        self._all_at = min(self._all_at, now) if storms else now
        self._in_flight = flying | {place: 0.0 for call in calls for place in call.places}
        again = self._all_at + ALL_S if storms else now + RECONSIDER_S
        wake_at = now if more else min(at for at in (later, due_at, again) if at is not None)
        sentences = tuple(judged + admitted)
        entries = self._journal.take()
        doubts = self._triage.doubts
        return Turn(tuple(calls), wake_at, sentences, open_incidents, treated, entries, waiting, doubts, more)

    def _adopt(self, connection: sa.Connection, newer: Rules | None, now: float) -> None:
        """A changed overlay counts from the next signal on; what is decided stays decided."""
        if newer is None:
            return
        why = f"the site's policy has changed: {len(newer.rules)} rules, policy {newer.digest}"
        self._journal.record(
            connection, "policy-changed", None, now, why=why, detail={"policy": newer.digest}
        )
        self._triage.rules.adopt(newer)

    def _next(
        self, connection: sa.Connection, busy: frozenset[Place], now: float
    ) -> tuple[list[Call], float | None]:
        """Steps to be handed out now and when to come back; none while everything stands still."""
        why = self._frozen()
        if why is None:
            return self._engine.calls(connection, busy, now)
        stand_still(connection, self._journal, busy, why, now)
        return [], None

    def _keep_time(self, connection: sa.Connection, now: float, jump: float) -> None:
        """A clock that is set ends nobody's grace and makes nothing wait. That it was set back before this
        life is seen by what has happened in the future.
        """
        if not self._begun:
            jump -= jumps.ahead(connection, now)
        if abs(jump) >= LEAST_S:
            jumps.move(connection, jump)
            way = "forward" if jump > 0 else "back"
            why = f"this machine's clock was set {way} by {abs(jump):.0f} s: what is under way moves along"
            self._journal.record(connection, "clock-set", None, now, why=why)


def moved(answer: Answer, jump: float) -> Answer:
    """The answer to a call that was under way as the clock was set: its row is as old as the call."""
    if not jump:
        return answer
    row = answer.call.row
    times = {name: getattr(row, name) for name in ("due_at", "started_at", "acted_at", "ended_at")}
    later = {name: at + jump for name, at in times.items() if at is not None}
    return replace(answer, call=replace(answer.call, row=replace(row, **later)))
