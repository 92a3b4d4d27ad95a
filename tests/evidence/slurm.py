"""The fake slurmctld at the size of a cluster: it forgets old jobs, and keeps no state to fall back to."""

from __future__ import annotations

from dataclasses import replace

from slurm_bridge.model import SlurmJob
from tests.fakes.slurm import FakeSlurm

MIN_JOB_AGE = 300.0


class LeanSlurm(FakeSlurm):
    """Never killed with loss of state, and asked about hundreds of nodes."""

    def settle(self) -> None:
        """Also forgets what ended longer ago than MinJobAge."""
        super().settle()
        now = self.clock.now()
        old = [
            number
            for number, job in self._jobs.items()
            if job.seen.is_over and (job.seen.end_time or 0) < now - MIN_JOB_AGE
        ]
        for number in old:
            del self._jobs[number]

    def is_known(self, job_id: int) -> bool:
        """Whether its record is still there."""
        return job_id in self._jobs

    def on(self, worker: str) -> list[int]:
        """Jobs that run there now."""
        return [
            number
            for number, job in self._jobs.items()
            if job.seen.state == "RUNNING" and worker in job.seen.nodes
        ]

    def drain_by(self, user: str, worker: str, reason: str) -> None:
        """A person drains a node, or with an empty reason resumes it."""
        seen = self._nodes[worker]
        flags = seen.flags | {"DRAIN"} if reason else seen.flags - {"DRAIN"}
        at = float(int(self.clock.now())) if reason else None
        self._nodes[worker] = replace(
            seen, flags=flags, reason=reason, reason_user=user if reason else "", reason_at=at
        )

    def hush(self, worker: str, *, silent: bool) -> None:
        """slurmd of this node stops to answer, or answers again."""
        flags = self._nodes[worker].flags
        self.mark(worker, flags=flags | {"NOT_RESPONDING"} if silent else flags - {"NOT_RESPONDING"})

    def _usable(self, job: SlurmJob, now: float) -> list[str]:
        if self._reservations:
            return super()._usable(job, now)
        busy = {name for other in self._jobs.values() if other.seen.holds_nodes for name in other.seen.nodes}
        return [
            name
            for name, node in self._nodes.items()
            if name not in busy
            and node.state == "IDLE"
            and not node.is_drain
            and not node.is_silent
            and self._silent_until.get(name, 0.0) <= now
        ]

    def _remember(self) -> None:
        """Nothing is forgotten here."""
