"""Slurm behind the guard: every call asks for its deadline right before it leaves."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.errors import GiveUp
from remediator.guard import Guard
from slurm_bridge.model import Reservation, SlurmConfig, SlurmJob, SlurmNode
from slurm_bridge.port import SlurmPort


class Scheduler:
    """What workflow steps may ask of Slurm; all answers are fresh reads."""

    def __init__(self, port: SlurmPort, guard: Guard) -> None:
        self._port = port
        self._guard = guard

    def node(self, name: str) -> SlurmNode:
        """One Slurm node; GiveUp when slurmctld itself says that there is none."""
        node = self._port.node(name, deadline=self._guard.call(f"read node {name}"))
        if node is None:
            raise GiveUp(f"slurmctld knows no node {name}")
        return node

    def job(self, job_id: int) -> SlurmJob | None:
        """One job, or None when slurmctld itself says that it has forgotten it."""
        return self._port.job(job_id, deadline=self._guard.call(f"read job {job_id}"))

    def jobs(self) -> tuple[SlurmJob, ...]:
        """All jobs slurmctld remembers."""
        return self._port.jobs(deadline=self._guard.call("read jobs"))

    def reservations(self) -> tuple[Reservation, ...]:
        """All reservations, everybody's."""
        return self._port.reservations(deadline=self._guard.call("read reservations"))

    def reservation(self, name: str) -> Reservation | None:
        """One reservation, or None when slurmctld itself says that there is none."""
        return self._port.reservation(name, deadline=self._guard.call(f"read reservation {name}"))

    def config(self) -> SlurmConfig:
        """Slurm's settings, and when slurmctld started."""
        return self._port.config(deadline=self._guard.call("read Slurm's settings"))

    def drain(self, name: str, reason: str) -> None:
        """Set DRAIN and reason on one literal node."""
        self._port.drain(name, reason, deadline=self._guard.write(f"drain {name}", workers=[name]))

    def resume(self, name: str) -> None:
        """Clear DRAIN and DOWN on one literal node."""
        self._port.resume(name, deadline=self._guard.write(f"resume {name}", workers=[name]))

    def set_down(self, name: str, reason: str) -> None:
        """Set DOWN and reason on one literal node: what runs there ends at once."""
        deadline = self._guard.write(f"set {name} down", workers=[name])
        self._port.set_down(name, reason, deadline=deadline)

    def requeue(self, job: SlurmJob, *, held: bool = False) -> None:
        """Native requeue of one job or array task, as just read; `held`: its next run waits for a release."""
        deadline = self._guard.write(f"requeue {job.address}", workers=job.nodes)
        self._port.requeue(job, held=held, deadline=deadline)

    def start_now(self, job_id: int) -> None:
        """Lift the begin time of a pending job."""
        self._port.start_now(job_id, deadline=self._guard.write(f"start {job_id}"))

    def hold_job(self, job_id: int) -> None:
        """Keep a pending job from starting until somebody lifts the hold."""
        self._port.hold_job(job_id, deadline=self._guard.write(f"hold job {job_id}"))

    def unhold_job(self, job_id: int) -> None:
        """Lift the hold of a pending job."""
        self._port.unhold_job(job_id, deadline=self._guard.write(f"release the hold of job {job_id}"))

    def reserve(self, name: str, nodes: Sequence[str], users: Sequence[str], minutes: int) -> None:
        """Keep the nodes for these users for `minutes` from now on."""
        deadline = self._guard.write(f"reserve {name}", workers=nodes)
        self._port.reserve(name, nodes, users, minutes, deadline=deadline)

    def resize_reservation(self, name: str, nodes: Sequence[str]) -> None:
        """Make these the reservation's nodes; read it again to see whether Slurm took all of them."""
        deadline = self._guard.write(f"resize reservation {name}", workers=nodes)
        self._port.resize_reservation(name, nodes, deadline=deadline)

    def delete_reservation(self, name: str) -> None:
        """Give the place up; already gone is success."""
        self._port.delete_reservation(name, deadline=self._guard.write(f"delete reservation {name}"))

    def set_job_reservation(self, job_id: int, name: str) -> None:
        """Put a pending job into a reservation, or (`""`) take any job out of it."""
        deadline = self._guard.write(f"set the reservation of {job_id}")
        self._port.set_job_reservation(job_id, name, deadline=deadline)
