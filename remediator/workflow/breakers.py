"""The breakers of all pools: asked before a draw on a budget, moved in the transaction that draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from remediator.clock import rfc3339
from remediator.model.incident import Incident
from remediator.policy.breaker import Breaker, Fate, admits, chosen, moved
from remediator.settings import BreakerSettings
from remediator.store import breakers, incidents
from remediator.store.within import Within
from remediator.workflow import notices
from remediator.workflow.journal import Journal


@dataclass(frozen=True)
class _Seen:
    """A breaker as it is on the books and as it stands now, and the newly sick nodes that moved it."""

    saved: Breaker
    now: Breaker
    sick: list[float]
    limit: int


class Breakers:
    """Everything happens on the caller's connection; without a journal they can only be asked."""

    def __init__(
        self, settings: BreakerSettings, pool_size: Callable[[str], int], journal: Journal | None
    ) -> None:
        self._settings = settings
        self._pool_size = pool_size
        self._journal = journal
        self._known: Within[dict[str, Breaker]] = Within(dict)

    def forget(self) -> None:
        """What this transaction has written may have been taken back."""
        self._known.forget()

    def refusal(self, connection: sa.Connection, pool: str, incident: str, now: float) -> str | None:
        """Why this incident has to wait: the breaker, its limit, and when it frees. Changes nothing."""
        seen = self._seen(connection, pool, now)
        if seen is None or admits(seen.now, incident):
            return None
        if seen.now.state == "half-open":
            canary = f"incident {seen.now.canary}"
            return f"breaker of pool {pool} is half-open: one node first; goes on when {canary} is closed"
        return f"breaker of pool {pool} is open: {self._why(seen)}"

    def admitted(self, connection: sa.Connection, incident: Incident, now: float) -> None:
        """The incident goes on: what the breaker has become by that is on the books."""
        seen = self._seen(connection, incident.pool, now)
        if seen is not None:
            after = chosen(seen.now, incident.id)
            if after != seen.saved:
                self._save(connection, incident, after, f"incident {incident.id} on {incident.node}", now)

    def fell_ill(
        self, connection: sa.Connection, incident: Incident, now: float, *, told: Callable[[], bool]
    ) -> None:
        """Another node is sick: the breaker opens when these are too many, and people are paged, unless they
        are `told` already of what many have in common.
        """
        saved = self._saved(connection, incident.pool)
        if saved.state == "open":
            return  # it stays so; to count is slow when hundreds are sick
        sick, limit = self._sick(connection, incident.pool, now)
        if len(sick) <= limit:
            return
        after = moved(saved, len(sick), limit, "treated", now)
        if after != saved:
            why = self._why(_Seen(saved, after, sick, limit))
            self._save(connection, incident, after, why, now, told=told())

    def _seen(self, connection: sa.Connection, pool: str, now: float) -> _Seen | None:
        saved = self._saved(connection, pool)
        if saved.state == "closed":
            return None
        sick, limit = self._sick(connection, pool, now)
        after = moved(saved, len(sick), limit, _fate(connection, saved.canary), now)
        return _Seen(saved, after, sick, limit)

    def _sick(self, connection: sa.Connection, pool: str, now: float) -> tuple[list[float], int]:
        sick = breakers.newly_sick(connection, pool, now - self._settings.window_s)
        return sick, self._settings.of(self._pool_size(pool))

    def _why(self, seen: _Seen) -> str:
        minutes = f"{self._settings.window_s / 60:g}"
        frees = seen.sick[-seen.limit - 1] + self._settings.window_s
        return (
            f"{len(seen.sick)} nodes newly sick within {minutes} min, more than {seen.limit}; "
            f"one node is tried from {rfc3339(frees)} on"
        )

    def _save(
        self,
        connection: sa.Connection,
        incident: Incident,
        after: Breaker,
        why: str,
        now: float,
        *,
        told: bool = False,
    ) -> None:
        if self._journal is None:
            raise LookupError("a breaker that can only be asked was to be moved")
        breakers.put(connection, incident.pool, after.state, after.since, after.canary)
        self._known(connection)[incident.pool] = after
        why = f"breaker of pool {incident.pool} is {after.state}: {why}"
        self._journal.record(connection, f"breaker-{after.state}", incident, now, why=why)
        if not told:
            notices.post(connection, incident, notices.breaker(after.state, why), now)

    def _saved(self, connection: sa.Connection, pool: str) -> Breaker:
        known = self._known(connection)
        if pool not in known:
            row = breakers.get(connection, pool)
            known[pool] = Breaker(row.state, row.since, row.canary) if row else Breaker()
        return known[pool]


def _fate(connection: sa.Connection, canary: str) -> Fate:
    """What became of a canary; one that ended in any way but the plan's own was given up."""
    found = incidents.get(connection, canary) if canary else None
    if found is None or found.state in {"open", "held", "yielding"}:
        return "treated"
    return "closed" if found.state == "closed" else "given up"
