"""What only the fake can be made to do: hooks, lost answers, a slurmctld that forgets."""

from __future__ import annotations

import pytest

from remediator.clock import ManualClock
from remediator.errors import Ambiguous, Retry
from slurm_bridge.model import SlurmJob
from slurm_bridge.port import SlurmPort
from tests.fakes.slurm import FakeSlurm, Write

DEADLINE = 5.0
PLAIN = SlurmJob(job_id=0, state="PENDING", batch=True, requeue=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def fake(clock: ManualClock) -> FakeSlurm:
    return FakeSlurm(clock)


def start(fake: FakeSlurm, clock: ManualClock) -> SlurmJob:
    job_id = fake.submit(PLAIN, save=3)
    clock.advance(2)
    job = fake.job(job_id, deadline=DEADLINE)
    assert job is not None
    assert job.state == "RUNNING"
    return job


def test_it_is_a_port(fake: FakeSlurm) -> None:
    port: SlurmPort = fake
    assert port.node("gpu-0", deadline=DEADLINE) is not None


def test_writes_are_listed_with_time_and_effect(fake: FakeSlurm, clock: ManualClock) -> None:
    fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    now = clock.now()
    assert fake.writes == [
        Write(now, "drain", "gpu-0", "remediator: x", True),
        Write(now, "drain", "gpu-0", "remediator: x", False),
    ]


def test_a_hook_before_prevents_and_a_hook_after_loses_the_answer(fake: FakeSlurm) -> None:
    def fail(op: str, target: str) -> None:
        if op == "drain":
            raise Ambiguous(f"{op} {target}")

    fake.before = fail
    with pytest.raises(Ambiguous):
        fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    assert fake.count("drain", "gpu-0") == 0
    fake.before, fake.after = (lambda _op, _target: None), fail
    with pytest.raises(Ambiguous):
        fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    assert fake.count("drain", "gpu-0") == 1


def test_a_killed_slurmctld_forgets_an_acknowledged_drain(fake: FakeSlurm) -> None:
    before = fake.config(deadline=DEADLINE).started_at
    assert before is not None
    fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    fake.kill_ctld(forget=1)
    node = fake.node("gpu-0", deadline=DEADLINE)
    assert node is not None
    assert not node.is_drain
    after = fake.config(deadline=DEADLINE).started_at
    assert after is not None
    assert after > before


def test_a_killed_slurmctld_forgets_an_acknowledged_requeue(fake: FakeSlurm, clock: ManualClock) -> None:
    job = start(fake, clock)
    fake.requeue(job, deadline=DEADLINE)
    fake.kill_ctld(forget=1)
    assert fake.job(job.job_id, deadline=DEADLINE) == job


def test_a_kill_that_forgets_nothing_keeps_the_drain(fake: FakeSlurm) -> None:
    fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    fake.kill_ctld()
    node = fake.node("gpu-0", deadline=DEADLINE)
    assert node is not None
    assert node.is_drain


def test_a_slurm_that_is_down_answers_nothing(fake: FakeSlurm) -> None:
    fake.is_up = False
    with pytest.raises(Retry):
        fake.nodes(deadline=DEADLINE)


@pytest.mark.parametrize(("save", "gone"), [(3.0, 3.0), (60.0, 7.0)])
def test_a_job_saves_for_as_long_as_kill_wait_lets_it(
    save: float, gone: float, fake: FakeSlurm, clock: ManualClock
) -> None:
    job_id = fake.submit(PLAIN, save=save)
    clock.advance(2)
    job = fake.job(job_id, deadline=DEADLINE)
    assert job is not None
    fake.requeue(job, deadline=DEADLINE)
    clock.advance(gone - 0.1)
    assert (saving := fake.job(job_id, deadline=DEADLINE)) is not None
    assert saving.is_completing
    clock.advance(0.2)
    assert (after := fake.job(job_id, deadline=DEADLINE)) is not None
    assert not after.is_completing
    assert after.begin_time == pytest.approx(clock.now() - 0.1 + 121)


def test_the_delay_of_121_seconds_ends_by_itself(fake: FakeSlurm, clock: ManualClock) -> None:
    job = start(fake, clock)
    fake.requeue(job, deadline=DEADLINE)
    clock.advance(4)
    fake.jobs(deadline=DEADLINE)
    clock.advance(118)
    assert (waiting := fake.job(job.job_id, deadline=DEADLINE)) is not None
    assert waiting.state == "PENDING"
    clock.advance(4)
    assert (again := fake.job(job.job_id, deadline=DEADLINE)) is not None
    assert (again.state, again.restart_count) == ("RUNNING", 1)


@pytest.mark.parametrize(("kind", "starts"), [("afterok", True), ("afterany", True), ("afternotok", False)])
def test_dependents_start_when_their_parent_has_ended(
    kind: str, starts: bool, fake: FakeSlurm, clock: ManualClock
) -> None:
    parent = fake.submit(PLAIN, seconds=10)
    child = fake.submit(SlurmJob(0, "PENDING", batch=True, requeue=True, dependency=f"{kind}:{parent}"))
    for _ in range(4):
        clock.advance(5)
        fake.jobs(deadline=DEADLINE)
    assert (found := fake.job(child, deadline=DEADLINE)) is not None
    assert (found.state == "RUNNING") is starts


def test_marked_nodes_show_what_a_person_or_slurmctld_did(fake: FakeSlurm) -> None:
    fake.mark("gpu-0", state="DOWN", flags=frozenset({"NOT_RESPONDING"}))
    node = fake.node("gpu-0", deadline=DEADLINE)
    assert node is not None
    assert node.is_down
    assert node.is_silent


def test_cancelled_and_forgotten_jobs(fake: FakeSlurm, clock: ManualClock) -> None:
    job = start(fake, clock)
    fake.cancel(job.job_id)
    assert (found := fake.job(job.job_id, deadline=DEADLINE)) is not None
    assert found.is_over
    fake.forget(job.job_id)
    assert fake.job(job.job_id, deadline=DEADLINE) is None
