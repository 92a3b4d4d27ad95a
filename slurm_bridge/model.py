"""What Slurm says, as frozen values. Times are seconds since the epoch on slurmctld's clock.

Plain dataclasses: 5,000 of them are built several times faster than validated models, and
`decode` has checked every field already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slurm_bridge.states import CHANGE_FLAGS, JOB_ALIVE, POWER_FLAGS, QUIET_NODE_BASES


class JobRun(NamedTuple):
    """One run of a job: a requeue or a restart makes another.

    Slurm raises `restart_count` when it accepts a requeue and moves `submit_time` when the old
    run's processes are gone, so the same requeued run shows two keys, both unlike the old one.
    """

    job_id: int
    submit_time: int
    restart_count: int


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node record. `flags` holds every state word that is not the base state; `instance_id` is the machine
    below it: under Soperator the Kubernetes node.
    """

    name: str
    state: str
    flags: frozenset[str] = frozenset()
    reason: str = ""
    reason_user: str = ""
    reason_at: float | None = None
    boot_time: float | None = None
    slurmd_start_time: float | None = None
    comment: str = ""
    gres: str = ""
    address: str = ""
    instance_id: str = ""

    @property
    def is_drain(self) -> bool:
        """No new job is placed here."""
        return "DRAIN" in self.flags

    @property
    def is_busy(self) -> bool:
        """Jobs may still be here; an unknown base state counts as busy."""
        return self.state not in QUIET_NODE_BASES or "COMPLETING" in self.flags

    @property
    def is_changing(self) -> bool:
        """Its drain is being lifted, or Slurm is about to switch it off: it is not as it will be."""
        return not self.flags.isdisjoint(CHANGE_FLAGS)

    @property
    def is_powering(self) -> bool:
        """Slurm has switched it off or is switching it (State=CLOUD): no slurmd is no fault."""
        return not self.flags.isdisjoint(POWER_FLAGS)

    @property
    def is_silent(self) -> bool:
        """Its slurmd does not answer slurmctld, and ought to."""
        return "NOT_RESPONDING" in self.flags and not self.is_powering

    @property
    def is_down(self) -> bool:
        """Set DOWN by slurmctld or a person."""
        return self.state == "DOWN"


@dataclass(frozen=True, slots=True)
class ExitInfo:
    """How the batch script ended; None where Slurm does not say."""

    status: str = ""
    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job record. `flags` are state flags (COMPLETING …), `traits` job flags (CRON_JOB …); `gpus` are those
    it has on all its nodes, None where Slurm does not say.
    """

    job_id: int
    state: str
    flags: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_job_offset: int = 0
    name: str = ""
    user: str = ""
    partition: str = ""
    submit_time: int = 0
    start_time: float | None = None
    begin_time: float | None = None
    end_time: float | None = None
    restart_count: int = 0
    batch: bool = False
    requeue: bool = False
    held: bool = False
    state_reason: str = ""
    nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    comment: str = ""
    dependency: str = ""
    reservation: str = ""
    gpus: int | None = None
    exit: ExitInfo = ExitInfo()

    @property
    def address(self) -> str:
        """How Slurm's requeue names it: `1_3` for an array task, else the id."""
        if self.array_job_id and self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        return str(self.job_id)

    @property
    def run(self) -> JobRun:
        """The key of this run."""
        return JobRun(self.job_id, self.submit_time, self.restart_count)

    @property
    def is_expedited(self) -> bool:
        """`--requeue=expedite`: its next run starts at once, also when it loses a node that is DOWN."""
        return "EXPEDITED_REQUEUE" in self.traits

    @property
    def is_completing(self) -> bool:
        """Its processes may still be saving."""
        return "COMPLETING" in self.flags

    @property
    def holds_nodes(self) -> bool:
        """It has processes or an allocation on its nodes; an unknown state counts as such."""
        return self.is_completing or self.state in {"RUNNING", "SUSPENDED", "UNKNOWN"}

    @property
    def is_over(self) -> bool:
        """It has ended and will not run again by itself."""
        return self.state not in JOB_ALIVE and self.state != "UNKNOWN" and not self.is_completing


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes kept from `start` to `end` for `users`; a user written `-name` is kept out."""

    name: str
    nodes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    start: float | None = None
    end: float | None = None

    @property
    def is_maintenance(self) -> bool:
        """Somebody plans work on these nodes."""
        return "MAINT" in self.flags

    def covers(self, node: str, at: float) -> bool:
        """Whether it holds this node at that moment; a time that Slurm does not say counts as yes."""
        begun = self.start is None or self.start <= at
        return node in self.nodes and begun and (self.end is None or at < self.end)


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """What of slurm.conf matters here (times in seconds); None = this backend cannot see it.

    `started_at` is when slurmctld last started or was reconfigured, `clock` what its clock showed as it
    answered, both in whole seconds.
    """

    version: str = ""
    kill_wait: int | None = None
    min_job_age: int | None = None
    slurmd_timeout: int | None = None
    job_file_append: bool | None = None
    started_at: int | None = None
    clock: int | None = None
