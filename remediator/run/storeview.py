"""What a turn's decisions want to know of the store."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.model.incident import Tier
from remediator.model.machine import TIERS, Machine
from remediator.policy.budgets import Budget, drain_budget
from remediator.policy.decide import Situation
from remediator.store import incidents
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

    def started(self) -> None:
        """Another node is sick from now on: what was known of budgets is not true any more."""
        self._refused.clear()

    def of(self, machine: Machine | None) -> Situation:
        """The situation of one machine."""
        pool = machine.pool if machine else None
        return Situation(
            last_closed=self._last_closed(machine) if machine and machine.fenced_by else None,
            refuse=lambda tier: self.refused(pool, tier),
            dry_run=self._dry_run,
        )

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
