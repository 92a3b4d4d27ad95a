"""Looks at Slurm's job list for batch jobs that ended badly; at its own pace, apart from the poll."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.clock import Clock
from remediator.model.signal import Signal
from remediator.run.looks import Look, Submit
from remediator.signals.job_ends import BAD_ENDS, job_ends, watch_began
from slurm_bridge.model import SlurmJob
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
ONE_BY_ONE = 50  # more ended jobs than that are read with all the others


class JobEnds(Look):
    """Hands each ended run in. What Slurm forgets (MinJobAge) while nobody looks is lost: such a job stays as
    it ended.
    """

    stage = "job-ends"
    unseen = "ended jobs are not seen"

    def __init__(self, port: SlurmPort, submit: Submit, clock: Clock, every_s: float) -> None:
        super().__init__(submit, clock, every_s)
        self._port = port

    def find(self) -> Sequence[Signal]:
        """That somebody watches, and every batch run that ended badly."""
        jobs = self._ended()
        now = self.clock.now()
        return [watch_began(now), *job_ends(jobs, now)]

    def _ended(self) -> Sequence[SlurmJob]:
        """The whole list is heavy, 31 MB for 5,000 jobs: states first, then the few jobs that matter."""
        states = self._port.job_states(deadline=DEADLINE_S)
        ids = dict.fromkeys(job_id for job_id, state in states if state in BAD_ENDS)
        if len(ids) > ONE_BY_ONE:
            return self._port.jobs(deadline=DEADLINE_S)
        found = [self._port.job(job_id, deadline=DEADLINE_S) for job_id in ids]
        return [job for job in found if job is not None]
