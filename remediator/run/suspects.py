"""Machines that crashes speak against: which are suspect by now."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from remediator.incidents.strikes import few, suspicion
from remediator.model.machine import Machine
from remediator.model.strike import Strike
from remediator.policy.crashes import STORM, STORM_S
from remediator.store import incidents, strikes

DAY_S = 86_400.0


def suspected(
    connection: sa.Connection, machines: Sequence[Machine], window_days: float, now: float
) -> list[tuple[Machine, str]]:
    """Those of `machines`, each just struck, that are suspect by now, and why."""
    found = {}
    for machine in machines:
        if machine.fenced_by is None and incidents.open_for(connection, machine.key) is None:
            counted = _counted(connection, machine, now - window_days * DAY_S)
            why = suspicion(machine.key, counted)
            if why is not None:
                found[machine.key] = (machine, why)
    return [found[key] for key in few(found)]


def _counted(connection: sa.Connection, machine: Machine, since: float) -> list[Strike]:
    """Strikes of the window, without what a test of the machine has answered and without storms."""
    closed = incidents.last_closed(connection, machine.key)
    fresh = max(since, closed.closed_at or 0.0) if closed else since
    known = strikes.against(connection, machine.key, since, fresh)
    calm = {
        at: strikes.jobs_between(connection, at - STORM_S, at + STORM_S) <= STORM
        for at in {strike.at for strike in known}
    }
    return [strike for strike in known if calm[strike.at]]
