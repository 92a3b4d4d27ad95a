"""Looks at Slurm's job list for batch jobs that ended badly; at its own pace, apart from the poll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.run.looks import Look, Submit
from remediator.signals.job_ends import BAD_ENDS, end_unseen, job_ends, watch_began
from slurm_bridge.model import SlurmJob
from slurm_bridge.port import SlurmPort
from slurm_bridge.states import JOB_ALIVE

DEADLINE_S = 5.0
ONE_BY_ONE = 50  # more ended jobs than that are read with all the others
FASTEST_S = 1.0
LEARN_S = 300.0
log = logger(stage="job-ends")


class JobEnds(Look):
    """Hands each ended run in. It looks twice while Slurm remembers an ended job (MinJobAge), at most every
    second; a job that vanishes between two looks all the same stays as it ended, and that is recorded.
    """

    stage = "job-ends"
    unseen = "ended jobs are not seen"

    def __init__(self, port: SlurmPort, submit: Submit, clock: Clock, every_s: float) -> None:
        super().__init__(submit, clock, every_s)
        self._port = port
        self._min_job_age: float | None = None
        self._learned_at = float("-inf")
        self._running: frozenset[int] = frozenset()
        self._ending: dict[int, SlurmJob] = {}
        self._lost: list[Signal] = []

    def pause(self) -> float:
        """The seconds that were asked for, or fewer when Slurm forgets sooner; MinJobAge 0 is for ever."""
        if self.clock.steady() - self._learned_at >= LEARN_S:
            self._learn()
        if not self._min_job_age:
            return self._every_s
        return min(self._every_s, max(FASTEST_S, self._min_job_age / 2))

    def _learn(self) -> None:
        try:
            found = self._port.config(deadline=DEADLINE_S).min_job_age
        except RemediatorError as error:
            log.warning("MinJobAge is not known", problem=str(error))
            return
        self._min_job_age, self._learned_at = found, self.clock.steady()

    def find(self) -> Sequence[Signal]:
        """That somebody watches, every batch run that ended badly, and jobs whose end nobody saw."""
        states = dict(self._port.job_states(deadline=DEADLINE_S))
        jobs = list(self._ended(states))
        gone = [*self._gone(states), *self._slipped(states, jobs)]
        now = self.clock.now()
        # One whose processes were still ending when it was last seen: its end was known by then.
        jobs += [
            replace(self._ending[job_id], flags=frozenset()) for job_id in gone if job_id in self._ending
        ]
        self._lost = [one for one in self._lost if one.dedupe not in self._told]
        self._lost += [end_unseen(i, self._min_job_age, now) for i in gone if i not in self._ending]
        self._ending = {job.job_id: job for job in jobs if job.is_completing and job.state in BAD_ENDS}
        alive = {job_id for job_id, state in states.items() if state in JOB_ALIVE and state != "PENDING"}
        self._running = frozenset(alive | self._ending.keys())
        return [watch_began(now), *job_ends(jobs, now, self._min_job_age), *self._lost]

    def _ended(self, states: dict[int, str]) -> Sequence[SlurmJob]:
        """The whole list is heavy, 31 MB for 5,000 jobs: states first, then the few jobs that matter."""
        ids = [job_id for job_id, state in states.items() if state in BAD_ENDS]
        if len(ids) > ONE_BY_ONE:
            return self._port.jobs(deadline=DEADLINE_S)
        found = [self._port.job(job_id, deadline=DEADLINE_S) for job_id in ids]
        return [job for job in found if job is not None]

    def _gone(self, states: dict[int, str]) -> list[int]:
        """Jobs that ran a look ago and that slurmctld itself does not know any more."""
        missing = sorted(self._running - states.keys())
        if len(missing) > ONE_BY_ONE:
            known = {job.job_id for job in self._port.jobs(deadline=DEADLINE_S)}
            return [job_id for job_id in missing if job_id not in known]
        return [job_id for job_id in missing if self._port.job(job_id, deadline=DEADLINE_S) is None]

    def _slipped(self, states: dict[int, str], jobs: Sequence[SlurmJob]) -> list[int]:
        """Jobs that ran a look ago, ended badly, and were forgotten before they could be read."""
        read = {job.job_id for job in jobs}
        bad = {job_id for job_id, state in states.items() if state in BAD_ENDS}
        return sorted((bad & self._running) - read)
