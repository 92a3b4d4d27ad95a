"""Opens incidents, and lets those start that had to wait at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa

from remediator.incidents.correlate import boot_of
from remediator.incidents.evidence import has_passed
from remediator.incidents.ladder import Course, how_grave
from remediator.model.decision import Decision
from remediator.model.ids import incident_id
from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.model.timing import hastier
from remediator.policy.decide import STRIKES, decide, suspect
from remediator.policy.rules import Rules
from remediator.run.storeview import StoreView
from remediator.run.weighing import witnessed
from remediator.signals.drains import DRAIN
from remediator.store import incidents, signals
from remediator.workflow import notices
from remediator.workflow.ending import end
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal
from remediator.workflow.ledger import Ledger


class Inventory(Protocol):
    """What the caches know about nodes."""

    def machine(self, name: str) -> Machine | None:
        """The node of exactly this name, or None."""


def quoting(signal: Signal, decision: Decision) -> Decision:
    """The decision with the words of whoever drained the node, if the signal is about that."""
    if signal.kind != DRAIN:
        return decision
    return decision.model_copy(update={"sentence": f"{decision.sentence}; {signal.detail.get('says')}"})


@dataclass(frozen=True, slots=True)
class Admission:
    """What lets an incident begin that waited at the door, and since when that fault is there."""

    decision: Decision
    fault_at: float

    def how_grave(self) -> tuple[int, int]:
        """What to order them by, the gravest last."""
        return how_grave(Course(self.decision.tier, self.decision.plan))


class Openings:
    """Everything that makes a decision an incident, in the transaction of its signals' verdicts."""

    def __init__(
        self, inventory: Inventory, rules: Rules, ledger: Ledger, engine: Engine, journal: Journal
    ) -> None:
        self._inventory = inventory
        self._rules = rules
        self._ledger = ledger
        self._engine = engine
        self._journal = journal

    def open(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine,
        decision: Decision,
        now: float,
        followed_by: Sequence[Signal] = (),
    ) -> Incident:
        """Put an incident on the books, with its budgets and its record; its steps too when it may act."""
        incident = Incident(
            id=incident_id(now),
            key=machine.key,
            node=machine.name,
            node_uid=machine.uid,
            boot_id=machine.boot_id,
            slurm_nodes=machine.slurm_nodes,
            pool=machine.pool or "",
            tier=decision.tier,
            rule=decision.rule,
            cause=decision.cause,
            plan=decision.plan,
            state="open" if decision.action == "act" else "held",
            sentence=decision.sentence,
            fault_at=min(signal.seen_at, now),
            opened_at=now,
            timing=decision.timing,
            observed=decision.reason == "observed",
        )
        incidents.insert(connection, incident)
        grouped = False
        if not self._engine.dry_run:
            self._fell_ill(connection, incident, now)
            grouped = self._ledger.sighted(
                connection, view.groups(), machine, decision, signal.received_at, now
            )
        view.opened(incident, grouped=grouped)
        detail: dict[str, Any] = decision.model_dump(include={"rule", "plan", "policy", "timing"})
        detail["evidence"] = signal.dedupe
        if followed_by:
            detail["followed_by"] = [one.dedupe for one in followed_by]
        if machine.reports:
            detail["reports"] = "; ".join(machine.reports)
        self._journal.record(connection, "decision", incident, now, why=decision.sentence, detail=detail)
        if decision.page:
            page = notices.look(f"incident {incident.id}: {decision.sentence}")
            notices.post(connection, incident, page, now)
        if decision.action == "act":
            self._start(connection, incident, now)
        return incident

    def _fell_ill(self, connection: sa.Connection, incident: Incident, now: float) -> None:
        if not incident.observed:
            self._ledger.fell_ill(connection, incident, now)

    def _start(self, connection: sa.Connection, incident: Incident, now: float) -> None:
        if not self._engine.dry_run:
            self._ledger.drain(connection, incident, now)
        self._engine.start(connection, incident, now)

    def suspect(
        self,
        connection: sa.Connection,
        view: StoreView,
        signal: Signal,
        machine: Machine,
        decision: Decision,
        now: float,
    ) -> Incident:
        """An incident for a machine that crashes speak against; it may be one in which it was only observed
        until now.
        """
        seen = incidents.open_for(connection, machine.key)
        if seen is None:
            return self.open(connection, view, signal, machine, decision, now)
        if decision.action != "act":
            return seen
        changes = decision.model_dump(include={"tier", "rule", "cause", "plan", "sentence", "timing"})
        changes |= {"state": "open", "fault_at": min(signal.seen_at, now)}
        detail = {"rule": decision.rule, "plan": decision.plan, "evidence": signal.dedupe}
        self._journal.record(connection, "decision", seen, now, why=decision.sentence, detail=detail)
        view.started()
        return self.let_in(connection, seen, machine, changes, now)

    def drain_over(self, connection: sa.Connection, signal: Signal, now: float) -> tuple[str, str | None]:
        """Whoever lifted a drain has decided: an incident on it alone that waits at the door ends."""
        says = str(signal.detail.get("says"))
        for held in incidents.held_at_the_door(connection):
            incident = incidents.get(connection, held.id)
            evidence = [one.dedupe for one in signals.of_incident(connection, held.id)]
            if incident is not None and evidence == [signal.detail.get("drain")]:
                end(connection, self._journal, incident, says, now)
                return f"{says}: incident {held.id} ends with it", held.id
        return f"{says}: recorded", None

    def reconsider(
        self, connection: sa.Connection, now: float, among: frozenset[str] | None = None
    ) -> list[str]:
        """Incidents held before their first step (budget, stage) go on once nothing forbids it; of those that
        are `among` these, or of all.
        """
        sentences = []
        if among is None:
            self._ledger.look_at_groups(connection, self._inventory.machine, now)
        view = StoreView(connection, self._ledger, now, dry_run=self._engine.dry_run)
        for held in incidents.held_at_the_door(connection, among):
            machine = None if held.held_by else self._inventory.machine(held.node)
            if machine is None or machine.key != held.key or view.stays_out(machine):
                continue
            incident = incidents.get(connection, held.id)
            if incident is None:
                continue
            admission = self._admission(connection, view, incident, machine, now)
            if admission is not None:
                self._admit(connection, incident, machine, admission, now)
                view.started()
                sentences.append(admission.decision.sentence)
        return sentences

    def _admission(
        self, connection: sa.Connection, view: StoreView, incident: Incident, machine: Machine, now: float
    ) -> Admission | None:
        """The gravest decision to act on evidence of the machine's present boot."""
        if incident.rule == STRIKES:
            why = incident.cause.partition(": ")[2]
            decision = suspect(machine, why, self._rules, view.of(machine))
            return Admission(decision, incident.fault_at) if decision.action == "act" else None
        standing = (
            signal
            for signal in signals.of_incident(connection, incident.id)
            if boot_of(signal, machine.boot_id, now) == "present" and not has_passed(signal, now)
        )
        situation = view.of(machine, incident.opened_at)
        decided = [(one, decide(one, machine, self._rules, situation)) for one in standing]
        acting = [  # what has only folded in may have too weak a witness to let anybody in
            Admission(decision, incident.fault_at if decision.rule == incident.rule else signal.seen_at)
            for signal, decision in decided
            if decision.action == "act" and witnessed(connection, signal, machine, decision, now).enough
        ]
        return max(acting, key=Admission.how_grave, default=None)

    def _admit(
        self,
        connection: sa.Connection,
        incident: Incident,
        machine: Machine,
        admission: Admission,
        now: float,
    ) -> None:
        decision = admission.decision
        changes = decision.model_dump(include={"tier", "rule", "cause", "plan", "sentence"})
        changes["fault_at"] = min(admission.fault_at, now)
        changes |= {"timing": hastier(incident.timing, decision.timing), "state": "open"}
        self.let_in(connection, incident, machine, changes, now)

    def let_in(
        self,
        connection: sa.Connection,
        incident: Incident,
        machine: Machine,
        changes: dict[str, Any],
        now: float,
    ) -> Incident:
        """Begin what waited at the door: what is decided now counts, and so do the machine's boot and workers
        of now. One that was only observed is a sick node from now on.
        """
        changes = changes | {"boot_id": machine.boot_id, "slurm_nodes": machine.slurm_nodes}
        if incident.observed:
            changes |= {"observed": False, "opened_at": now}
        incidents.update(connection, incident.id, **changes)
        begun = incident.model_copy(update=changes)
        if incident.observed and not self._engine.dry_run:
            self._fell_ill(connection, begun, now)
        self._start(connection, begun, now)
        return begun
