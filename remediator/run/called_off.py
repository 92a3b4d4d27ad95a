"""A threshold has passed before any job was asked to leave: the incident ends, and its node is given back if
it was taken out.
"""

from __future__ import annotations

import sqlalchemy as sa

from remediator.model.faults import ASKED_AGAIN
from remediator.model.incident import Incident
from remediator.model.machine import Machine
from remediator.model.signal import Signal
from remediator.policy.decide import MOVES_JOBS
from remediator.run.openings import Inventory
from remediator.signals.answers import PASSED
from remediator.store import incidents, signals, steps
from remediator.workflow.ending import end
from remediator.workflow.engine import Engine
from remediator.workflow.journal import Journal

CONDITIONS = frozenset({"drain-slurm", "fence-node"})
"""Steps that interrupt nobody, and can be taken back."""


def judge(
    connection: sa.Connection,
    engine: Engine,
    journal: Journal,
    inventory: Inventory,
    signal: Signal,
    now: float,
) -> tuple[str, str | None] | None:
    """What became of Prometheus' word that a threshold has passed; None while drain or fence is being set."""
    says = str(signal.detail.get("says"))
    machine = inventory.machine(signal.node)
    incident = incidents.open_for(connection, machine.key) if machine else None
    if machine is None or incident is None or not _may_be_called_off(connection, incident):
        return says, None
    if not _all_passed(connection, incident, machine):
        return says, None
    rows = steps.of_incident(connection, incident.id)
    if not rows:
        end(connection, journal, incident, f"{says.removesuffix(': recorded')}; nothing was done", now)
        return f"{says}; incident {incident.id} ends with it", incident.id
    if any(row.name in CONDITIONS and row.state != "done" for row in rows):
        return None
    engine.call_off(connection, incident, says.removesuffix(": recorded"), now)
    return f"{says}; incident {incident.id} is called off", incident.id


def _may_be_called_off(connection: sa.Connection, incident: Incident) -> bool:
    """Whether none of its node's jobs has been asked to leave: it is out of service, or waits at the door."""
    if incident.plan not in MOVES_JOBS or incident.dry_run or incident.held_by or not incident.goes_on:
        return False
    rows = steps.of_incident(connection, incident.id)
    acted = {row.name for row in rows if row.acted_at is not None}
    return acted <= CONDITIONS if acted else not rows and not incident.observed


def _all_passed(connection: sa.Connection, incident: Incident, machine: Machine) -> bool:
    """Whether nothing but thresholds spoke against the machine, and each has passed since."""
    against = signals.of_incident(connection, incident.id)
    since = min((one.seen_at for one in against), default=incident.opened_at)
    passed = {
        str(one.detail.get("episode")): one.received_at
        for one in signals.of_node(connection, machine.name, since)
        if one.kind == PASSED
    }
    return bool(against) and all(
        one.kind in ASKED_AGAIN and passed.get(str(one.detail.get("episode")), 0.0) >= one.received_at
        for one in against
    )
