"""A job that crashes is restarted once per run, whoever dies meanwhile; and who is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remediator.audit import chain
from remediator.run.job_ends import JobEnds
from remediator.settings import Crashes as Limits
from remediator.settings import Pool
from remediator.store import outbox, strikes
from tests.fakes.river import River


def pool(**changes: Any) -> dict[str, Pool]:
    base: dict[str, Any] = {"node_selector": {"pool": "training"}, "restart_failed_jobs": True}
    return {"training": Pool(**(base | changes))}


@pytest.fixture
def river(tmp_path: Path) -> River:
    """A pool that restarts failed jobs, whose job ends have been watched for a while."""
    found = River(tmp_path)
    found.pools = pool()
    found.begin()
    found.watch_jobs()
    found.clock.advance(1.0)
    return found


def messages(river: River) -> list[str]:
    with river.store.read() as connection:
        return [one.message.text for one in outbox.due(connection, river.clock.now() + 1)]


def crash(river: River, job: int, code: int = 1) -> None:
    river.clock.advance(3.0)
    river.slurm.fail(job, code)


def assert_restarted_once(river: River, job: int) -> None:
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert river.slurm.count("requeue", str(job)) == 1
    assert [(one.plan, one.state) for one in river.all_incidents()] == [("restart-job", "closed")]
    assert [write.op for write in river.slurm.writes if write.effect] == ["requeue", "start_now"]
    assert river.kube.writes == []
    with river.store.read() as connection:
        assert chain.verify(connection).ok


def test_a_crashed_job_is_restarted_without_touching_a_node(river: River) -> None:
    job = river.submit_job()
    crash(river, job)
    river.settle()
    assert_restarted_once(river, job)
    assert any("crashed (job 1 exited with code 1)" in text for text in messages(river))


def test_a_slurm_that_forgets_jobs_within_two_seconds_is_asked_in_time(river: River) -> None:
    """The values that Slinky renders: the next look comes after a second, and nothing is waited for."""
    river.slurm.min_job_age = 2
    ends = JobEnds(river.slurm, river._submit, river.own, 30.0)
    pause = ends.pause()
    job = river.submit_job()
    crash(river, job)
    ended = river.clock.now()
    river.clock.advance(pause)
    ends.look()
    river.settle()
    (requeue,) = [write for write in river.slurm.writes if write.op == "requeue"]
    assert requeue.at - ended < river.slurm.min_job_age
    assert_restarted_once(river, job)


def test_a_requeue_that_slurmctld_forgot_is_asked_for_once_more(river: River) -> None:
    kills = [1, 1]

    def after(op: str, _target: str) -> None:
        if op == "requeue" and kills:
            river.clock.advance(1.0)
            river.slurm.kill_ctld(forget=kills.pop())

    river.slurm.after = after
    job = river.submit_job()
    crash(river, job)
    river.settle()
    assert river.job(job).state == "FAILED"
    assert river.slurm.count("requeue", str(job)) == 2
    assert [one.state for one in river.all_incidents()] == ["closed"]


def test_a_new_life_of_the_controller_replays_nothing(river: River) -> None:
    job = river.submit_job()
    crash(river, job)
    river.settle()
    crash(river, job)
    river.settle(20.0)
    river.begin()
    river.settle(300.0)
    assert river.slurm.count("requeue", str(job)) == 2
    assert river.job(job).restart_count == 2


def test_a_job_that_crashes_again_and_again_is_left_failed_and_its_owner_told(river: River) -> None:
    river.limits = Limits(restarts=2)
    river.begin()
    job = river.submit_job()
    for _ in range(4):
        if river.job(job).state == "RUNNING":
            crash(river, job)
        river.settle()
    assert (river.job(job).state, river.job(job).restart_count) == ("FAILED", 2)
    assert any("restarted 2 times and crashed again" in text for text in messages(river))


LEFT: dict[str, dict[str, Any]] = {
    "no-requeue": {"requeue": False},
    "interactive": {"batch": False},
    "opted out": {"comment": "a, remediator:leave"},
    "scrontab": {"traits": frozenset({"CRON_JOB"})},
}


@pytest.mark.parametrize("fields", LEFT.values(), ids=LEFT)
def test_a_job_that_may_not_be_requeued_stays_failed(river: River, fields: dict[str, Any]) -> None:
    job = river.submit_job(**fields)
    crash(river, job)
    river.settle()
    assert river.job(job).state == "FAILED"
    assert river.slurm.writes == []


@pytest.mark.parametrize("code", [130, 143])
def test_a_job_that_was_asked_to_end_is_no_crash(river: River, code: int) -> None:
    job = river.submit_job()
    crash(river, job, code)
    river.settle()
    assert river.slurm.writes == []
    assert_no_strike(river)


@pytest.mark.parametrize(
    "state", ["CANCELLED", "TIMEOUT", "PREEMPTED", "OUT_OF_MEMORY", "DEADLINE", "COMPLETED"]
)
def test_other_ends_are_no_crash(river: River, state: str) -> None:
    job = river.submit_job()
    river.slurm._end(river.slurm._jobs[job], state)
    river.settle()
    assert river.slurm.writes == []
    assert_no_strike(river)


def test_a_users_own_requeue_is_no_crash(river: River) -> None:
    job = river.submit_job()
    river.slurm.requeue(river.job(job), deadline=5.0)
    river.slurm.writes.clear()
    river.settle()
    assert river.slurm.writes == []
    assert_no_strike(river)


def assert_no_strike(river: River) -> None:
    with river.store.read() as connection:
        assert strikes.jobs_between(connection, 0.0, river.clock.now()) == 0


QUIET = {
    "restart_failed_jobs is off": {"restart_failed_jobs": False},
    "the pool only observes": {"stage": "observe"},
    "jobs stay in this pool": {"stage": "drain-only"},
}


@pytest.mark.parametrize("changes", QUIET.values(), ids=QUIET)
def test_a_pool_decides_whether_failed_jobs_are_restarted(river: River, changes: dict[str, Any]) -> None:
    river.pools = pool(**changes)
    river.begin()
    job = river.submit_job()
    crash(river, job)
    river.settle()
    assert river.job(job).state == "FAILED"
    assert river.slurm.writes == []
    with river.store.read() as connection:
        assert strikes.jobs_between(connection, 0.0, river.clock.now()) == 1


def test_what_ended_before_the_first_look_is_left_alone(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.pools = pool()
    river.begin()
    job = river.submit_job()
    crash(river, job)
    river.clock.advance(2.0)
    river.settle()
    assert river.slurm.writes == []


@pytest.mark.parametrize("wait", [0.0, 0.3, 0.6, 1.5])
def test_a_job_that_crashes_with_its_node_is_restarted_and_counts_nothing(river: River, wait: float) -> None:
    """The usual end of a GPU: the job notices before anybody could ask it to save."""
    river.pools = pool(restart_failed_jobs=False)
    river.begin()
    job = river.submit_job(save=5.0)
    river.clock.advance(10.0)
    river.xid("gpu-0")
    until = river.clock.now() + wait
    while river.clock.now() < until:
        river.turn()
    asked = river.slurm.count("requeue", str(job))
    if not asked:
        river.slurm.fail(job)
    river.settle(200.0)
    seen = river.job(job)
    assert (seen.state, seen.restart_count) == ("RUNNING", 1)
    assert "gpu-0" not in {river.worker_node(worker) for worker in seen.nodes}
    assert river.slurm.count("requeue", str(job)) == 1
    assert {one.state for one in river.all_incidents()} == {"closed"}
    assert_no_strike(river)
