"""What only the fake can be made to do: hooks, lost answers, a slurmctld that forgets."""

from __future__ import annotations

import pytest

from remediator.clock import ManualClock
from remediator.errors import Ambiguous, Retry
from slurm_bridge.model import Reservation, SlurmJob, SlurmNode
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


def seen(fake: FakeSlurm, job_id: int) -> SlurmJob:
    found = fake.job(job_id, deadline=DEADLINE)
    assert found is not None
    return found


def worker(fake: FakeSlurm, name: str = "gpu-0") -> SlurmNode:
    found = fake.node(name, deadline=DEADLINE)
    assert found is not None
    return found


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


def test_a_requeue_forgotten_after_term_leaves_the_run_failed(fake: FakeSlurm, clock: ManualClock) -> None:
    """As seen on 26.05: the run saves, exits, and keeps its restart count."""
    job = start(fake, clock)
    fake.requeue(job, deadline=DEADLINE)
    fake.kill_ctld(forget=1, after_term=True)
    assert seen(fake, job.job_id).run == job.run
    assert seen(fake, job.job_id).state == "RUNNING"
    clock.advance(3.1)
    failed = seen(fake, job.job_id)
    assert (failed.state, failed.run, failed.exit.code) == ("FAILED", job.run, 1)
    fake.requeue(failed, deadline=DEADLINE)
    again = seen(fake, job.job_id)
    assert (again.state, again.restart_count, again.is_completing) == ("PENDING", 1, False)


def test_a_run_that_got_its_term_is_given_no_second_grace(fake: FakeSlurm, clock: ManualClock) -> None:
    job = start(fake, clock)
    fake.requeue(job, deadline=DEADLINE)
    clock.advance(2)
    fake.kill_ctld(forget=1, after_term=True)
    fake.requeue(job, deadline=DEADLINE)
    clock.advance(1.1)
    assert (seen(fake, job.job_id).is_completing, seen(fake, job.job_id).restart_count) == (False, 1)


def test_a_killed_slurmctld_forgets_a_reservation(fake: FakeSlurm) -> None:
    fake.reserve("place", ["gpu-0"], ["alice"], 15, deadline=DEADLINE)
    fake.kill_ctld(forget=1)
    assert fake.reservations(deadline=DEADLINE) == ()


@pytest.mark.parametrize(("flags", "state"), [({"FLEX"}, "RUNNING"), (set(), "TIMEOUT")])
def test_a_running_job_outlives_its_reservation_only_with_flex(
    flags: set[str], state: str, fake: FakeSlurm, clock: ManualClock
) -> None:
    end = clock.now() + 60
    fake.add_reservation(Reservation("place", ("gpu-0",), ("alice",), frozenset(flags), clock.now(), end))
    job_id = fake.submit(SlurmJob(0, "PENDING", user="alice", batch=True, requeue=True, reservation="place"))
    clock.advance(2)
    assert seen(fake, job_id).nodes == ("gpu-0",)
    clock.advance(60)
    assert (seen(fake, job_id).state, seen(fake, job_id).reservation) == (state, "")


def test_a_job_in_a_strict_reservation_starts_nowhere_else(fake: FakeSlurm, clock: ManualClock) -> None:
    fake.add_reservation(Reservation("place", ("gpu-0",), ("alice",), start=clock.now()))
    fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    job_id = fake.submit(SlurmJob(0, "PENDING", user="alice", batch=True, requeue=True, reservation="place"))
    clock.advance(5)
    assert seen(fake, job_id).state == "PENDING"
    fake.resume("gpu-0", deadline=DEADLINE)
    clock.advance(5)
    assert seen(fake, job_id).nodes == ("gpu-0",)


def test_a_stopped_worker_takes_its_node_down_and_its_job_along(fake: FakeSlurm, clock: ManualClock) -> None:
    """The operator's preStop overwrites our reason."""
    job = start(fake, clock)
    name = job.nodes[0]
    fake.drain(name, "remediator: x", deadline=DEADLINE)
    fake.stop_worker(name)
    node = worker(fake, name)
    assert (node.is_down, node.is_drain, node.is_silent) == (True, True, True)
    assert node.reason.startswith("slurm-operator: ")
    assert (seen(fake, job.job_id).state, seen(fake, job.job_id).restart_count) == ("PENDING", 1)


def test_a_worker_back_on_its_node_stays_down_until_a_resume(fake: FakeSlurm, clock: ManualClock) -> None:
    started = worker(fake).slurmd_start_time
    fake.stop_worker("gpu-0")
    clock.advance(60)
    fake.start_worker("gpu-0")
    clock.advance(60)
    node = worker(fake)
    assert (node.is_down, node.is_silent) == (True, False)
    assert node.slurmd_start_time != started
    fake.resume("gpu-0", deadline=DEADLINE)
    assert worker(fake).is_silent
    clock.advance(5)
    assert (worker(fake).state, worker(fake).is_silent) == ("IDLE", False)


def test_a_worker_that_moved_is_set_idle_and_loses_its_drain(fake: FakeSlurm, clock: ManualClock) -> None:
    before = worker(fake)
    fake.drain("gpu-0", "remediator: x", deadline=DEADLINE)
    fake.stop_worker("gpu-0")
    clock.advance(10)
    fake.move_worker("gpu-0")
    clock.advance(4)
    assert (worker(fake).is_down, worker(fake).is_drain) == (True, True)
    clock.advance(1.1)
    node = worker(fake)
    assert (node.state, node.is_drain, node.reason, node.reason_at) == ("IDLE", False, "", None)
    assert node.boot_time != before.boot_time
    assert node.slurmd_start_time != before.slurmd_start_time
