"""Signals become incidents: asks the inventory, the store and the policy, writes what came of it."""

from __future__ import annotations

from typing import Protocol

import sqlalchemy as sa

from remediator.errors import Retry
from remediator.incidents.correlate import boot_of
from remediator.model.decision import Decision
from remediator.model.ids import incident_id
from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.policy.decide import Situation, decide
from remediator.policy.rules import Rules
from remediator.settings import Budgets
from remediator.store import incidents, signals
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal

log = logger(stage="triage")


class Inventory(Protocol):
    """What the caches know about nodes."""

    def machine(self, name: str) -> Machine | None:
        """The node of exactly this name, or None."""


class Triage:
    """Judges each signal once, in the transaction that also starts what it causes."""

    def __init__(
        self, inventory: Inventory, rules: Rules, budgets: Budgets, engine: Engine, journal: Journal
    ) -> None:
        self._inventory = inventory
        self._rules = rules
        self._budgets = budgets
        self._engine = engine
        self._journal = journal

    def judge(self, connection: sa.Connection, now: float) -> list[str]:
        """Judge what is new; returns one sentence per signal. A fresh signal of an unsettled boot waits."""
        sentences = []
        for row_id, signal in signals.unhandled(connection):
            try:
                with connection.begin_nested():
                    sentence = self._judge_one(connection, row_id, signal, now)
            except Retry:
                raise
            except Exception as error:
                log.exception("a signal could not be judged", dedupe=signal.dedupe)
                text = f"internal error {type(error).__name__}: {signal.node} is left alone, see the log"
                sentence = self._settle(connection, row_id, now, text, None)
            if sentence is not None:
                sentences.append(sentence)
        return sentences

    def reconsider(self, connection: sa.Connection, now: float) -> list[str]:
        """Incidents held before their first step (budget, stage) go on once nothing forbids it."""
        sentences = []
        for incident in incidents.held_at_the_door(connection):
            machine = self._inventory.machine(incident.node)
            evidence = signals.of_incident(connection, incident.id)
            if machine is None or machine.key != incident.key or not evidence:
                continue
            decision = decide(evidence[0], machine, self._rules, self._situation(connection, machine))
            if decision.action == "act":
                admitted = incident.model_copy(update={"sentence": decision.sentence, "state": "open"})
                incidents.update(connection, incident.id, state="open", sentence=decision.sentence)
                self._engine.start(connection, admitted, now)
                sentences.append(decision.sentence)
        return sentences

    def _judge_one(self, connection: sa.Connection, row_id: int, signal: Signal, now: float) -> str | None:
        machine = self._inventory.machine(signal.node)
        boot = boot_of(signal, machine.boot_id, now) if machine else "present"
        if boot == "unsettled":
            return None
        if boot == "older":
            text = f"{signal.kind} {signal.code} on {signal.node} is from an older boot: recorded"
            return self._settle(connection, row_id, now, text, None)
        existing = incidents.open_for(connection, machine.key) if machine else None
        decision = decide(signal, machine, self._rules, self._situation(connection, machine))
        if existing is not None:
            text = f"{signal.kind} {signal.code} on {signal.node} folds into incident {existing.id}"
            return self._settle(connection, row_id, now, text, existing.id)
        if machine is None or decision.action == "record":
            return self._settle(connection, row_id, now, decision.sentence, None)
        incident = self._open(connection, signal, machine, decision, now)
        return self._settle(connection, row_id, now, decision.sentence, incident.id)

    def _open(
        self, connection: sa.Connection, signal: Signal, machine: Machine, decision: Decision, now: float
    ) -> Incident:
        incident = Incident(
            id=incident_id(now),
            key=machine.key,
            node=machine.name,
            node_uid=machine.uid,
            boot_id=machine.boot_id,
            slurm_nodes=machine.slurm_nodes,
            tier=decision.tier,
            rule=decision.rule,
            cause=decision.cause,
            plan=decision.plan,
            state="open" if decision.action == "act" else "held",
            sentence=decision.sentence,
            fault_at=min(signal.seen_at, now),
            opened_at=now,
        )
        incidents.insert(connection, incident)
        detail = {"rule": decision.rule, "policy": decision.policy, "evidence": signal.dedupe}
        self._journal.record(connection, "decision", incident, now, why=decision.sentence, detail=detail)
        if decision.action == "act":
            self._engine.start(connection, incident, now)
        return incident

    def _situation(self, connection: sa.Connection, machine: Machine | None) -> Situation:
        if machine is None:
            return Situation(last_closed=None, running=0, limit=None)
        closed = incidents.last_closed(connection, machine.key)
        limit = self._budgets.concurrent.of(machine.pool_size) if self._budgets.enabled else None
        running = incidents.running_count(connection, "replace")
        return Situation(last_closed=closed.id if closed else None, running=running, limit=limit)

    def _settle(
        self, connection: sa.Connection, row_id: int, now: float, sentence: str, incident: str | None
    ) -> str:
        signals.settle(connection, row_id, now, sentence, incident)
        return sentence
