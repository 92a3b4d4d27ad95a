"""The look at Slurm's job list hands each ended run in once, and loses none that could not be stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from remediator.clock import ManualClock
from remediator.errors import Retry
from remediator.model.signal import Signal
from remediator.run.job_ends import LEARN_S, JobEnds
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


def runs(slurm: FakeSlurm, clock: ManualClock, **more: float) -> int:
    job = SlurmJob(job_id=0, state="PENDING", user="alice", name="train", batch=True, requeue=True)
    job_id = slurm.submit(job, seconds=more.get("seconds", 9_999.0), exit_code=1)
    clock.advance(1.5)
    slurm.jobs(deadline=5.0)
    return job_id


def test_looks_come_twice_while_slurm_remembers_a_job_and_at_most_every_second() -> None:
    clock = ManualClock()
    slurm = FakeSlurm(clock)
    paces = {}
    for age in (0, 1, 2, 10, 59, 300):
        slurm.min_job_age = age
        paces[age] = JobEnds(slurm, Door().submit, clock, 30.0).pause()
    assert paces == {0: 30.0, 1: 1.0, 2: 1.0, 10: 5.0, 59: 29.5, 300: 30.0}


def test_a_minjobage_that_cannot_be_read_keeps_what_is_known() -> None:
    clock = ManualClock()
    slurm = FakeSlurm(clock)
    slurm.min_job_age = 2
    ends = JobEnds(slurm, Door().submit, clock, 30.0)
    assert ends.pause() == 1.0
    slurm.is_up = False
    clock.advance(LEARN_S)
    assert ends.pause() == 1.0


def test_a_job_that_vanishes_between_two_looks_is_recorded_once_and_not_restarted() -> None:
    clock = ManualClock()
    slurm, door = FakeSlurm(clock), Door()
    ends = JobEnds(slurm, door.submit, clock, 30.0)
    job_id = runs(slurm, clock)
    ends.look()
    slurm.forget(job_id)
    door.shut = True
    ends.look()
    door.shut = False
    ends.look()
    ends.look()
    assert door.taken == ["job-watch", "job-end-unseen"]


def test_a_job_whose_end_was_seen_may_be_forgotten() -> None:
    clock = ManualClock()
    slurm, door = FakeSlurm(clock), Door()
    ends = JobEnds(slurm, door.submit, clock, 30.0)
    job_id = runs(slurm, clock, seconds=1.0)
    ends.look()
    clock.advance(20.0)
    ends.look()
    slurm.forget(job_id)
    ends.look()
    assert door.taken == ["job-watch", "job-ended"]


def test_a_job_that_is_forgotten_while_its_processes_end_has_ended_as_it_was_last_seen() -> None:
    clock = ManualClock()
    slurm, door = FakeSlurm(clock), Door()
    ends = JobEnds(slurm, door.submit, clock, 30.0)
    job_id = runs(slurm, clock)
    held = slurm._jobs[job_id]
    held.seen = replace(held.seen, state="FAILED", flags=frozenset({"COMPLETING"}))
    ends.look()
    slurm.forget(job_id)
    ends.look()
    assert door.taken == ["job-watch", "job-ended"]


def test_one_that_is_forgotten_between_its_state_and_its_record_is_not_lost() -> None:
    clock = ManualClock()
    slurm, door = FakeSlurm(clock), Door()
    ends = JobEnds(slurm, door.submit, clock, 30.0)
    job_id = runs(slurm, clock)
    ends.look()
    held = slurm._jobs[job_id]
    held.seen = replace(held.seen, state="FAILED")
    slurm.before = lambda op, _target: slurm.forget(job_id) if op == "job" and job_id in slurm._jobs else None
    ends.look()
    assert door.taken == ["job-watch", "job-end-unseen"]


def test_a_slurm_that_knows_a_job_better_than_its_list_is_believed() -> None:
    """An empty list of states may be no answer."""
    clock = ManualClock()
    slurm, door = FakeSlurm(clock), Door()
    ends = JobEnds(slurm, door.submit, clock, 30.0)
    runs(slurm, clock)
    ends.look()
    slurm.job_states = lambda *, deadline: ()  # type: ignore[method-assign]
    ends.look()
    assert door.taken == ["job-watch"]
