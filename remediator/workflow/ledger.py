"""Draws on budgets in the transaction that commits to the work; a limit that is off costs no query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import sqlalchemy as sa

from remediator.model.decision import Decision
from remediator.model.incident import Incident, Tier
from remediator.model.machine import Machine
from remediator.model.plan import StepRow, StepState
from remediator.policy.budgets import HOUR_S, Budget, Debit, drain_budget, refusal
from remediator.settings import Budgets, MachineLimits
from remediator.store import debits
from remediator.store.within import Within
from remediator.workflow.breakers import Breakers
from remediator.workflow.common_cause import CommonCause, Group, Machines
from remediator.workflow.journal import Journal

GUARDED: dict[str, Budget] = {
    "hold-place": "release",
    "release-jobs": "release",
    "claim-spare": "replace",
    "force-down": "evict",
    "evict-pods": "evict",
}
"""Steps that draw on a budget, once per incident, before their first INTENT."""
DRAWS_FIRST = frozenset({"claim-spare"})
"""Steps whose very look takes something, a spare: they draw before it; the others once
they want to act. Held before it ever acted, by a veto say, such a step uses nothing."""
UNKNOWN_SIZE = 1_000_000  # of what nobody counts, no part is many
UNBREAKABLE: frozenset[Budget] = frozenset({"drain_t0"})
"""Budgets that no breaker closes: a known-bad node must not take jobs."""
# A debit is in use until these are done; every drain and replacement until the incident is closed.
UNTIL: dict[Budget, tuple[str, ...]] = {
    "drain_t0": ("close",),
    "drain": ("close",),
    "release": ("hold-place", "release-jobs", "start-jobs", "prove-resume"),
    "evict": ("force-down", "evict-pods"),
    "replace": ("close",),
}


class Ledger:
    """The budgets and breakers of all pools; `pool_size` is asked how many nodes a pool has. One without a
    journal can only be asked.
    """

    def __init__(
        self,
        budgets: Budgets,
        pool_size: Callable[[str], int],
        journal: Journal | None = None,
        share_size: Callable[[str, str], int] | None = None,
    ) -> None:
        self._budgets = budgets
        self._pool_size = pool_size
        self._breakers = Breakers(budgets.breaker, pool_size, journal)
        sizes = share_size or (lambda kind, name: pool_size(name) if kind == "pool" else UNKNOWN_SIZE)
        self._causes = CommonCause(budgets.guard, sizes, journal)
        # What one transaction has read of the debits and added to them: a storm draws hundreds of times.
        self._book: Within[dict[tuple[str, Budget], list[Debit]]] = Within(dict)

    def changed(self) -> None:
        """Steps or incidents have ended, or something was taken back: what was read or written before in this
        transaction counts no more.
        """
        self._book.forget()
        self._breakers.forget()
        self._causes.forget()

    def fell_ill(self, connection: sa.Connection, incident: Incident, now: float) -> None:
        """A node was found sick, which may open its pool's breaker."""
        if self._budgets.enabled:
            told = partial(self.is_grouped, connection, incident)
            self._breakers.fell_ill(connection, incident, now, told=told)

    @property
    def machine_limits(self) -> MachineLimits | None:
        """What is remembered of single machines; None when budgets are off."""
        return self._budgets.machine if self._budgets.enabled else None

    @property
    def group_s(self) -> float:
        """Seconds within which nodes that fall ill make a group; 0 when budgets are off."""
        return self._budgets.guard.window_s if self._budgets.enabled else 0.0

    def sighted(
        self,
        connection: sa.Connection,
        groups: Iterable[Group],
        machine: Machine,
        decision: Decision,
        at: float,
        now: float,
    ) -> bool:
        """A machine shows a fault that would act, while these `groups` stand; True when one came of it."""
        if not self._budgets.enabled:
            return False
        return self._causes.sighted(connection, groups, machine, decision.rule, decision.tier, at, now)

    def groups(self, connection: sa.Connection) -> list[Group]:
        """Groups of nodes with one fault that stand now."""
        return self._causes.standing(connection) if self._budgets.enabled else []

    def grouped(self, groups: list[Group], rule: str, machine: Machine) -> str | None:
        """Why nothing but a T0 drain is done for this rule on this machine; None when something may."""
        return self._causes.over(groups, rule, machine.shares)

    def is_grouped(self, connection: sa.Connection, incident: Incident) -> bool:
        """Whether people have been paged for its group, and need no page of its own."""
        return self._budgets.enabled and self._causes.refusal(connection, incident) is not None

    def look_at_groups(self, connection: sa.Connection, machine: Machines, now: float) -> None:
        """End the groups that have passed."""
        if self._budgets.enabled:
            self._causes.look(connection, machine, now)

    def drain_refused(self, connection: sa.Connection, pool: str, tier: Tier, now: float) -> str | None:
        """Why no other node of this pool and tier may be drained now; None when one may."""
        return self.refused(connection, pool, drain_budget(tier), now)

    def refused(self, connection: sa.Connection, pool: str, budget: Budget, now: float) -> str | None:
        """Why no other node of this pool may draw on this budget now; None when one may."""
        if not self._budgets.enabled:
            return None
        return self._broken(connection, pool, budget, "", now) or self._refusal(
            budget, pool, self._standing(connection, pool, budget, now), now
        )

    def drain(self, connection: sa.Connection, incident: Incident, now: float) -> None:
        """Debit the drain of an incident that goes ahead."""
        if self._budgets.enabled:
            self._debit(connection, incident, drain_budget(incident.tier), "admit", now)

    def worsen(self, connection: sa.Connection, before: Incident, after: Incident, now: float) -> None:
        """Debit a drain that stands already once more when its evidence now draws on another budget."""
        if drain_budget(before.tier) != drain_budget(after.tier) and not after.dry_run:
            self.drain(connection, after, now)

    def draw(self, connection: sa.Connection, incident: Incident, row: StepRow, now: float) -> str | None:
        """Debit what this step needs, unless its incident did already; a sentence when it has to wait."""
        budget = self.needed(row)
        if budget is None or incident.dry_run:
            return None
        grouped = self._causes.refusal(connection, incident)
        if grouped is not None:
            return grouped
        standing = self._standing(connection, incident.pool, budget, now)
        mine = next((debit for debit in standing if debit.incident == incident.id), None)
        if mine is not None and mine.in_use:
            return None
        others = [debit for debit in standing if debit is not mine]
        refused = self._broken(connection, incident.pool, budget, incident.id, now) or self._refusal(
            budget, incident.pool, others, now
        )
        if refused is None and mine is None:
            self._debit(connection, incident, budget, row.name, now)
        return refused

    def needed(self, row: StepRow) -> Budget | None:
        """The budget a step has to draw on before it is handed out; None once it has."""
        if row.acted_at is not None:
            return None
        asks = row.state == "pending" or row.name in DRAWS_FIRST or is_waiting(row)
        return self.budget_of(row) if asks else None

    def budget_of(self, row: StepRow) -> Budget | None:
        """The budget a step is debited to, if it is and budgets are on."""
        return GUARDED.get(row.name) if self._budgets.enabled else None

    def _debit(
        self, connection: sa.Connection, incident: Incident, budget: Budget, step: str, now: float
    ) -> None:
        if budget not in UNBREAKABLE:
            self._breakers.admitted(connection, incident, now)
        debits.add(connection, incident.id, budget, incident.pool, step, now)
        known = self._book(connection).get((incident.pool, budget))
        if known is not None:
            known.append(Debit(incident.id, incident.node, now, True))

    def _broken(
        self, connection: sa.Connection, pool: str, budget: Budget, incident: str, now: float
    ) -> str | None:
        if budget in UNBREAKABLE:
            return None
        return self._breakers.refusal(connection, pool, incident, now)

    def _standing(self, connection: sa.Connection, pool: str, budget: Budget, now: float) -> list[Debit]:
        book = self._book(connection)
        if (pool, budget) not in book:
            book[pool, budget] = self._read(connection, pool, budget, now)
        return book[pool, budget]

    def _read(self, connection: sa.Connection, pool: str, budget: Budget, now: float) -> list[Debit]:
        # A spare that may not be claimed yet frees the budget of spares; its machine is drained even so.
        first = [step for step in DRAWS_FIRST if GUARDED[step] == budget]
        rows = debits.standing(connection, pool, budget, first=first, until=UNTIL[budget], since=now - HOUR_S)
        return [Debit(row.incident, row.node, row.at, bool(row.in_use)) for row in rows]

    def _refusal(self, budget: Budget, pool: str, standing: list[Debit], now: float) -> str | None:
        return refusal(budget, pool, self._budgets, self._pool_size(pool), standing, now)


UNLIMITED = Ledger(Budgets(enabled=False), lambda _pool: 0)


def is_waiting(row: StepRow) -> bool:
    """Whether the step is held because a budget is used up."""
    return row.state == "held" and "budget" in row.facts


def waiting(row: StepRow) -> StepRow:
    """The step marked as waiting for its budget."""
    return replace(row, facts=row.facts | {"budget": GUARDED[row.name]})


def resumed(row: StepRow, now: float) -> StepRow:
    """A step that waited for its budget is as good as new, and so is its clock; others are as they were."""
    if not is_waiting(row):
        return row
    state: StepState = "waiting" if row.name in DRAWS_FIRST else "pending"
    facts = {name: value for name, value in row.facts.items() if name != "budget"}
    return replace(row, state=state, started_at=now, facts=facts)
