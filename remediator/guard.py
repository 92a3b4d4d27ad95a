"""The fence every outside call passes right before its bytes leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from remediator.clock import Clock
from remediator.errors import Blocked, Fenced, Retry

MARGIN_S = 2.0
MIN_DEADLINE_S = 1.0
MAX_DEADLINE_S = 5.0
FROZEN_RETRY_S = 5.0


@dataclass(frozen=True)
class Lease:
    """What leadership looked like when it was last renewed; `until` is in `Clock.steady` seconds."""

    epoch: int
    until: float


class Territory(Protocol):
    """What the service may write to, as the caches know it now."""

    def holds(self, node: str) -> bool:
        """Whether a Kubernetes node is known, in a pool or a spare, and not Soperator's."""

    def node_of(self, worker: str) -> str | None:
        """The Kubernetes node that a Slurm node is on; None while it is on none."""


class Guard:
    """Bound to one epoch: refuses calls after leadership moved or when the lease cannot cover them, and
    writes that leave the `territory` or, in a dry run and while `frozen` says why, all of them.

    `current` returns the present lease, or None once it is lost.
    """

    def __init__(
        self,
        epoch: int,
        clock: Clock,
        current: Callable[[], Lease | None],
        *,
        territory: Territory | None = None,
        dry_run: bool = False,
        frozen: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.epoch = epoch
        self._clock = clock
        self._current = current
        self._territory = territory
        self._dry_run = dry_run
        self._frozen = frozen

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

    def write(self, operation: str, *, node: str = "", workers: Iterable[str] = ()) -> float:
        """As `call`, for an operation that changes something: on this Kubernetes node, or on (at least one
        of) these Slurm nodes. Blocked in a dry run, and on a node that is in no pool and no spare, or
        Soperator's; Retry during a mass outage.
        """
        if self._dry_run:
            raise Blocked(f"dry_run is on: would {operation}")
        why = self._frozen()
        if why is not None:
            raise Retry(f"{operation}: {why}", after=FROZEN_RETRY_S)
        if self._territory is not None:
            self._stay_inside(self._territory, operation, node, tuple(workers))
        return self.call(operation)

    def _stay_inside(self, territory: Territory, operation: str, node: str, workers: tuple[str, ...]) -> None:
        touched = {node} if node else {territory.node_of(worker) for worker in workers} - {None}
        if workers and not touched:
            raise Retry(f"{operation}: {', '.join(workers)} is on no node at present", after=1.0)
        if touched and not any(territory.holds(name) for name in touched if name):
            named = ", ".join(sorted(name for name in touched if name))
            raise Blocked(f"{operation}: {named} is in no pool and no spare, or Soperator's: never written")


def open_guard(
    clock: Clock,
    territory: Territory | None = None,
    *,
    dry_run: bool = False,
    frozen: Callable[[], str | None] = lambda: None,
) -> Guard:
    """A guard for read-only tools and tests that hold no lease: it never asks for one."""
    return Guard(
        0,
        clock,
        lambda: Lease(0, clock.steady() + 3600.0),
        territory=territory,
        dry_run=dry_run,
        frozen=frozen,
    )
