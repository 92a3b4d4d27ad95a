"""Budgets: how many nodes of a pool one kind of work may be on at once, and how many in an hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from remediator.clock import rfc3339
from remediator.model.incident import Tier
from remediator.settings import Budgets, Limit

Budget = Literal["drain_t0", "drain", "release", "evict", "replace"]
HOUR_S = 3600.0
NAMED = 3  # holders that a sentence names
FREES = {
    "drain_t0": "is closed",
    "drain": "is closed",
    "release": "has its jobs back",
    "evict": "is empty",
    "replace": "is closed",
}


@dataclass(frozen=True, slots=True)
class Debit:
    """One node's draw on a budget: by which incident, when, and whether the work is still going on."""

    incident: str
    node: str
    at: float
    in_use: bool


def drain_budget(tier: Tier) -> Budget:
    """Which budget a drain draws on: T0 has its own, so that a known-bad node never takes jobs."""
    return "drain_t0" if tier == "T0" else "drain"


def refusal(
    budget: Budget, pool: str, settings: Budgets, pool_size: int, debits: Iterable[Debit], now: float
) -> str | None:
    """Why one more node has to wait: budget, limit, and when it frees; None when there is room.

    `debits` are all that are in use or less than an hour old.
    """
    known = sorted(debits, key=lambda debit: debit.at)
    limit: Limit = getattr(settings, budget)
    used = [debit for debit in known if debit.in_use]
    at_once = limit.of(pool_size)
    head = f"budget {budget} of pool {pool} is used up"
    if len(used) >= at_once:
        return f"{head}: {at_once} at once, {_holders(used)}; goes on when one of them {FREES[budget]}"
    recent = [debit.at for debit in known if debit.at > now - HOUR_S]
    if limit.per_hour is not None and len(recent) >= limit.per_hour:
        frees = rfc3339(recent[-limit.per_hour] + HOUR_S)
        return f"{head}: {limit.per_hour} an hour; goes on at {frees}"
    return None


def _holders(used: Sequence[Debit]) -> str:
    named = [f"{debit.node} (incident {debit.incident})" for debit in used[:NAMED]]
    more = [f"{len(used) - NAMED} more"] if len(used) > NAMED else []
    return ", ".join(named + more)
