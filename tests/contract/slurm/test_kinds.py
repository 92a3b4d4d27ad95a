"""Each row of the table of job kinds: a job of that kind on a real slurmctld, and why the row is as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remediator.errors import Blocked
from slurm_bridge.either import EitherSlurm
from slurm_bridge.kinds import LEAVE_TOKEN, TABLE, classify
from slurm_bridge.model import SlurmJob
from tests.contract.slurm.worlds import DEADLINE, Spec, World, job, node, queued, running, started

DRAIN = "remediator: inc-1 XID 79"
UNMAKEABLE = {"unknown"}  # no Slurm shows a job without a state: that row is for answers nobody can read


def _over(world: World) -> SlurmJob:
    job_id = world.submit(Spec(fails=True))
    world.until("the failure", lambda: job(world, job_id).is_over)
    return job(world, job_id)


def _suspended(world: World) -> SlurmJob:
    job_id = started(world, Spec()).job_id
    world.suspend(job_id)
    world.until("the suspension", lambda: job(world, job_id).state == "SUSPENDED")
    return job(world, job_id)


def _held(world: World) -> SlurmJob:
    job_id = started(world, Spec()).job_id
    world.hold(job_id)
    return job(world, job_id)


def _het(world: World, offset: int) -> SlurmJob:
    return running(world, world.submit_het(Spec()) + offset)


KINDS: dict[str, Callable[[World], SlurmJob]] = {
    "over": _over,
    "leave": lambda world: running(world, world.submit(Spec(comment=LEAVE_TOKEN))),
    "scrontab": lambda world: job(world, world.submit_cron()),
    "interactive": lambda world: running(world, world.submit_interactive()),
    "no-requeue": lambda world: running(world, world.submit(Spec(requeue=False))),
    "required-nodes": lambda world: running(world, world.submit(Spec(nodes="gpu-0"))),
    "het-member": lambda world: _het(world, 1),
    "suspended": _suspended,
    "pending": lambda world: job(world, world.submit(Spec(later=True))),
    "held": _held,
    "expedited": lambda world: running(world, world.submit(Spec(expedite=True))),
    "het-leader": lambda world: _het(world, 0),
    "array-task": lambda world: running(world, world.submit_array(Spec(), (1, 2))),
    "batch": lambda world: running(world, world.submit(Spec())),
}


def test_every_row_has_a_job_or_a_reason_why_not() -> None:
    assert [row.release.kind for row in TABLE if row.release.kind not in UNMAKEABLE] == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_slurm_shows_what_tells_a_job_of_each_kind(world: World, kind: str) -> None:
    made = KINDS[kind](world)
    # pyslurm does not show EXPEDITED_REQUEUE; both kinds are released the same way.
    shown = "batch" if kind == "expedited" and isinstance(world.port, EitherSlurm) else kind
    assert classify(made, frozenset(made.nodes)).kind == shown


def test_a_scrontab_job_cannot_be_started_early(world: World) -> None:
    """Why it is left alone: requeued, it would wait out Slurm's delay, and its next regular time may pass."""
    cron = world.submit_cron()
    with pytest.raises(Blocked, match="scrontab"):
        world.port.start_now(cron, deadline=DEADLINE)


def test_an_expedited_job_saves_and_restarts_elsewhere_at_once(world: World) -> None:
    before = started(world, Spec(expedite=True, save=1))
    world.port.drain(before.nodes[0], DRAIN, deadline=DEADLINE)
    world.port.requeue(before, deadline=DEADLINE)
    after = running(world, before.job_id, restarts=1)
    assert world.has_saved(before.job_id)
    assert set(after.nodes).isdisjoint(before.nodes)
    assert world.requeues(before.address) == 1


def test_an_expedited_job_whose_node_goes_down_starts_again_without_delay(world: World) -> None:
    """Why DOWN is never set under one: Slurm's 121 s are what keeps two copies apart."""
    before = running(world, world.submit(Spec(expedite=True)))
    world.port.set_down(before.nodes[0], DRAIN, deadline=DEADLINE)
    after = running(world, before.job_id, restarts=1)
    assert set(after.nodes).isdisjoint(before.nodes)


