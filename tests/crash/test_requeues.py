"""A job under which machine after machine fails: its next requeue is held, once, and it is told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.settings import Requeues, Stage
from remediator.store import outbox
from slurm_bridge.model import SlurmJob
from tests.crash.test_override import resume
from tests.crash.test_silence import SICK, freeze, power_off
from tests.fakes.river import River
from tests.fakes.slurm_ctld import REQUEUE_DELAY

STEPS = ("release-jobs", "start-jobs")
MOMENTS = [f"{step}:{moment}" for step in STEPS for moment in ("intent", "accepted")]


def river_with(folder: Path, requeues: Requeues, spares: int, stage: Stage = "full") -> River:
    river = River(folder, spares=spares, stage=stage)
    river.requeues = requeues
    river.begin()
    return river


def lose_a_machine(river: River, job: int) -> SlurmJob:
    """The machine under the job fails for good; what the job has become when all is over."""
    node = river.worker_node(river.job(job).nodes[0])
    assert node is not None
    river.xid(node, boot=river.kube.view(node).boot_id)
    river.run_through_crashes()
    assert river.open_incidents() == []
    return river.job(job)


def messages(river: River, audience: str) -> list[str]:
    with river.store.read() as connection:
        assert chain.verify(connection).ok
        found = [one.message for one in outbox.due(connection, river.clock.now() + 1)]
    return [message.text for message in found if message.audience == audience]


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_requeue_over_the_cap_ends_held_once(tmp_path: Path, moment: str) -> None:
    river = river_with(tmp_path, Requeues(per_job=1), spares=2)
    job = river.submit_job(width=1)
    assert lose_a_machine(river, job).state == "RUNNING"
    crashed = river.crash_at(moment)
    held = lose_a_machine(river, job)
    assert crashed == [moment]
    assert (held.state, held.held, held.state_reason) == ("PENDING", True, "JobHeldUser")
    assert (held.restart_count, held.reservation) == (2, "")
    asked = [write.detail for write in river.slurm.writes if write.op == "requeue" and write.effect]
    assert asked == ["", "held"]
    mine = [text for text in messages(river, "user:alice") if f"scontrol release {job}" in text]
    assert len(mine) == 2  # what is to come, and that it has come
    assert any("is held: 1 other machines" in text for text in messages(river, "operators"))


def test_a_held_job_starts_as_soon_as_its_owner_releases_it(tmp_path: Path) -> None:
    river = river_with(tmp_path, Requeues(per_job=1), spares=2)
    job = river.submit_job(width=1)
    lose_a_machine(river, job)
    assert lose_a_machine(river, job).held
    river.slurm.release(job)
    river.clock.advance(2.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 2)


def lost_twice(folder: Path, *moments: str, stage: Stage = "full") -> tuple[River, int, list[str]]:
    """A job over the cap of one, first off a failing machine, then off one that falls silent under it."""
    river = river_with(folder, Requeues(per_job=1), 2, stage)
    job = river.submit_job()
    river.xid("gpu-1")
    river.run()
    assert (river.job(job).state, SICK in river.job(job).nodes) == ("RUNNING", True)
    crashed = river.crash_at(*moments)
    freeze(river)
    river.run_through_crashes(20.0)
    return river, job, crashed


def assert_held_by_us(river: River, job: int) -> None:
    seen = river.job(job)
    assert (seen.state, seen.held, seen.restart_count) == ("PENDING", True, 2)
    counts = {op: river.slurm.count(op, str(job)) for op in ("requeue", "hold_job", "unhold_job")}
    assert counts == {"requeue": 1, "hold_job": 1, "unhold_job": 0}


@pytest.mark.parametrize("moment", ["hold-jobs:intent", "hold-jobs:accepted"])
def test_a_job_over_the_cap_that_loses_a_silent_machine_is_held_also_with_proof(
    tmp_path: Path, moment: str
) -> None:
    river, job, crashed = lost_twice(tmp_path, moment)
    power_off(river)
    river.run(2 * REQUEUE_DELAY)
    assert crashed == [moment]
    assert_held_by_us(river, job)
    assert any("an operator lets it go" in text for text in messages(river, "user:alice"))


def test_a_person_who_takes_the_node_over_does_not_let_its_held_job_go(tmp_path: Path) -> None:
    river, job, _ = lost_twice(tmp_path, stage="move-jobs")
    resume(river)
    river.kube.reboot("gpu-0", "boot-after-power-on")
    river.run(2 * REQUEUE_DELAY)
    assert river.all_incidents()[0].state == "overridden"
    assert_held_by_us(river, job)


def test_by_default_the_fourth_machine_is_one_too_many_whoever_counts(tmp_path: Path) -> None:
    """A new controller begins after each: the count is in the store."""
    river = river_with(tmp_path, Requeues(), spares=4)
    job = river.submit_job(width=1)
    for restart in range(1, 4):
        moved = lose_a_machine(river, job)
        assert (moved.state, moved.restart_count) == ("RUNNING", restart)
        river.begin()
    assert lose_a_machine(river, job).held


def test_a_job_that_has_computed_for_hours_is_never_held(tmp_path: Path) -> None:
    river = river_with(tmp_path, Requeues(per_job=1), spares=3)
    job = river.submit_job(width=1)
    for restart in range(1, 4):
        river.clock.advance(4000.0)
        moved = lose_a_machine(river, job)
        assert (moved.state, moved.restart_count) == ("RUNNING", restart)
