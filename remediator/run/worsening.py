"""A signal about a machine that has an open incident: it folds in, and may only make it graver."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from remediator.audit.chain import savepoint
from remediator.incidents.evidence import has_passed
from remediator.incidents.ladder import Course, graver
from remediator.incidents.verdicts import asks_for, is_lowered
from remediator.model.decision import Decision
from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.model.timing import hastier
from remediator.policy.decide import MOVES_JOBS, acting_rule, decide
from remediator.policy.rules import Rules
from remediator.run.openings import Openings
from remediator.run.storeview import StoreView
from remediator.run.tellings import tell_once
from remediator.run.weighing import Later, named, weigh
from remediator.store import steps
from remediator.workflow.engine import Engine
from remediator.workflow.ledger import Ledger
from remediator.workflow.suspects import AFTER_FAILURE, leaves_acting

ROOM_S = 5.0
Judged = tuple[str, str | None]


class Worsening:
    """Everything happens on the caller's connection."""

    def __init__(self, rules: Rules, ledger: Ledger, engine: Engine, openings: Openings) -> None:
        self._rules = rules
        self._ledger = ledger
        self._engine = engine
        self._openings = openings

    def fold(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine,
        existing: Incident,
        now: float,
    ) -> Judged | Later | None:
        """Into the machine's open incident; one that yields to a person ends in a moment: judged then."""
        if existing.state == "yielding":
            return None
        folds = f"{signal.what} on {signal.node} folds into incident {existing.id}"
        if not self._may_change(signal, machine, existing):
            self._tell(connection, view, signal, machine, now)
            return f"{folds}{_less(signal)}", existing.id
        unfenced = machine.model_copy(update={"fenced_by": None})
        decision = decide(signal, unfenced, self._rules, view.of(unfenced, existing.opened_at))
        if decision.action == "record":
            return folds, existing.id
        weighed = weigh(connection, view, signal, machine, decision, self._rules, now)
        if isinstance(weighed, Later):
            return weighed
        if not weighed.enough:
            return f"{folds}: {weighed.sentence}", existing.id
        return self._change(connection, view, signal, machine, existing, named(decision, weighed), now)

    def _change(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine,
        existing: Incident,
        decision: Decision,
        now: float,
    ) -> Judged | Later | None:
        """What is enough to act on folds in: sooner, or further than before."""
        folds = f"{signal.what} on {signal.node} folds into incident {existing.id}"
        if not _is_graver(existing, decision):
            self._engine.hasten(connection, existing, decision.timing, decision.cause, now)
            return folds, existing.id
        if decision.action == "hold":
            if has_passed(signal, now):  # while it waited
                return folds, existing.id
            return _held(machine, existing, decision, folds, now)
        worse = _worsened(existing, decision, signal)
        if leaves_acting(connection, existing, worse["plan"]):
            return None  # the machine is in good hands; what acts on it now is finished first
        with savepoint(connection):
            changed = self._carry_on(connection, existing, machine, signal, worse, now)
            self._engine.hasten(connection, changed, decision.timing, decision.cause, now)
        view.started()
        return changed.sentence, existing.id

    def _tell(
        self, connection: sa.Connection, view: StoreView, signal: Signal, machine: Machine, now: float
    ) -> None:
        """What people want to hear of, they want to hear of a machine under treatment too."""
        speaking = self._rules.about(signal.kind, signal.code)
        if speaking and not any(rule.page for _, rule in speaking):
            return
        decision = decide(signal, machine, self._rules, view.of(machine))
        if decision.action == "record":
            tell_once(connection, signal, decision, now)

    def _may_change(self, signal: Signal, machine: Machine, existing: Incident) -> bool:
        """Whether its rule goes further or sooner than the incident: told without asking the store."""
        found = acting_rule(signal, machine, self._rules)
        if found is None:
            return False
        present, (tier, plan, timing) = _course(existing), found
        sooner = hastier(existing.timing, timing) != existing.timing
        return sooner or graver(present, Course(tier, plan)) != present

    def _carry_on(
        self,
        connection: sa.Connection,
        existing: Incident,
        machine: Machine,
        signal: Signal,
        worse: dict[str, Any],
        now: float,
    ) -> Incident:
        if not steps.of_incident(connection, existing.id):  # for what it waited for nothing was done
            begins = worse | {"fault_at": min(signal.seen_at, now)}
            return self._openings.let_in(connection, existing, machine, begins, now)
        changed = self._engine.overtake(connection, existing, worse, now)
        self._ledger.worsen(connection, existing, changed, now)
        return changed


def _less(signal: Signal) -> str:
    """That the driver asks for less than before ends nothing: only a test shows that a GPU is well."""
    return f": the driver only asks for {asks_for(signal)} now, it goes on" if is_lowered(signal) else ""


def _held(machine: Machine, existing: Incident, decision: Decision, folds: str, now: float) -> Judged | Later:
    """A pool that only observes such evidence lets it change nothing; a budget frees some time."""
    if machine.stage_for(decision.tier) == "observe":
        return f"{folds}: {decision.sentence}", existing.id
    return Later(now + ROOM_S)


def _is_graver(existing: Incident, decision: Decision) -> bool:
    present = _course(existing)
    return graver(present, Course(decision.tier, decision.plan)) != present


def _course(incident: Incident) -> Course:
    return Course(incident.tier, incident.plan)


def _worsened(existing: Incident, decision: Decision, signal: Signal) -> dict[str, Any]:
    """What changes in an incident when graver evidence comes: never its tier or its plan for the better."""
    course = graver(_course(existing), Course(decision.tier, decision.plan))
    changes: dict[str, Any] = {"tier": course.tier, "plan": course.plan}
    moves = existing.plan in MOVES_JOBS  # jobs that were given time are told apart, each by itself
    timing = existing.timing if moves else decision.timing
    changes |= {"rule": decision.rule, "cause": decision.cause, "timing": timing}
    changes["sentence"] = f"{decision.sentence}; until now it was only {existing.cause}"
    changes["state"] = "held" if existing.held_by else "open"
    suspected = existing.plan in AFTER_FAILURE  # of a suspicion nobody knows when its fault was
    began_now = suspected or existing.observed  # and what was only observed has cost nobody anything
    return changes | ({"fault_at": signal.seen_at} if began_now else {})
