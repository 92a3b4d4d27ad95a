"""Two backends as one: what the first has no way to do at all, the second does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from remediator.clock import Clock
from remediator.errors import RemediatorError
from slurm_bridge.model import Reservation, SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.port import Cannot, SlurmPort

T = TypeVar("T")


class EitherSlurm:
    """`first`, and `second` for each call that raises Cannot there; both share the call's deadline."""

    def __init__(self, first: SlurmPort, second: SlurmPort, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._clock = clock

    def node(self, name: str, *, deadline: float) -> SlurmNode | None:
        """See SlurmPort."""
        return self._either(lambda port, left: port.node(name, deadline=left), deadline)

    def nodes(self, *, deadline: float) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        return self._either(lambda port, left: port.nodes(deadline=left), deadline)

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """See SlurmPort."""
        return self._either(lambda port, left: port.job(job_id, deadline=left), deadline)

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """See SlurmPort."""
        return self._either(lambda port, left: port.jobs(deadline=left), deadline)

    def job_states(self, *, deadline: float) -> tuple[tuple[int, str], ...]:
        """See SlurmPort."""
        return self._either(lambda port, left: port.job_states(deadline=left), deadline)

    def drain(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.drain(node, reason, deadline=left), deadline)

    def resume(self, node: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.resume(node, deadline=left), deadline)

    def set_down(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.set_down(node, reason, deadline=left), deadline)

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.requeue(job, held=held, deadline=left), deadline)

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.start_now(job_id, deadline=left), deadline)

    def hold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.hold_job(job_id, deadline=left), deadline)

    def unhold_job(self, job_id: int, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.unhold_job(job_id, deadline=left), deadline)

    def reservations(self, *, deadline: float) -> tuple[Reservation, ...]:
        """See SlurmPort."""
        return self._either(lambda port, left: port.reservations(deadline=left), deadline)

    def reservation(self, name: str, *, deadline: float) -> Reservation | None:
        """See SlurmPort."""
        return self._either(lambda port, left: port.reservation(name, deadline=left), deadline)

    def reserve(
        self, name: str, nodes: Sequence[str], users: Sequence[str], minutes: int, *, deadline: float
    ) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.reserve(name, nodes, users, minutes, deadline=left), deadline)

    def resize_reservation(self, name: str, nodes: Sequence[str], *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.resize_reservation(name, nodes, deadline=left), deadline)

    def delete_reservation(self, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.delete_reservation(name, deadline=left), deadline)

    def set_job_reservation(self, job_id: int, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.set_job_reservation(job_id, name, deadline=left), deadline)

    def config(self, *, deadline: float) -> SlurmConfig:
        """See SlurmPort; the second is asked too when the first sees no settings, as REST before v0.0.45."""
        ends = self._clock.steady() + deadline
        found = self._either(lambda port, left: port.config(deadline=left), deadline)
        if found.kill_wait is not None:
            return found
        with suppress(RemediatorError):  # what neither sees stays unknown, which every caller bears
            return self._second.config(deadline=ends - self._clock.steady())
        return found

    def ping(self, *, deadline: float) -> None:
        """See SlurmPort."""
        self._either(lambda port, left: port.ping(deadline=left), deadline)

    def _either(self, call: Callable[[SlurmPort, float], T], deadline: float) -> T:
        ends = self._clock.steady() + deadline
        try:
            return call(self._first, deadline)
        except Cannot:
            return call(self._second, ends - self._clock.steady())
