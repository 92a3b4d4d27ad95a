"""Looks at Slurm's job list for batch jobs that ended badly; at its own pace, apart from the poll."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.model.signal import Signal
from remediator.observe.logs import logger
from remediator.signals.job_ends import BAD_ENDS, job_ends, watch_began
from slurm_bridge.model import SlurmJob
from slurm_bridge.port import SlurmPort

DEADLINE_S = 5.0
ONE_BY_ONE = 50  # more ended jobs than that are read with all the others
log = logger(stage="job-ends")

Submit = Callable[[Sequence[Signal]], None]


class JobEnds:
    """Hands each ended run in once per life; the store's `dedupe` makes that once for ever.

    What Slurm forgets (MinJobAge) while nobody looks is lost: such a job stays as it ended.
    """

    def __init__(self, port: SlurmPort, submit: Submit, clock: Clock, every_s: float) -> None:
        self._port = port
        self._submit = submit
        self._clock = clock
        self._every_s = every_s
        self._told: frozenset[str] = frozenset()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(self._every_s)

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()

    def look(self) -> None:
        """One look; what cannot be read or stored now is read again next time."""
        try:
            jobs = self._ended()
            now = self._clock.now()
            found = [watch_began(now), *job_ends(jobs, now)]
            fresh = [signal for signal in found if signal.dedupe not in self._told]
            self._submit(fresh)
        except RemediatorError as error:
            log.warning("ended jobs are not seen", problem=str(error))
            return
        self._told = frozenset(signal.dedupe for signal in found)

    def _ended(self) -> Sequence[SlurmJob]:
        """The whole list is heavy, 31 MB for 5,000 jobs: states first, then the few jobs that matter."""
        states = self._port.job_states(deadline=DEADLINE_S)
        ids = dict.fromkeys(job_id for job_id, state in states if state in BAD_ENDS)
        if len(ids) > ONE_BY_ONE:
            return self._port.jobs(deadline=DEADLINE_S)
        found = [self._port.job(job_id, deadline=DEADLINE_S) for job_id in ids]
        return [job for job in found if job is not None]