def test_a_held_job_saves_and_then_waits_for_its_release(world: World) -> None:
    before = _held(world)
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    assert world.has_saved(before.job_id)
    world.port.start_now(before.job_id, deadline=DEADLINE)
    _let_the_scheduler_look(world)
    after = job(world, before.job_id)
    assert (after.state, after.held, after.restart_count) == ("PENDING", True, 1)
    assert after.state_reason == "JobHeldAdmin"


def test_a_requeue_that_ends_held_lets_the_job_save_and_its_owner_release_it(world: World) -> None:
    before = started(world, Spec())
    world.port.requeue(before, held=True, deadline=DEADLINE)
    after = queued(world, before.job_id)
    assert world.has_saved(before.job_id)
    assert (after.held, after.restart_count) == (True, 1)
    # pyslurm shows the longer text where there is one.
    assert after.state_reason in {"JobHeldUser", "job requeued in held state"}
    world.port.start_now(before.job_id, deadline=DEADLINE)
    _let_the_scheduler_look(world)
    assert job(world, before.job_id).state == "PENDING"
    world.release_by_owner(before.job_id)
    assert running(world, before.job_id, restarts=1).held is False


def test_a_job_that_has_requeued_itself_is_not_held_by_a_late_requeue(world: World) -> None:
    before = started(world, Spec(save=4))
    world.requeue_by_owner(before.job_id)
    world.port.requeue(before, held=True, deadline=DEADLINE)
    after = queued(world, before.job_id)
    assert (after.held, after.restart_count) == (False, 1)


def test_only_the_named_task_is_requeued_held_also_under_the_arrays_own_id(world: World) -> None:
    array = world.submit_array(Spec(), (1, 2))
    world.until("both tasks", lambda: len(_tasks(world, array, "RUNNING")) == 2)
    last = job(world, array)
    assert last.address == f"{array}_2"
    world.port.requeue(last, held=True, deadline=DEADLINE)
    assert queued(world, array).held
    (other,) = _tasks(world, array, "RUNNING")
    assert (other.held, other.restart_count) == (False, 0)


def test_a_het_job_is_requeued_held_as_a_whole(world: World) -> None:
    leader = running(world, world.submit_het(Spec()))
    running(world, leader.job_id + 1)
    world.port.requeue(leader, held=True, deadline=DEADLINE)
    assert [queued(world, leader.job_id + part).held for part in range(2)] == [True, True]


def test_a_requeue_of_a_suspended_job_kills_it_unsaved_and_holds_it(world: World) -> None:
    """Why a suspended job is left alone."""
    before = _suspended(world)
    world.port.requeue(before, deadline=DEADLINE)
    after = queued(world, before.job_id)
    assert not world.has_saved(before.job_id)
    assert (after.held, after.state_reason, after.restart_count) == (True, "JobHeldAdmin", 1)


def test_a_job_that_names_the_drained_node_would_not_start_again(world: World) -> None:
    """Why it is left alone."""
    before = running(world, world.submit(Spec(nodes="gpu-0")))
    assert before.required_nodes == ("gpu-0",)
    world.port.drain("gpu-0", DRAIN, deadline=DEADLINE)
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    world.port.start_now(before.job_id, deadline=DEADLINE)
    _let_the_scheduler_look(world)
    assert job(world, before.job_id).state == "PENDING"


def test_a_no_kill_job_is_told_by_nothing_and_requeued_like_another(world: World) -> None:
    before = started(world, Spec(nodes=2, no_kill=True))
    assert classify(before, frozenset(before.nodes)).kind == "batch"
    world.port.requeue(before, deadline=DEADLINE)
    assert queued(world, before.job_id).restart_count == 1
    assert world.has_saved(before.job_id)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_no_kill_job_runs_on_without_the_node_that_goes_down(world: World, lost: int) -> None:
    """Also without the node its batch script was on, so RUNNING alone proves nothing for such a job."""
    before = running(world, world.submit(Spec(nodes=2, no_kill=True)))
    world.port.set_down(before.nodes[lost], DRAIN, deadline=DEADLINE)
    world.until("the smaller job", lambda: len(job(world, before.job_id).nodes) == 1)
    after = job(world, before.job_id)
    assert (after.state, after.nodes, after.run) == ("RUNNING", (before.nodes[1 - lost],), before.run)
    assert not node(world, before.nodes[lost]).is_busy


