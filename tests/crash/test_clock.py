"""The controller's clock is set while it works or is away: no grace ends sooner, and nothing stands still."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.audit import chain
from tests.crash.test_river import MUTATING, assert_moved_once
from tests.fakes.river import Crash, River

SET_BY = (3600.0, -3600.0)
IN_TIME_S = 120.0
set_by = pytest.mark.parametrize("seconds", SET_BY, ids=["forward", "back"])
MOMENTS = [f"{step}:accepted" for step in MUTATING if step != "free-place"]
any_moment = pytest.mark.parametrize("moment", MOMENTS)


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


def assert_moved_in_time(river: River, job: int, began: float) -> None:
    """As if nobody had touched the clock."""
    assert_moved_once(river, job)
    assert river.clock.now() - began < IN_TIME_S
    assert river.slurm.has_saved(job)
    assert river.slurm.count("start_now", str(job)) == 1
    assert {write.op for write in river.slurm.writes}.isdisjoint({"set_down", "resume"})


@set_by
@any_moment
def test_a_clock_that_is_set_at_any_moment_changes_nothing(river: River, moment: str, seconds: float) -> None:
    job, began = river.submit_job(save=5.0), river.clock.now()
    left = [moment]

    def probe(now: str) -> None:
        if [now] == left:
            river.own.set_by += seconds
            left.clear()

    river.probe = probe
    river.xid("gpu-0")
    river.run()
    assert not left
    assert_moved_in_time(river, job, began)
    with river.store.read() as connection:
        (told,) = (record["why"] for record in chain.read(connection) if record["action"] == "clock-set")
    assert f"{'forward' if seconds > 0 else 'back'} by 3600 s" in told


@set_by
@pytest.mark.parametrize("moment", ["drain-slurm:accepted", "release-jobs:accepted", "evict-pods:intent"])
def test_so_it_is_when_it_is_set_while_nobody_runs(river: River, moment: str, seconds: float) -> None:
    job, began = river.submit_job(save=5.0), river.clock.now()
    river.crash_at(moment)
    river.xid("gpu-0")
    with pytest.raises(Crash):
        river.run()
    river.clock.advance(2.0)
    river.own.set_by += seconds
    river.begin()
    river.run()
    assert_moved_in_time(river, job, began)


@pytest.mark.parametrize("later", [5.0, 50.0])
def test_a_clock_that_is_set_forward_takes_no_job_its_grace(river: River, later: float) -> None:
    """After 180 s the node would be set DOWN, and the job there would save no more."""
    river.slurm.kill_wait = 120
    job = river.submit_job(save=100.0)
    river.xid("gpu-0")
    while not river.slurm.count("requeue", str(job)):
        river.turn()
    until = river.clock.now() + later
    while river.clock.now() <= until:
        river.turn()
    river.own.set_by += 3600.0
    river.run()
    assert_moved_once(river, job)
    assert river.slurm.has_saved(job)
    assert "set_down" not in {write.op for write in river.slurm.writes}


@set_by
def test_a_clock_that_is_wrong_all_the_time_delays_no_job(river: River, seconds: float) -> None:
    river.own.set_by = seconds
    river.begin()
    job, began = river.submit_job(save=5.0), river.clock.now()
    river.xid("gpu-0")
    river.run()
    assert_moved_in_time(river, job, began)
