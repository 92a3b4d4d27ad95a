"""What a turn's decisions want to know of the store."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.incidents.memory import Recalled
from remediator.model.incident import Tier
from remediator.model.machine import TIERS, Machine
from remediator.policy.budgets import Budget, drain_budget
from remediator.policy.decide import Situation
from remediator.run.memory import remember
from remediator.store import incidents
from remediator.workflow.common_cause import Group
from remediator.workflow.ledger import Ledger


class StoreView:
    """Asked only when it matters, and for each budget once."""

    def __init__(
        self, connection: sa.Connection, ledger: Ledger, now: float, *, dry_run: bool = False
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._now = now
        self._dry_run = dry_run
        self._refused: dict[tuple[str | None, Budget], str | None] = {}
        self._groups: list[Group] | None = None

    def started(self) -> None:
        """Another node is sick from now on: what was known of budgets is not true any more."""
        self._refused.clear()
        self._groups = None

    def of(self, machine: Machine | None) -> Situation:
        """The situation of one machine."""
        pool = machine.pool if machine else None
        return Situation(
            last_closed=self._last_closed(machine) if machine and machine.fenced_by else None,
            refuse=lambda tier: self.refused(pool, tier),
            grouped=lambda rule: self.grouped(machine, rule),
            recall=lambda rule, tier, plan: self.recalled(machine, rule, tier, plan),
            dry_run=self._dry_run,
        )

    def recalled(self, machine: Machine | None, rule: str, tier: Tier, plan: str) -> Recalled | None:
        """What the machine's past changes about a decision."""
        limits = self._ledger.machine_limits
        if machine is None or limits is None:
            return None
        memory = remember(self._connection, machine.key, limits, self._now)
        return memory.recall(rule, tier, plan, limits, self._now)

    def grouped(self, machine: Machine | None, rule: str) -> str | None:
        """Why nothing but a T0 drain is done for this rule: it is on many machines that share something."""
        if self._groups is None:
            self._groups = self._ledger.groups(self._connection)
        return self._ledger.grouped(self._groups, rule, machine) if machine and self._groups else None

    def refused(self, pool: str | None, tier: Tier) -> str | None:
        """Why no other node of this pool may be drained for evidence of this tier."""
        key = (pool, drain_budget(tier))
        if key not in self._refused:
            asked = self._ledger.drain_refused(self._connection, pool, tier, self._now) if pool else None
            self._refused[key] = asked
        return self._refused[key]

    def stays_out(self, machine: Machine) -> bool:
        """Whether no evidence could let the machine in now; asked of each that is held, in every turn."""
        acting = [tier for tier in TIERS if machine.stage_for(tier) != "observe"]
        return all(self.refused(machine.pool, tier) for tier in acting)

    def _last_closed(self, machine: Machine) -> str | None:
        closed = incidents.last_closed(self._connection, machine.key)
        return closed.id if closed and closed.state == "closed" else None
