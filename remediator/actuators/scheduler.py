"""Slurm behind the guard: every call asks for its deadline right before it leaves."""

from __future__ import annotations

from remediator.errors import GiveUp
from remediator.guard import Guard
from slurm_bridge.model import SlurmConfig, SlurmJob, SlurmNode
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

    def config(self) -> SlurmConfig:
        """Slurm's settings, and when slurmctld started."""
        return self._port.config(deadline=self._guard.call("read Slurm's settings"))

    def drain(self, name: str, reason: str) -> None:
        """Set DRAIN and reason on one literal node."""
        self._port.drain(name, reason, deadline=self._guard.call(f"drain {name}"))

    def requeue(self, job: SlurmJob) -> None:
        """Native requeue of one job or array task, as just read."""
        self._port.requeue(job, deadline=self._guard.call(f"requeue {job.address}"))

    def start_now(self, job_id: int) -> None:
        """Lift the begin time of a pending job."""
        self._port.start_now(job_id, deadline=self._guard.call(f"start {job_id}"))
