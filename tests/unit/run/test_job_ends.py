"""The look at Slurm's job list hands each ended run in once, and loses none that could not be stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.model.signal import Signal
from remediator.run.job_ends import JobEnds
from slurm_bridge.model import SlurmJob
from tests.fakes.slurm import FakeSlurm


class Door:
    """An intake that may be shut."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.shut = False

    def submit(self, found: Sequence[Signal]) -> None:
        if self.shut:
            raise Retry("the store does not take it")
        self.taken += [signal.dedupe.partition(":")[0] for signal in found]


def world() -> tuple[FakeSlurm, Door, JobEnds]:
    clock = ManualClock()
    slurm, door = FakeSlurm(clock), Door()
    job = SlurmJob(job_id=0, state="PENDING", user="alice", name="train", batch=True, requeue=True)
    slurm.submit(job, seconds=1.0, exit_code=1)
    clock.advance(1.5)
    slurm.jobs(deadline=5.0)
    clock.advance(3.0)
    return slurm, door, JobEnds(slurm, door.submit, clock, 30.0)


def test_a_run_is_handed_in_once() -> None:
    _, door, ends = world()
    ends.look()
    ends.look()
    assert door.taken == ["job-watch", "job-ended"]


def test_what_the_store_did_not_take_is_handed_in_again() -> None:
    _, door, ends = world()
    door.shut = True
    ends.look()
    door.shut = False
    ends.look()
    assert door.taken == ["job-watch", "job-ended"]


def test_a_slurm_that_does_not_answer_is_asked_again() -> None:
    slurm, door, ends = world()
    slurm.is_up = False
    ends.look()
    assert door.taken == []
    slurm.is_up = True
    ends.look()
    assert door.taken == ["job-watch", "job-ended"]


def test_many_ends_are_read_with_one_list() -> None:
    slurm, door, ends = world()
    job = SlurmJob(job_id=0, state="FAILED", user="alice", name="train", batch=True, requeue=True)
    for _ in range(60):
        slurm._jobs[slurm.submit(job)].seen = job
    for number, held in slurm._jobs.items():
        held.seen = replace(held.seen, job_id=number, state="FAILED")
    asked: list[str] = []
    slurm.before = lambda op, _target: asked.append(op)
    ends.look()
    assert asked == ["job_states", "jobs"]
    assert door.taken.count("job-ended") == 61


def test_a_quiet_cluster_is_asked_for_states_alone() -> None:
    clock = ManualClock()
    slurm, door = FakeSlurm(clock), Door()
    slurm.submit(SlurmJob(job_id=0, state="PENDING", user="alice", batch=True))
    asked: list[str] = []
    slurm.before = lambda op, _target: asked.append(op)
    JobEnds(slurm, door.submit, clock, 30.0).look()
    assert asked == ["job_states"]
