"""Slurm with the values that Slinky renders (MinJobAge 2): no end is missed, and there is time to act."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from remediator.clock import SystemClock
from remediator.model.job_end import JobEnd
from remediator.model.signal import Signal
from remediator.run.job_ends import JobEnds
from remediator.signals.job_ends import END_UNSEEN, JOB_ENDED
from tests.contract.slurm.conftest import rest_of
from tests.contract.slurm.worlds import DEADLINE, RealWorld, Spec, job
from tests.servers.slurm import SlurmServer, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def slinky(slinky_server: SlurmServer) -> Iterator[RealWorld]:
    world = RealWorld(rest_of(slinky_server), slinky_server)
    yield world
    world.close()


@contextmanager
def looking(world: RealWorld, submit: Callable[[Sequence[Signal]], None]) -> Iterator[None]:
    look = JobEnds(world.port, submit, SystemClock(), 30.0)
    thread = threading.Thread(target=look.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        look.stop()
        thread.join(10.0)


def test_every_end_is_seen_before_slurm_forgets_it(slinky: RealWorld) -> None:
    told: list[Signal] = []
    with looking(slinky, told.extend):
        time.sleep(2.0)
        jobs = []
        for _ in range(12):
            jobs.append(slinky.submit(Spec(fails=True)))
            time.sleep(1.3)
        wait_for("the last end", lambda: slinky.port.job(jobs[-1], deadline=DEADLINE) is None, 120)
        time.sleep(2.0)
    ends = [JobEnd.model_validate(one.detail) for one in told if one.kind == JOB_ENDED]
    assert {end.run.job_id for end in ends} >= set(jobs)  # those of earlier tests may end meanwhile
    assert {end.remembered_s for end in ends} == {2}
    assert not [one for one in told if one.kind == END_UNSEEN]


def test_an_ended_job_can_still_be_requeued_when_its_end_is_handed_in(slinky: RealWorld) -> None:
    taken: list[int] = []

    def requeue(found: Sequence[Signal]) -> None:
        for one in found:
            if one.kind == JOB_ENDED:
                ended = job(slinky, JobEnd.model_validate(one.detail).run.job_id)
                slinky.port.requeue(ended, deadline=DEADLINE)
                taken.append(ended.job_id)

    with looking(slinky, requeue):
        time.sleep(2.0)
        jobs = [slinky.submit(Spec(fails=True)) for _ in range(3)]
        wait_for("the requeues", lambda: set(taken) >= set(jobs), 60)
    assert {job(slinky, job_id).restart_count for job_id in jobs} == {1}
