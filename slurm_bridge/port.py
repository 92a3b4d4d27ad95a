"""The port: all the service asks of Slurm. REST and pyslurm stand behind it, and a fake in tests.

Errors, for every method: `Retry` = surely no effect, `Ambiguous` = a write may have happened or **may
still happen** (slurmrestd goes on trying for up to 10 s after its caller left), `GiveUp` = wants a
person (token, rights, version), `Blocked` = Slurm refuses this write, `BadInput` = no such node or
job, or not a literal name. `deadline` is the whole call in seconds. Nothing is repeated inside a call.
"""

from __future__ import annotations

from typing import Protocol

from slurm_bridge.model import SlurmConfig, SlurmJob, SlurmNode


class SlurmPort(Protocol):
    """Reads and writes of one Slurm cluster; safe to use from several threads."""

    def node(self, name: str, *, deadline: float) -> SlurmNode | None:
        """The node's record now. None only when slurmctld itself knows no such node."""

    def nodes(self, *, deadline: float) -> tuple[SlurmNode, ...]:
        """All node records; an empty answer is Retry, never an empty cluster."""

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """The record of exactly this job id. None only when slurmctld itself knows no such job."""

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """All job records, finished ones included until MinJobAge has passed."""

    def drain(self, node: str, reason: str, *, deadline: float) -> None:
        """Set DRAIN with our reason; jobs run on. Repeating it changes nothing in Slurm."""

    def resume(self, node: str, *, deadline: float) -> None:
        """Clear DRAIN and DOWN. Blocked when the node is neither."""

    def requeue(self, job: SlurmJob, *, deadline: float) -> None:
        """Native requeue: TERM, KillWait, KILL, then PENDING with the next restart count.

        Already pending (also while still saving) is success. A second call kills a NEW run that has
        started: read the job again right before. An array task is addressed as `1_3`.
        """

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """Lift the requeue delay of a pending job; no longer pending is success.

        Only when COMPLETING is gone: slurmctld sets the delay at the end of it.
        """

    def config(self, *, deadline: float) -> SlurmConfig:
        """Settings, version and slurmctld's start time."""

    def ping(self, *, deadline: float) -> None:
        """Return when slurmctld answers, else raise."""
