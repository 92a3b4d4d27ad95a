"""The port: all the service asks of Slurm. REST and pyslurm stand behind it, and a fake in tests.

Errors, for every method: `Retry` = surely no effect, `Ambiguous` = a write may have happened or **may
still happen** (slurmrestd goes on trying for up to 10 s after its caller left), `GiveUp` = wants a
person (token, rights, version), `Blocked` = Slurm refuses this write, `BadInput` = no such node, job
or reservation, or not a literal name. `deadline` is the whole call in seconds. Nothing is repeated
inside a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from remediator.errors import Blocked
from slurm_bridge.model import Reservation, SlurmConfig, SlurmJob, SlurmNode


class Cannot(Blocked):
    """This backend has no way to do that at all; another one may."""


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

    def job_states(self, *, deadline: float) -> tuple[tuple[int, str], ...]:
        """Job id and base state of every record, at a hundredth of what `jobs` costs.

        Waiting tasks of an array share an id; an empty answer may be no answer.
        """

    def drain(self, node: str, reason: str, *, deadline: float) -> None:
        """Set DRAIN with our reason; jobs run on. Repeating it changes nothing in Slurm."""

    def resume(self, node: str, *, deadline: float) -> None:
        """Clear DRAIN and DOWN. Blocked when the node is neither.

        NOT_RESPONDING for 3 to 6 s after it is no fault.
        """

    def set_down(self, node: str, reason: str, *, deadline: float) -> None:
        """Set DOWN with our reason; DRAIN stays. Its runs leave it at once, whatever still runs there.

        A batch run with requeue=1 waits again as the next restart, 121 s after its other nodes are
        free; any other ends NODE_FAIL. Repeating it after a resume kills what has started since.
        """

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        """Native requeue: TERM, KillWait, KILL, then PENDING with the next restart count; `held`: it waits
        there until its owner or an operator releases it.

        Already pending (also while still saving) is success, and then nothing is held. A second call
        kills a NEW run that has started, and a run that has ended (FAILED, also COMPLETED or cancelled
        by its owner) starts once more while Slurm remembers it: read the job again right before. An
        array task is addressed as `1_3`.
        """

    def start_now(self, job_id: int, *, deadline: float) -> None:
        """Lift the requeue delay of a pending job; no longer pending is success.

        Only when COMPLETING is gone: slurmctld sets the delay at the end of it.
        """

    def hold_job(self, job_id: int, *, deadline: float) -> None:
        """An administrator's hold: a pending job (also while it saves) does not start; repeating is harmless.

        Blocked when the job is over.
        """

    def unhold_job(self, job_id: int, *, deadline: float) -> None:
        """Lift a hold, whoever set it; none is success. Slurm then counts the job's priority anew."""

    def reservations(self, *, deadline: float) -> tuple[Reservation, ...]:
        """All reservations, everybody's, also those that have yet to begin."""

    def reservation(self, name: str, *, deadline: float) -> Reservation | None:
        """One reservation, or None when slurmctld itself knows none of this name."""

    def reserve(
        self, name: str, nodes: Sequence[str], users: Sequence[str], minutes: int, *, deadline: float
    ) -> None:
        """Keep the nodes (busy ones too) for these users from now on, with FLEX and IGNORE_JOBS.

        Blocked when the name exists or another reservation holds one of the nodes. It ends by itself:
        jobs that run in it run on, and jobs that still wait in it wait on outside of it.
        """

    def resize_reservation(self, name: str, nodes: Sequence[str], *, deadline: float) -> None:
        """Make these the reservation's nodes. Slurm drops unknown nodes silently: read it again."""

    def delete_reservation(self, name: str, *, deadline: float) -> None:
        """Give the place up; none of this name is success. Blocked while a job is in it."""

    def set_job_reservation(self, job_id: int, name: str, *, deadline: float) -> None:
        """Put a pending job (also while it saves) into a reservation; `""` takes any job out of it.

        Each component of a heterogeneous job by its own id. Blocked when its owner may not use the
        reservation, or when it has ended; taking a job out that has ended is success.
        """

    def config(self, *, deadline: float) -> SlurmConfig:
        """Settings, version and slurmctld's start time."""

    def ping(self, *, deadline: float) -> None:
        """Return when slurmctld answers, else raise."""
