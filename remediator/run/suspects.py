"""Machines that crashes speak against: which are suspect by now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import sqlalchemy as sa

from remediator.incidents.pointed import pointed_at
from remediator.incidents.strikes import Peers, burdens, few, suspicion
from remediator.model.machine import Machine
from remediator.model.strike import Strike
from remediator.policy.crashes import STORM, STORM_S
from remediator.settings import Crashes as Limits
from remediator.store import incidents, strikes

DAY_S, HOUR_S = 86_400.0, 3600.0
Look = Callable[[str], Machine | None]


def suspected(
    connection: sa.Connection, machines: Sequence[Machine], look: Look, limits: Limits, now: float
) -> list[tuple[Machine, str]]:
    """Those of `machines`, each just struck, that are suspect by now, and why."""
    free = [one for one in machines if one.fenced_by is None and not incidents.in_hand(connection, one.key)]
    found = [(one, why) for one in free if (why := _why(connection, one, look, limits, now))]
    suspects = few(one.key for one, _ in found)
    return [(one, why) for one, why in found if one.key in suspects]


def _why(connection: sa.Connection, machine: Machine, look: Look, limits: Limits, now: float) -> str | None:
    counted = _counted(connection, machine, now - limits.window_days * DAY_S)
    if sum(strike.machine == machine.key for strike in counted) < 2:
        return None
    pointed = pointed_at(machine.key, counted)
    if pointed is not None:
        return pointed
    lately = now - limits.witness_h * HOUR_S
    peers = _peers(connection, machine, look, limits, lately)
    return suspicion(machine.key, counted, peers, lately, limits.witness)


def _counted(connection: sa.Connection, machine: Machine, since: float) -> list[Strike]:
    """Strikes of the window, without what a test of the machine has answered and without storms."""
    closed = incidents.last_closed(connection, machine.key)
    fresh = max(since, closed.closed_at or 0.0) if closed else since
    return _calm(connection, strikes.against(connection, machine.key, since, fresh))


def _peers(connection: sa.Connection, machine: Machine, look: Look, limits: Limits, since: float) -> Peers:
    """What crashes say against the others of its pool, except those that are being treated."""
    known = _calm(connection, strikes.since(connection, since))
    names = {strike.machine: strike.node for strike in known}
    said = burdens(known, limits.witness)

    def is_peer(key: str) -> bool:
        found = look(names[key])
        is_other = found is not None and found.key == key != machine.key and found.pool == machine.pool
        return is_other and not incidents.in_hand(connection, key)

    burden = sum(sum(by.values()) for key, by in said.items() if is_peer(key))
    return Peers(max(machine.pool_size - 1, 0), burden)


def _calm(connection: sa.Connection, known: Iterable[Strike]) -> list[Strike]:
    """Those of no storm: when so many jobs crash at once, something they share is at fault."""
    found = list(known)
    calm = {
        at: strikes.jobs_between(connection, at - STORM_S, at + STORM_S) <= STORM
        for at in {strike.at for strike in found}
    }
    return [strike for strike in found if calm[strike.at]]
