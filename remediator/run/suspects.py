"""Machines that crashes speak against: which are suspect by now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import sqlalchemy as sa

from remediator.incidents.pointed import pointed_at
from remediator.incidents.strikes import Peers, burdens, few, repeats, suspicion
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
    lately = Lately(connection, look, limits, now)
    found = [(one, why) for one in free if (why := _why(connection, one, lately, limits, now))]
    suspects = few(one.key for one, _ in found)
    return [(one, why) for one, why in found if one.key in suspects]


class Lately:
    """What crashed within `witness_h`, wherever; read when it is first asked for, once for all machines."""

    def __init__(self, connection: sa.Connection, look: Look, limits: Limits, now: float) -> None:
        self._connection = connection
        self._look = look
        self._limits = limits
        self.since = now - limits.witness_h * HOUR_S

    def peers(self, machine: Machine) -> Peers:
        """What crashes say against the others of its pool, except those that are being treated."""
        others = {key for key in self._places if self._places[key] == machine.pool} - {machine.key}
        burden = sum(sum(self._burdens.get(key, {}).values()) for key in others)
        again = sum(machine.key not in common and bool(self._where[job] & others)
                    for job, common in self._repeats.items())  # fmt: skip
        return Peers(max(machine.pool_size - 1, 0), burden, again)

    @cached_property
    def _known(self) -> list[Strike]:
        return _calm(self._connection, strikes.since(self._connection, self.since))

    @cached_property
    def _burdens(self) -> dict[str, dict[str, float]]:
        return burdens(self._known, self._limits.witness)

    @cached_property
    def _repeats(self) -> dict[str, frozenset[str]]:
        return repeats(self._known)

    @cached_property
    def _where(self) -> dict[str, set[str]]:
        """The machines that each job struck."""
        found: dict[str, set[str]] = defaultdict(set)
        for strike in self._known:
            found[strike.job].add(strike.machine)
        return found

    @cached_property
    def _places(self) -> dict[str, str | None]:
        """The pool of each machine that was struck and is still there, under no treatment."""
        names = {strike.machine: strike.node for strike in self._known}
        found = {key: self._look(name) for key, name in names.items()}
        return {
            key: machine.pool
            for key, machine in found.items()
            if machine is not None and machine.key == key and not incidents.in_hand(self._connection, key)
        }


def _why(
    connection: sa.Connection, machine: Machine, lately: Lately, limits: Limits, now: float
) -> str | None:
    counted = _counted(connection, machine, now - limits.window_days * DAY_S)
    if sum(strike.machine == machine.key for strike in counted) < 2:
        return None
    pointed = pointed_at(machine.key, counted)
    if pointed is not None:
        return pointed
    return suspicion(machine.key, counted, lately.peers(machine), lately.since, limits.witness)


def _counted(connection: sa.Connection, machine: Machine, since: float) -> list[Strike]:
    """Strikes of the window, without what a test of the machine has answered and without storms."""
    closed = incidents.last_closed(connection, machine.key)
    fresh = max(since, closed.closed_at or 0.0) if closed else since
    return _calm(connection, strikes.against(connection, machine.key, since, fresh))


def _calm(connection: sa.Connection, known: Iterable[Strike]) -> list[Strike]:
    """Those of no storm: when so many jobs crash at once, something they share is at fault."""
    found = list(known)
    calm = {
        at: strikes.jobs_between(connection, at - STORM_S, at + STORM_S) <= STORM
        for at in {strike.at for strike in found}
    }
    return [strike for strike in found if calm[strike.at]]
