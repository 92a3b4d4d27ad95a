"""FakeSlurm as it is seen through pyslurm alone: what pyslurm cannot do the real backend refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from remediator.clock import Clock
from slurm_bridge.model import SlurmJob
from slurm_bridge.pyslurm import decode
from slurm_bridge.pyslurm.backend import PyslurmSlurm
from slurm_bridge.pyslurm.channel import Channel
from tests.fakes.slurm import FakeSlurm


class _Worker(Channel):
    """A worker that says of a DOWN that Slurm expedites requeues; nothing else may get as far as it."""

    def call(self, operation: str, arguments: Mapping[str, Any], doing: str, **_: Any) -> Any:
        assert operation == "set_down", doing
        return False


class PyslurmAlone(FakeSlurm):
    """`expedites`: the cluster has `enable_expedited_requeue`."""

    def __init__(self, clock: Clock, nodes: Sequence[str], *, expedites: bool = False) -> None:
        super().__init__(clock, nodes)
        self._backend = PyslurmSlurm(_Worker(Path("/nowhere"), lambda: "", clock))
        self._expedites = expedites

    def job(self, job_id: int, *, deadline: float) -> SlurmJob | None:
        """See SlurmPort."""
        found = super().job(job_id, deadline=deadline)
        return _shown(found) if found else None

    def jobs(self, *, deadline: float) -> tuple[SlurmJob, ...]:
        """See SlurmPort."""
        return tuple(_shown(job) for job in super().jobs(deadline=deadline))

    def job_states(self, *, deadline: float) -> tuple[tuple[int, str], ...]:
        """See SlurmPort."""
        return tuple((job.job_id, job.state) for job in self.jobs(deadline=deadline))

    def set_down(self, node: str, reason: str, *, deadline: float) -> None:
        """See SlurmPort."""
        if self._expedites:
            self._backend.set_down(node, reason, deadline=deadline)
        super().set_down(node, reason, deadline=deadline)

    def requeue(self, job: SlurmJob, *, held: bool = False, deadline: float) -> None:
        """See SlurmPort."""
        if job.array_job_id:
            self._backend.requeue(job, held=held, deadline=deadline)
        super().requeue(job, held=held, deadline=deadline)

    def set_job_reservation(self, job_id: int, name: str, *, deadline: float) -> None:
        """See SlurmPort."""
        if not name:
            self._backend.set_job_reservation(job_id, name, deadline=deadline)
        super().set_job_reservation(job_id, name, deadline=deadline)

    def reserve(
        self, name: str, nodes: Sequence[str], users: Sequence[str], minutes: int, *, deadline: float
    ) -> None:
        """See SlurmPort."""
        self._backend.reserve(name, nodes, users, minutes, deadline=deadline)


def _shown(job: SlurmJob) -> SlurmJob:
    decode.job_base({"id": job.job_id, "state": "COMPLETING" if job.is_completing else job.state})
    return job
