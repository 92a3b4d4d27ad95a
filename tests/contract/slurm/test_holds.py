"""A hold keeps a job that lost its node from starting, for as long as it stands."""

from __future__ import annotations

import pytest

from remediator.errors import BadInput, Blocked
from tests.contract.slurm.worlds import DEADLINE, Spec, World, job, queued, running, started

REASON = "remediator: inc-1 silent node"


def test_a_held_job_starts_nowhere_before_it_is_released(world: World) -> None:
    """The other job shows that the scheduler has been by since the delay was lifted."""
    lost = running(world, world.submit(Spec()))
    world.port.set_down(lost.nodes[0], REASON, deadline=DEADLINE)
    world.port.hold_job(lost.job_id, deadline=DEADLINE)
    world.port.hold_job(lost.job_id, deadline=DEADLINE)
    world.port.start_now(lost.job_id, deadline=DEADLINE)
    running(world, world.submit(Spec()))
    seen = job(world, lost.job_id)
    assert (seen.state, seen.held, seen.state_reason) == ("PENDING", True, "JobHeldAdmin")
    world.port.unhold_job(lost.job_id, deadline=DEADLINE)
    world.port.start_now(lost.job_id, deadline=DEADLINE)
    after = running(world, lost.job_id, restarts=1)
    assert not after.held
    assert lost.nodes[0] not in after.nodes


def test_a_job_can_be_held_while_its_other_nodes_save(world: World) -> None:
    before = started(world, Spec(save=4, nodes=2))
    world.port.set_down(before.nodes[1], REASON, deadline=DEADLINE)
    assert job(world, before.job_id).is_completing
    world.port.hold_job(before.job_id, deadline=DEADLINE)
    after = queued(world, before.job_id)
    assert (after.held, after.restart_count) == (True, 1)
    world.port.unhold_job(before.job_id, deadline=DEADLINE)
    world.port.unhold_job(before.job_id, deadline=DEADLINE)
    assert not job(world, before.job_id).held


def test_only_a_job_that_is_there_and_not_over_can_be_held(world: World) -> None:
    over = world.submit(Spec(fails=True))
    world.until("the failure", lambda: job(world, over).is_over)
    with pytest.raises(Blocked, match="over"):
        world.port.hold_job(over, deadline=DEADLINE)
    with pytest.raises(BadInput, match="no such job"):
        world.port.hold_job(999_999, deadline=DEADLINE)
