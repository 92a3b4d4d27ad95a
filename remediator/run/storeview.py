"""What a turn's decisions want to know of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import sqlalchemy as sa

from remediator.incidents.memory import Recalled
from remediator.model.faults import SOFT
from remediator.model.incident import Incident, Tier
from remediator.model.machine import TIERS, Machine
from remediator.policy.budgets import Budget, drain_budget
from remediator.policy.decide import Situation
from remediator.run.memory import NO_PAST, Memory, remember
from remediator.settings import MachineLimits
from remediator.store import incidents, life
from remediator.workflow.common_cause import Group
from remediator.workflow.ledger import Ledger

OPEN = "open"
Answer = TypeVar("Answer")


class StoreView:
    """Asked only when it matters, for each budget once, and for no machine that never had an incident."""

    def __init__(
        self, connection: sa.Connection, ledger: Ledger, now: float, *, dry_run: bool = False
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._now = now
        self._dry_run = dry_run
        self._refused: dict[tuple[str | None, Budget], str | None] = {}
        self._groups: list[Group] | None = None
        self._strangers: set[str] = set()
        self._answers: dict[tuple[str, str], Any] = {}
        self._writes = incidents.writes(connection)
        self.openings = 0
        self._since: tuple[float | None] | None = None

    @property
    def limits(self) -> MachineLimits | None:
        """What is remembered of single machines; None when budgets are off."""
        return self._ledger.machine_limits

    def meet(self, machines: Iterable[Machine]) -> None:
        """Two reads for all that are about to be asked about: which of them never had an incident, and those
        that are open.
        """
        keys = {machine.key for machine in machines} - self._strangers
        known = incidents.known(self._connection, keys)
        self._strangers |= keys - known
        found = incidents.open_among(self._connection, known)
        self._known().update({(OPEN, key): found.get(key) for key in known})

    def forget(self) -> None:
        """What was written may have been taken back: everything is read anew."""
        self._refused, self._groups, self._answers = {}, None, {}

    def opened(self, incident: Incident, *, grouped: bool) -> None:
        """This incident is open from now on, which may have made a group of many."""
        self._strangers.discard(incident.key)
        self._known()[OPEN, incident.key] = incident
        self.openings += 1
        self.started(grouped=grouped)

    def started(self, *, grouped: bool = True) -> None:
        """Another node is sick from now on: what was free may be used up; what was refused still is."""
        self._refused = {key: why for key, why in self._refused.items() if why is not None}
        if grouped:
            self._groups = None

    def of(self, machine: Machine | None, since: float | None = None) -> Situation:
        """The situation of one machine, with an incident on the books `since` then."""
        pool = machine.pool if machine else None
        return Situation(
            last_closed=self._closed_id(machine) if machine and machine.fenced_by else None,
            refuse=lambda tier: self.refused(pool, tier),
            grouped=lambda rule: self.grouped(machine, rule),
            settles=lambda kind: self._settles(kind, self._now if since is None else since),
            recall=lambda rule, tier, plan: self.recalled(machine, rule, tier, plan),
            dry_run=self._dry_run,
        )

    def open_for(self, machine: Machine) -> Incident | None:
        """The machine's open incident."""
        return None if self._is_stranger(machine) else self._asked(OPEN, incidents.open_for, machine)

    def last_closed(self, machine: Machine) -> Incident | None:
        """The machine's newest incident that has ended."""
        return None if self._is_stranger(machine) else self._asked("closed", incidents.last_closed, machine)

    def last_return(self, machine: Machine) -> Incident | None:
        """The machine's newest return to service."""
        return None if self._is_stranger(machine) else self._asked("return", incidents.last_return, machine)

    def watching_since(self) -> float | None:
        """When the service first watched."""
        if self._since is None:
            self._since = (life.watching_since(self._connection),)
        return self._since[0]

    def recalled(self, machine: Machine | None, rule: str, tier: Tier, plan: str) -> Recalled | None:
        """What the machine's past changes about a decision."""
        limits = self._ledger.machine_limits
        if machine is None or limits is None:
            return None
        memory = NO_PAST if self._is_stranger(machine) else self._asked("past", self._past, machine)
        return memory.recall(rule, tier, plan, limits, self._now)

    def groups(self) -> list[Group]:
        """Groups of nodes with one fault that stand."""
        if self._groups is None:
            self._groups = self._ledger.groups(self._connection)
        return self._groups

    def grouped(self, machine: Machine | None, rule: str) -> str | None:
        """Why nothing but a T0 drain is done for this rule: it is on many machines that share something."""
        groups = self.groups()
        return self._ledger.grouped(groups, rule, machine) if machine and groups else None

    def _settles(self, kind: str, since: float) -> str | None:
        """Why a soft fault does not act yet: it holds for as long as nodes may take to be seen as a group."""
        lasts = self._ledger.group_s
        if kind not in SOFT or self._now >= since + lasts:
            return None
        return f"acts if it holds for {lasts / 60:g} min: where the cooling fails, other nodes follow by then"

    def refused(self, pool: str | None, tier: Tier) -> str | None:
        """Why no other node of this pool may be drained for evidence of this tier."""
        key = (pool, drain_budget(tier))
        if key not in self._refused:
            asked = self._ledger.drain_refused(self._connection, pool, tier, self._now) if pool else None
            self._refused[key] = asked
        return self._refused[key]

    def stays_out(self, machine: Machine) -> bool:
        """Whether no evidence could let the machine in now; asked of each that is held, in every turn."""
        return all(self.refused(machine.pool, tier) for tier in TIERS if machine.stage_for(tier) != "observe")

    def _asked(self, what: str, ask: Callable[[sa.Connection, str], Answer], machine: Machine) -> Answer:
        """What the store says of a machine's incidents, which are the same until one is written."""
        known = self._known()
        if (what, machine.key) not in known:
            known[what, machine.key] = ask(self._connection, machine.key)
        answer: Answer = known[what, machine.key]
        return answer

    def _known(self) -> dict[tuple[str, str], Any]:
        writes = incidents.writes(self._connection)
        if writes != self._writes:
            self._answers, self._writes = {}, writes
        return self._answers

    def _past(self, connection: sa.Connection, key: str) -> Memory:
        limits = self._ledger.machine_limits
        return remember(connection, key, limits, self._now) if limits else NO_PAST

    def _is_stranger(self, machine: Machine) -> bool:
        return machine.key in self._strangers

    def _closed_id(self, machine: Machine) -> str | None:
        closed = self.last_closed(machine)
        return closed.id if closed and closed.state == "closed" else None
