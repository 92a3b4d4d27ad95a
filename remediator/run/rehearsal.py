"""What a policy would have done: a trace goes through triage, rules, budgets and breaker on a store of its
own, and nothing is done about what they decide.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from remediator.clock import ManualClock
from remediator.incidents.evidence import is_asked_first
from remediator.model.faults import SOFT
from remediator.model.incident import RESTART_JOB, Incident
from remediator.model.signal import Signal
from remediator.policy.rules import Rules
from remediator.run.cast import Cast
from remediator.run.core import Core
from remediator.run.crashes import Crashes
from remediator.run.lost_runs import Keeper
from remediator.run.replay import play
from remediator.run.trace import AlertRow, JobRow, LineRow, NodeRow, Row, SignalRow, signals_of
from remediator.run.triage import Triage
from remediator.settings import Settings
from remediator.signals.answers import believed
from remediator.signals.episodes import RESOLVED
from remediator.signals.job_ends import job_ends, watch_began
from remediator.store import incidents, leadership, signals
from remediator.store.engine import open_store
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger

TREATED_S = 900.0  # the clock of a replacement; its budgets are in use that long
REPAIRED_S = 86_400.0  # a machine that was taken out is back a day later
LATE_S = 900.0  # the longest that a signal waits for a second witness, and a bit
STEP_S, HELD_STEP_S = 5.0, 60.0
NEVER = 1e18
MOST = 100_000
RUNS_ON = frozenset({"drain-only", "validate", "validate-only", RESTART_JOB})


@dataclass(frozen=True, slots=True)
class Touched:
    """One incident that would have been: `does` is its plan, or `hold` where a limit forbids it. GPU-hours
    are those since the last start of the jobs that it would have ended.
    """

    at: float
    node: str
    rule: str
    tier: str
    does: str
    sentence: str
    jobs: tuple[int, ...]
    gpu_hours: float


class Rehearsal:
    """A Stage on which decisions have no consequences but their budgets: an incident ends after TREATED_S,
    and its machine is back after REPAIRED_S.
    """

    def __init__(self, folder: Path, rules: Rules, settings: Settings) -> None:
        self.clock = ManualClock(0.0)
        self.cast = Cast(settings)
        self._store = open_store(f"sqlite:///{folder}/rehearsal.db")
        sa.event.listen(self._store.engine, "connect", _careless)
        self._store.close()
        with self._store.write() as connection:
            epoch = leadership.acquire(connection, "rehearsal", 10.0, sole=True)
        journal = Journal("rehearsal", epoch or 1)
        ledger = Ledger(settings.budgets, self.cast.pool_size, journal, self.cast.share_size)
        engine = Engine(journal, settings.cluster.name, ledger, requeues=settings.requeues)
        crashes = Crashes(self.cast, rules, settings.crashes, settings.cluster.name, engine, journal)
        keeper = Keeper(self.cast, engine, journal)
        triage = Triage(self.cast, rules, ledger, engine, journal, crashes, keeper)
        self._core = Core(self._store, engine, triage, journal)
        self._begun: dict[str, float] = {}
        self._ends: dict[str, float] = {}
        self._back: dict[str, float] = {}
        self._judge_at = self._look_at = NEVER
        self._watched = False
        self._soft: dict[str, Signal] = {}

    def until(self, at: float) -> None:
        """Turn while something is undecided or held, then let the time pass."""
        while self.clock.now() < at:
            turn_at = min(self._judge_at, self._look_at)
            due = min([at, turn_at, *self._ends.values(), *self._back.values()])
            self.clock.advance(max(due - self.clock.now(), 0.001))
            self._pass_time()
            if self.clock.now() >= turn_at:
                self._turn()

    def take(self, row: Row, number: int) -> None:
        """The row happens: nodes and jobs change, signals are judged."""
        if isinstance(row, NodeRow):
            self.cast.appear(row)
        elif isinstance(row, JobRow):
            self._submit(self._job(row))
        elif isinstance(row, LineRow | AlertRow | SignalRow):
            found = signals_of(row, number)
            for signal in found:
                self.cast.boots(signal.node, signal.boot_id)
            alerts = found if isinstance(row, AlertRow) else []
            self._note(alerts)
            self._submit([*found, *self._believed(alerts, row.at)])

    def _believed(self, found: Iterable[Signal], at: float) -> Iterator[Signal]:
        """Nobody has the samples behind an alert any more: what it tells of a machine holds."""
        for signal in filter(is_asked_first, found):
            machine = self.cast.machine(signal.node)
            if machine is not None:
                yield believed(signal, machine.boot_id, at)

    def _note(self, alerts: Iterable[Signal]) -> None:
        """Soft heat has to hold for a while: until it is resolved it does."""
        for alert in alerts:
            if alert.kind in SOFT:
                self._soft[alert.dedupe] = alert
            elif alert.kind == RESOLVED:
                self._soft.pop(alert.dedupe.removesuffix(":resolved"), None)

    def touched(self) -> list[Touched]:
        """Everything that would have been done, in the order of its time."""
        with self._store.read() as connection:
            found = incidents.recent(connection, MOST)
        return [self._touched(one, self._begun.get(one.id)) for one in reversed(found)]

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def _touched(self, incident: Incident, begun: float | None) -> Touched:
        at = incident.opened_at if begun is None else begun
        ends = begun is not None and incident.plan not in RUNS_ON
        ended = self.cast.at([incident.node], at) if ends else []
        hours = sum(run.gpus * (at - run.began) / 3600 for run in ended)
        jobs = tuple(run.id for run in ended)
        if incident.plan == RESTART_JOB:  # it had ended by itself
            jobs = (int(incident.key.removeprefix("job/")),)
        return Touched(
            at=at,
            node="" if incident.plan == RESTART_JOB else incident.node,
            rule=incident.rule,
            tier=incident.tier,
            does="hold" if begun is None else incident.plan,
            sentence=incident.sentence,
            jobs=jobs,
            gpu_hours=round(hours, 1),
        )

    def _job(self, row: JobRow) -> list[Signal]:
        now = self.clock.now()
        if not self._watched:
            self._watched = True
            self._submit([watch_began(now)])
        if row.state == "RUNNING":
            self.cast.start(row)
            return []
        run = self.cast.end(row)
        return [] if run is None else job_ends([run.as_slurm(row)], now)

    def _submit(self, found: Sequence[Signal]) -> None:
        if found:
            with self._store.write() as connection:
                signals.insert_new(connection, found)
            self._turn()

    def _turn(self) -> None:
        with self._store.write() as connection:
            signals.insert_new(connection, [*self._believed(self._soft.values(), self.clock.now())])
        self._core.turn(self.clock.now())
        with self._store.read() as connection:
            first = signals.unhandled(connection, signals.FIRST, 1, NEVER)
            waiting = {held.id for held in incidents.held_at_the_door(connection)}
            begun = [
                one
                for one in incidents.all_open(connection)
                if one.id not in self._begun and one.id not in waiting
            ]
        now = self.clock.now()
        self._judge_at = max(first[0][0].due_at, now + STEP_S) if first else NEVER
        self._look_at = now + HELD_STEP_S if waiting else NEVER
        for one in begun:
            self._begin(one)

    def _begin(self, incident: Incident) -> None:
        self._begun[incident.id] = self.clock.now()
        self._ends[incident.id] = self.clock.now() + TREATED_S
        if incident.plan == "replace":
            self.cast.fenced[incident.node] = incident.id
            self._back[incident.node] = self.clock.now() + REPAIRED_S

    def _pass_time(self) -> None:
        now = self.clock.now()
        for incident in [one for one, at in self._ends.items() if at <= now]:
            del self._ends[incident]
            with self._store.write() as connection:
                incidents.update(connection, incident, state="closed", closed_at=now)
        for node in [one for one, at in self._back.items() if at <= now]:
            del self._back[node]
            self.cast.repaired(node)


def rehearse(rows: Sequence[Row], rules: Rules, settings: Settings) -> list[Touched]:
    """What these rules and settings would have done about a trace."""
    with tempfile.TemporaryDirectory(prefix="remediator-rehearsal-") as folder:
        stage = Rehearsal(Path(folder), rules, settings)
        try:
            play(rows, stage, LATE_S)
            return stage.touched()
        finally:
            stage.close()


def _careless(connection: Any, _record: Any) -> None:
    """This store need not outlive its process."""
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA journal_mode=MEMORY")
