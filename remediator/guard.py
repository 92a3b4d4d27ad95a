"""The fence every outside call passes right before its bytes leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remediator.clock import Clock
from remediator.errors import Fenced, Retry

MARGIN_S = 2.0
MIN_DEADLINE_S = 1.0
MAX_DEADLINE_S = 5.0


@dataclass(frozen=True)
class Lease:
    """What leadership looked like when it was last renewed; `until` is in `Clock.steady` seconds."""

    epoch: int
    until: float


class Guard:
    """Bound to one epoch: refuses calls after leadership moved or when the lease cannot cover them.

    `current` returns the present lease, or None once it is lost.
    """

    def __init__(self, epoch: int, clock: Clock, current: Callable[[], Lease | None]) -> None:
        self.epoch = epoch
        self._clock = clock
        self._current = current

    def call(self, operation: str, deadline: float = MAX_DEADLINE_S) -> float:
        """The deadline (seconds, at most 5) for `operation`: it ends 2 s before the lease does.

        Fenced once leadership moved on; Retry while the lease must be renewed first.
        """
        lease = self._current()
        if lease is None or lease.epoch != self.epoch:
            raise Fenced(f"{operation}: leadership moved on", self.epoch)
        left = lease.until - self._clock.steady() - MARGIN_S
        if left < MIN_DEADLINE_S:
            raise Retry(f"{operation}: waits for the lease to be renewed", after=1.0)
        return min(deadline, MAX_DEADLINE_S, left)


def open_guard(clock: Clock) -> Guard:
    """A guard for read-only tools and tests that hold no lease: it never refuses."""
    return Guard(0, clock, lambda: Lease(0, clock.steady() + 3600.0))
