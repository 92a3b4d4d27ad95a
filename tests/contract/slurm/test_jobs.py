"""What every Slurm backend does with jobs, native requeue above all."""

from __future__ import annotations

from math import inf

import pytest

from remediator.errors import BadInput, Blocked
from slurm_bridge.model import SlurmJob
from tests.contract.slurm.worlds import DEADLINE, Spec, World, job, node, queued, running, started


def test_an_unknown_job_is_none(world: World) -> None:
    assert world.port.job(999_999, deadline=DEADLINE) is None


def test_a_running_batch_job_shows_who_and_where(world: World) -> None:
    seen = running(world, world.submit(Spec(comment="remediator:leave")))
    assert (seen.name, seen.user, seen.partition) == ("train", "alice", "gpu")
    assert seen.batch
    assert seen.requeue
    assert not seen.held
    assert len(seen.nodes) == 1
    assert seen.comment == "remediator:leave"
    assert seen.address == str(seen.job_id)
    assert seen.restart_count == 0
    assert seen.submit_time > 0
    assert seen.start_time is not None
    assert seen in world.port.jobs(deadline=DEADLINE)


@pytest.mark.parametrize(("nodes", "each"), [(1, 8), (2, 8), (2, 3)])
def test_a_running_job_shows_its_gpus_on_all_its_nodes(world: World, nodes: int, each: int) -> None:
    """Also without accounting: neither of these has AccountingStorageTRES=gres/gpu."""
    seen = running(world, world.submit(Spec(nodes=nodes, gpus=each)))
    assert seen.gpus == nodes * each
    assert seen in world.port.jobs(deadline=DEADLINE)


def test_requeue_keeps_the_nodes_while_the_job_saves(world: World) -> None:
    before = started(world, Spec(save=4))
    world.port.requeue(before, deadline=DEADLINE)
    saving = job(world, before.job_id)
    assert (saving.state, saving.is_completing, saving.holds_nodes) == ("PENDING", True, True)
    assert saving.nodes == before.nodes
    assert saving.restart_count == 1
    assert saving.run != before.run
    assert node(world, before.nodes[0]).is_busy


def test_a_requeued_job_waits_121_seconds_with_no_nodes(world: World) -> None:
    before = running(world, world.submit(Spec()))
    world.port.requeue(before, deadline=DEADLINE)
    after = queued(world, before.job_id)
    assert after.nodes == ()
    assert after.restart_count == 1
    assert after.submit_time >= before.submit_time
    assert after.begin_time is not None
    assert 119 <= after.begin_time - after.submit_time <= 123
    assert world.requeues(before.address) == 1


def test_requeue_again_before_the_new_run_starts_has_no_effect(world: World) -> None:
    before = started(world, Spec(save=4))
    world.port.requeue(before, deadline=DEADLINE)
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    world.port.requeue(before, deadline=DEADLINE)
    assert queued(world, before.job_id).restart_count == 1
    assert world.requeues(before.address) == 1


def test_start_now_lifts_the_delay_and_avoids_drained_nodes(world: World) -> None:
    before = running(world, world.submit(Spec()))
    world.port.drain(before.nodes[0], "remediator: inc-1 XID 79", deadline=DEADLINE)
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    world.port.start_now(before.job_id, deadline=DEADLINE)
    after = running(world, before.job_id, restarts=1)
    assert set(after.nodes).isdisjoint(before.nodes)
    assert not node(world, before.nodes[0]).is_busy


def test_a_requeue_of_the_new_run_kills_it(world: World) -> None:
    """Why the run is read again right before every requeue."""
    before = running(world, world.submit(Spec()))
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    world.port.start_now(before.job_id, deadline=DEADLINE)
    running(world, before.job_id, restarts=1)
    world.port.requeue(before, deadline=DEADLINE)
    assert queued(world, before.job_id).restart_count == 2
    assert world.requeues(before.address) == 2


def test_a_failed_job_that_slurm_remembers_can_be_requeued(world: World) -> None:
    """What is left to do for a run whose requeue slurmctld forgot after TERM was sent."""
    job_id = world.submit(Spec(fails=True))
    world.until("the failure", lambda: job(world, job_id).is_over)
    before = job(world, job_id)
    assert (before.state, before.exit.code, before.restart_count) == ("FAILED", 1, 0)
    world.port.requeue(before, deadline=DEADLINE)
    after = job(world, job_id)
    assert (after.state, after.is_completing, after.restart_count) == ("PENDING", False, 1)
    assert after.nodes == ()
    assert after.begin_time is not None
    assert 119 <= after.begin_time - after.submit_time <= 123


def test_a_cancelled_job_comes_back_when_it_is_requeued(world: World) -> None:
    """Why only a run that did not end by itself may be requeued."""
    job_id = running(world, world.submit(Spec())).job_id
    world.cancel(job_id)
    world.until("the end", lambda: job(world, job_id).is_over)
    world.port.requeue(job(world, job_id), deadline=DEADLINE)
    assert (job(world, job_id).state, job(world, job_id).restart_count) == ("PENDING", 1)


