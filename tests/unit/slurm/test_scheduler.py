"""Slurm behind the guard: with the lease it acts, without it nothing leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remediator.actuators.scheduler import Scheduler
from remediator.clock import ManualClock
from remediator.errors import Fenced
from remediator.guard import Guard, open_guard
from slurm_bridge.model import SlurmJob
from tests.fakes.slurm import FakeSlurm

JOB = SlurmJob(0, "PENDING", user="alice", batch=True, requeue=True)
WRITES: dict[str, Callable[[Scheduler], object]] = {
    "drain": lambda s: s.drain("gpu-1", "remediator: x"),
    "set_down": lambda s: s.set_down("gpu-1", "remediator: x"),
    "resume": lambda s: s.resume("gpu-2"),
    "requeue": lambda s: s.requeue(_job(s, 1)),
    "start_now": lambda s: s.start_now(2),
    "hold_job": lambda s: s.hold_job(2),
    "unhold_job": lambda s: s.unhold_job(3),
    "set_job_reservation": lambda s: s.set_job_reservation(3, "place"),
    "reserve": lambda s: s.reserve("other", ["gpu-1"], ["alice"], 15),
    "resize_reservation": lambda s: s.resize_reservation("place", ["gpu-0"]),
    "delete_reservation": lambda s: s.delete_reservation("place"),
}
READS: dict[str, Callable[[Scheduler], object]] = {
    "reservation": lambda s: s.reservation("place"),
    "reservations": lambda s: s.reservations(),
    "node": lambda s: s.node("gpu-0"),
    "job": lambda s: s.job(1),
    "jobs": lambda s: s.jobs(),
    "config": lambda s: s.config(),
}


def _job(scheduler: Scheduler, job_id: int) -> SlurmJob:
    found = scheduler.job(job_id)
    assert found is not None
    return found


@pytest.fixture
def slurm() -> FakeSlurm:
    """Job 1 runs on gpu-0, job 2 waits, job 3 is held; gpu-2 is drained, gpu-0 kept."""
    clock = ManualClock()
    fake = FakeSlurm(clock)
    fake.drain("gpu-2", "remediator: x", deadline=5.0)
    fake.submit(JOB)
    clock.advance(2)
    fake.jobs(deadline=5.0)
    fake.submit(JOB, width=3)
    fake.submit(SlurmJob(0, "PENDING", user="alice", held=True))
    fake.reserve("place", ["gpu-0"], ["alice"], 15, deadline=5.0)
    fake.writes.clear()
    return fake


@pytest.mark.parametrize("op", WRITES)
def test_a_write_reaches_slurm_once_with_its_effect(slurm: FakeSlurm, op: str) -> None:
    WRITES[op](Scheduler(slurm, open_guard(slurm.clock)))
    assert [(write.op, write.effect) for write in slurm.writes] == [(op, True)]


@pytest.mark.parametrize("op", WRITES | READS)
def test_without_the_lease_nothing_is_asked_or_written(slurm: FakeSlurm, op: str) -> None:
    asked: list[str] = []
    slurm.before = lambda op, target: asked.append(op)
    with pytest.raises(Fenced):
        (WRITES | READS)[op](Scheduler(slurm, Guard(1, slurm.clock, lambda: None)))
    assert asked == []
