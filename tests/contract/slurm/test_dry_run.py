"""A dry run on slurmctld's own record: every write was asked for, and none arrived."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remediator.actuators.scheduler import Scheduler
from remediator.clock import SystemClock
from remediator.errors import Blocked
from remediator.guard import open_guard
from tests.contract.slurm.worlds import Spec, World, job, node


def test_in_a_dry_run_slurmctld_sees_reads_only(world: World) -> None:
    running = world.submit(Spec())
    world.until("the job to run", lambda: job(world, running).state == "RUNNING")
    seen = job(world, running)
    (host,) = seen.nodes
    before = node(world, host)
    slurm = Scheduler(world.port, open_guard(SystemClock(), dry_run=True))
    writes: list[Callable[[], object]] = [
        lambda: slurm.drain(host, "remediator: x"),
        lambda: slurm.set_down(host, "remediator: x"),
        lambda: slurm.resume(host),
        lambda: slurm.requeue(seen),
        lambda: slurm.start_now(running),
        lambda: slurm.reserve("place", [host], ["root"], 15),
        lambda: slurm.resize_reservation("place", [host]),
        lambda: slurm.delete_reservation("place"),
        lambda: slurm.set_job_reservation(running, "place"),
    ]
    counted = world.drains(host), world.downs(host), world.requeues(str(running))
    for write in writes:
        with pytest.raises(Blocked, match="dry_run is on"):
            write()
    assert (world.drains(host), world.downs(host), world.requeues(str(running))) == counted
    assert slurm.reservations() == ()
    after = node(world, host)
    assert (after.state, after.flags, after.reason) == (before.state, before.flags, before.reason)
    assert job(world, running).restart_count == 0
    world.cancel(running)