def test_a_job_that_ignores_term_is_gone_after_kill_wait(world: World) -> None:
    before = started(world, Spec(save=inf))
    world.port.requeue(before, deadline=DEADLINE)
    after = queued(world, before.job_id)
    assert after.begin_time is not None
    assert after.restart_count == 1


def test_start_now_on_a_running_job_changes_nothing(world: World) -> None:
    before = running(world, world.submit(Spec()))
    world.port.start_now(before.job_id, deadline=DEADLINE)
    assert running(world, before.job_id).run == before.run


def test_a_job_that_may_not_be_requeued_is_blocked_and_runs_on(world: World) -> None:
    before = running(world, world.submit(Spec(requeue=False)))
    assert not before.requeue
    with pytest.raises(Blocked, match="Requeue=0"):
        world.port.requeue(before, deadline=DEADLINE)
    assert job(world, before.job_id).state == "RUNNING"


def test_a_job_without_a_batch_script_is_blocked(world: World) -> None:
    before = running(world, world.submit_interactive())
    assert not before.batch
    with pytest.raises(Blocked, match="no batch script"):
        world.port.requeue(before, deadline=DEADLINE)


def test_a_held_job_shows_that_it_is_held(world: World) -> None:
    seen = job(world, world.submit(Spec(held=True)))
    assert (seen.state, seen.held) == ("PENDING", True)


def test_writes_to_an_unknown_job_are_bad_input(world: World) -> None:
    gone = 999_999
    with pytest.raises(BadInput, match="no such job"):
        world.port.start_now(gone, deadline=DEADLINE)


@pytest.mark.parametrize("parent", ["afterok", "afternotok", "afterany"])
def test_a_dependent_stays_blocked_while_its_parent_is_requeued(world: World, parent: str) -> None:
    before = running(world, world.submit(Spec()))
    dependent = world.submit(Spec(dependency=f"{parent}:{before.job_id}"))
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    world.port.start_now(before.job_id, deadline=DEADLINE)
    running(world, before.job_id, restarts=1)
    assert job(world, dependent).state == "PENDING"


def test_only_the_named_array_task_is_requeued(world: World) -> None:
    """The last task carries the array's own id: only `1_2` says the task alone."""
    array_id = world.submit_array(Spec(), (1, 2))
    world.until("two tasks running", lambda: len(_tasks(world, array_id, "RUNNING")) == 2)
    last = next(t for t in _tasks(world, array_id, "RUNNING") if t.job_id == array_id)
    assert last.address == f"{array_id}_2"
    world.port.requeue(last, deadline=DEADLINE)
    assert queued(world, array_id).restart_count == 1
    (other,) = _tasks(world, array_id, "RUNNING")
    assert (other.address, other.restart_count) == (f"{array_id}_1", 0)
    world.port.start_now(array_id, deadline=DEADLINE)
    assert running(world, array_id, restarts=1).array_task_id == 2
    assert world.requeues(last.address) == 1


def test_a_heterogeneous_job_is_requeued_by_its_leader_only(world: World) -> None:
    leader_id = world.submit_het(Spec())
    leader, member = running(world, leader_id), running(world, leader_id + 1)
    assert (member.het_job_id, member.het_job_offset) == (leader_id, 1)
    with pytest.raises(BadInput, match="leader"):
        world.port.requeue(member, deadline=DEADLINE)
    world.port.requeue(leader, deadline=DEADLINE)
    assert queued(world, leader_id).restart_count == 1
    assert queued(world, leader_id + 1).restart_count == 1


def _tasks(world: World, array_id: int, state: str) -> list[SlurmJob]:
    found = world.port.jobs(deadline=DEADLINE)
    return [j for j in found if j.array_job_id == array_id and j.state == state]


def test_states_are_told_under_each_jobs_own_id(world: World) -> None:
    waits, array = world.submit(Spec(later=True)), world.submit_array(Spec(), (1, 2))
    world.until("both tasks", lambda: len(running_ids(world)) == 2)
    failed = world.submit(Spec(fails=True))  # the last: a short MinJobAge lets it be forgotten soon
    world.until("the failure", lambda: job(world, failed).is_over)
    states = world.port.job_states(deadline=DEADLINE)
    assert {(failed, "FAILED"), (waits, "PENDING"), (array, "RUNNING")} <= set(states)
    assert {job_id for job_id, state in states if state == "RUNNING"} == running_ids(world)


def test_states_are_told_of_each_part_of_a_het_job(world: World) -> None:
    world.submit_het(Spec())
    world.until("both parts", lambda: len(running_ids(world)) == 2)
    states = world.port.job_states(deadline=DEADLINE)
    assert {job_id for job_id, state in states if state == "RUNNING"} == running_ids(world)


def running_ids(world: World) -> set[int]:
    return {seen.job_id for seen in world.port.jobs(deadline=DEADLINE) if seen.state == "RUNNING"}
