"""What DOWN does to a node and to whatever runs there."""

from __future__ import annotations

import pytest

from remediator.errors import BadInput
from tests.contract.slurm.worlds import DEADLINE, Spec, World, job, node, queued, running, started

REASON = "remediator: inc-1 silent node"


def test_a_node_that_is_set_down_keeps_its_drain(world: World) -> None:
    world.port.drain("gpu-0", "remediator: inc-1 XID 79", deadline=DEADLINE)
    world.port.set_down("gpu-0", REASON, deadline=DEADLINE)
    seen = node(world, "gpu-0")
    assert (seen.is_down, seen.is_drain, seen.is_busy) == (True, True, False)
    assert (seen.reason, seen.reason_user) == (REASON, "slurm")
    assert not node(world, "gpu-1").is_down
    assert world.downs("gpu-0") == 1


def test_down_requeues_the_run_at_once_and_delays_the_next(world: World) -> None:
    before = running(world, world.submit(Spec(save=3)))
    world.port.set_down(before.nodes[0], REASON, deadline=DEADLINE)
    after = job(world, before.job_id)
    assert (after.state, after.is_completing, after.nodes) == ("PENDING", False, ())
    assert after.restart_count == 1
    assert after.begin_time is not None
    assert 119 <= after.begin_time - after.submit_time <= 123


def test_down_lets_the_other_nodes_of_the_run_save(world: World) -> None:
    before = started(world, Spec(save=4, nodes=2))
    first, other = before.nodes  # the batch script runs on the first one
    world.port.set_down(other, REASON, deadline=DEADLINE)
    saving = job(world, before.job_id)
    assert (saving.state, saving.is_completing, saving.nodes) == ("PENDING", True, (first,))
    after = queued(world, before.job_id)
    assert (after.restart_count, after.nodes) == (1, ())


def test_down_ends_the_saving_of_a_requeued_run(world: World) -> None:
    before = started(world, Spec(save=5))
    world.port.requeue(before, deadline=DEADLINE)
    world.port.set_down(before.nodes[0], REASON, deadline=DEADLINE)
    after = job(world, before.job_id)
    assert (after.state, after.is_completing, after.restart_count) == ("PENDING", False, 1)


@pytest.mark.parametrize("batch", [True, False])
def test_down_ends_a_job_that_may_not_be_requeued(world: World, batch: bool) -> None:
    job_id = world.submit(Spec(requeue=False)) if batch else world.submit_interactive()
    before = running(world, job_id)
    world.port.set_down(before.nodes[0], REASON, deadline=DEADLINE)
    after = job(world, job_id)
    assert (after.state, after.is_over, after.restart_count) == ("NODE_FAIL", True, 0)


@pytest.mark.parametrize("kind", ["afternotok", "afterany"])
def test_a_dependent_stays_blocked_when_its_parent_loses_its_node(world: World, kind: str) -> None:
    before = running(world, world.submit(Spec()))
    dependent = world.submit(Spec(dependency=f"{kind}:{before.job_id}"))
    world.port.set_down(before.nodes[0], REASON, deadline=DEADLINE)
    world.port.start_now(before.job_id, deadline=DEADLINE)
    running(world, before.job_id, restarts=1)
    assert job(world, dependent).state == "PENDING"


def test_repeating_a_down_changes_nothing(world: World) -> None:
    world.port.set_down("gpu-0", REASON, deadline=DEADLINE)
    first = node(world, "gpu-0")
    world.port.set_down("gpu-0", REASON, deadline=DEADLINE)
    assert node(world, "gpu-0").reason_at == first.reason_at


def test_a_resumed_node_is_silent_for_a_moment_and_then_takes_jobs(world: World) -> None:
    world.port.set_down("gpu-0", REASON, deadline=DEADLINE)
    world.port.resume("gpu-0", deadline=DEADLINE)
    seen = node(world, "gpu-0")
    assert (seen.state, seen.reason, seen.is_silent) == ("IDLE", "", True)
    world.until("an answer of gpu-0", lambda: not node(world, "gpu-0").is_silent)
    assert running(world, world.submit(Spec(nodes="gpu-0"))).nodes == ("gpu-0",)


def test_an_unknown_node_cannot_be_set_down(world: World) -> None:
    with pytest.raises(BadInput, match="no such node"):
        world.port.set_down("nope", REASON, deadline=DEADLINE)


@pytest.mark.parametrize("name", ["ALL", "gpu-[0-2]", "gpu-0,gpu-1", "../jobs", "", "gpu-0\n"])
def test_only_one_literal_node_can_be_set_down(world: World, name: str) -> None:
    with pytest.raises(BadInput, match="literal"):
        world.port.set_down(name, REASON, deadline=DEADLINE)
    assert not any(n.is_down for n in world.port.nodes(deadline=DEADLINE))