def test_a_no_kill_job_that_loses_its_last_node_is_requeued(world: World) -> None:
    before = running(world, world.submit(Spec(no_kill=True)))
    world.port.set_down(before.nodes[0], DRAIN, deadline=DEADLINE)
    assert queued(world, before.job_id).restart_count == 1


def test_a_job_that_requeues_itself_while_it_saves_restarts_once(world: World) -> None:
    before = started(world, Spec(save=4))
    world.port.requeue(before, deadline=DEADLINE)
    world.requeue_by_owner(before.job_id)
    assert queued(world, before.job_id).restart_count == 1
    world.requeue_by_owner(before.job_id)
    assert job(world, before.job_id).restart_count == 1


def test_a_requeue_that_comes_after_the_jobs_own_has_no_effect(world: World) -> None:
    before = started(world, Spec(save=4))
    world.requeue_by_owner(before.job_id)
    world.port.requeue(before, deadline=DEADLINE)
    assert queued(world, before.job_id).restart_count == 1


def test_a_chain_of_dependents_waits_through_a_requeue(world: World) -> None:
    before = running(world, world.submit(Spec()))
    child = world.submit(Spec(dependency=f"afterok:{before.job_id}"))
    grandchild = world.submit(Spec(dependency=f"afterany:{child}"))
    world.port.requeue(before, deadline=DEADLINE)
    queued(world, before.job_id)
    world.port.start_now(before.job_id, deadline=DEADLINE)
    running(world, before.job_id, restarts=1)
    waiting = job(world, child), job(world, grandchild)
    assert [(seen.state, seen.restart_count) for seen in waiting] == [("PENDING", 0)] * 2


def test_a_task_is_requeued_without_the_tasks_that_still_wait(world: World) -> None:
    """The waiting ones are one record that carries the array's own id."""
    array = world.submit_array(Spec(), (1, 2, 3, 4, 5))
    world.until("three tasks", lambda: len(_tasks(world, array, "RUNNING")) == 3)
    first = min(_tasks(world, array, "RUNNING"), key=lambda seen: seen.array_task_id or 0)
    world.port.requeue(first, deadline=DEADLINE)
    assert queued(world, first.job_id).restart_count == 1
    others = [seen for seen in world.port.jobs(deadline=DEADLINE) if _is_another(seen, array, first)]
    assert others
    assert {(seen.restart_count, seen.held) for seen in others} == {(0, False)}
    assert job(world, array).job_id == array
    assert world.requeues(first.address) == 1


def test_lifting_the_delay_of_the_arrays_last_task_lifts_no_other_tasks(world: World) -> None:
    """It carries the array's own id, and a job's update names a number."""
    array = world.submit_array(Spec(), (1, 2))
    world.until("both tasks", lambda: len(_tasks(world, array, "RUNNING")) == 2)
    last, other = job(world, array), _tasks(world, array, "RUNNING")[0]
    other = other if other.job_id != array else _tasks(world, array, "RUNNING")[1]
    for task in (other, last):
        world.port.requeue(task, deadline=DEADLINE)
        queued(world, task.job_id)
    world.port.start_now(array, deadline=DEADLINE)
    running(world, array, restarts=1)
    waits = job(world, other.job_id)
    assert (waits.state, waits.begin_time) == ("PENDING", queued(world, other.job_id).begin_time)
    assert waits.begin_time is not None
    assert waits.begin_time - waits.submit_time > 100


def _tasks(world: World, array: int, state: str) -> list[SlurmJob]:
    found = world.port.jobs(deadline=DEADLINE)
    return [seen for seen in found if seen.array_job_id == array and seen.state == state]


def _is_another(seen: SlurmJob, array: int, task: SlurmJob) -> bool:
    return seen.array_job_id == array and seen.job_id != task.job_id


def _let_the_scheduler_look(world: World) -> None:
    """A job behind the others starts: whatever could start before it has been tried."""
    running(world, world.submit(Spec()))
