"""What was seen of jobs: their ends, runs and stalls become verdicts, and machines that they make suspect."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from remediator.audit.chain import savepoint
from remediator.model.faults import JOB_STALLED
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy.decide import suspect
from remediator.policy.rules import Rules
from remediator.run import laid_over
from remediator.run.crashes import KINDS, Crashes
from remediator.run.lost_runs import Keeper
from remediator.run.openings import Inventory, Openings
from remediator.run.stalled_jobs import StalledJobs
from remediator.run.storeview import StoreView
from remediator.signals.forensics import FORENSICS
from remediator.signals.lost_runs import LOST_RUN
from remediator.workflow.journal import Journal

OF_JOBS = KINDS | {LOST_RUN, JOB_STALLED, FORENSICS}
Judged = tuple[str, str | None]
"""The sentence of a signal, and the incident it is about."""


class JobVerdicts:
    """Judges what our own looks saw of a job, in the transaction that also starts what it causes."""

    def __init__(
        self,
        inventory: Inventory,
        rules: Rules,
        journal: Journal,
        openings: Openings,
        crashes: Crashes | None,
        keeper: Keeper | None,
        stalled: StalledJobs | None,
    ) -> None:
        self._inventory = inventory
        self._rules = rules
        self._journal = journal
        self._openings = openings
        self._crashes = crashes
        self._keeper = keeper
        self._stalled = stalled

    def takes(self, kind: str) -> bool:
        """Whether signals of this kind are judged here."""
        judges: dict[str, object] = dict.fromkeys(KINDS, self._crashes)
        judges |= {LOST_RUN: self._keeper, JOB_STALLED: self._stalled, FORENSICS: self}
        return judges.get(kind) is not None

    def judge(self, connection: sa.Connection, view: StoreView, signal: Signal, now: float) -> Judged | None:
        """What becomes of a signal of a kind that this takes; None while it is too early to say."""
        if signal.kind == LOST_RUN and self._keeper is not None:
            return self._keeper.judge(connection, signal, now)
        if signal.kind == JOB_STALLED and self._stalled is not None:
            with savepoint(connection):
                return self._stalled.judge(connection, signal, now)
        if signal.kind in KINDS and self._crashes is not None:
            return self._judge_end(connection, view, signal, self._crashes, now)
        return self._judge_readings(connection, view, signal, now)

    def _judge_end(
        self, connection: sa.Connection, view: StoreView, signal: Signal, crashes: Crashes, now: float
    ) -> Judged | None:
        """The end of a job: what becomes of the job, then of machines that it makes suspect."""
        with savepoint(connection):
            judged = crashes.judge(connection, signal, now)
            if judged is None:
                return None
            found = crashes.suspects(connection, signal, now)
            return self._suspect(connection, view, signal, judged, found, now)

    def _judge_readings(
        self, connection: sa.Connection, view: StoreView, signal: Signal, now: float
    ) -> Judged | None:
        """What the nodes of a crashed job did: recorded, and held against the one that is named clearly."""
        if laid_over.is_too_early(connection, signal):
            return None
        books = connection, self._journal, self._inventory, signal, now
        with savepoint(connection):
            judged, struck = laid_over.record(*books), laid_over.strike(*books)
            if struck is None or self._crashes is None:
                return judged
            found = self._crashes.suspected(connection, [struck], now)
            return self._suspect(connection, view, signal, judged, found, now)

    def _suspect(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        judged: Judged,
        found: Sequence[tuple[Machine, str]],
        now: float,
    ) -> Judged:
        """Put an incident on the books for each machine that is suspect by now."""
        sentences, incident = [judged[0]], judged[1]
        for machine, why in found:
            decision = suspect(machine, why, self._rules, view.of(machine))
            opened = self._openings.suspect(connection, view, signal, machine, decision, now)
            sentences.append(decision.sentence)
            incident = incident or opened.id
        return "; ".join(sentences), incident
