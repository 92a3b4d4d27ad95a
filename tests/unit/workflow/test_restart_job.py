"""A crashed run is requeued only while it lies there FAILED, as the very run that crashed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.model.plan import Done, Wait
from remediator.workflow.steps.restart_job import RestartJob
from slurm_bridge.model import SlurmJob
from tests.unit.workflow.bench import JOB, Bench

STEP = RestartJob()
CRASHED = replace(JOB, state="FAILED")


class Requeues:
    """A bench whose Slurm writes down what it is asked to requeue."""

    def __init__(self, *jobs: SlurmJob) -> None:
        self.bench = Bench()
        self.bench.slurm.listed = list(jobs)
        self.asked: list[str] = []
        self.bench.slurm.requeue = lambda job, *, held=False, deadline: self.asked.append(job.address)  # type: ignore[method-assign]


def test_a_crashed_run_is_requeued_and_the_ctld_that_took_it_is_noted() -> None:
    world = Requeues(CRASHED)
    assert STEP.check(world.bench.see()) is None
    taken = STEP.act(world.bench.see())
    assert world.asked == ["7"]
    assert isinstance(taken, Wait)
    started = world.bench.slurm.config(deadline=5.0).started_at
    assert taken.facts == {"requeued": {"run": "7.100.0", "ctld_started": started}}


SETTLED = {
    "forgotten by Slurm": (None, "no longer known"),
    "requeued": (replace(CRASHED, state="PENDING", restart_count=1, nodes=()), "requeued as restart 1"),
    "the next run": (replace(CRASHED, state="RUNNING", restart_count=1, submit_time=130), "restart 1"),
    "the next run crashed": (replace(CRASHED, restart_count=1, submit_time=130), "restart 1"),
    "cancelled since": (replace(CRASHED, state="CANCELLED"), "is CANCELLED"),
    "opted out since": (replace(CRASHED, comment="remediator:leave"), "its comment says remediator:leave"),
    "Requeue=0 since": (replace(CRASHED, requeue=False), "--no-requeue"),
}


@pytest.mark.parametrize(("job", "why"), SETTLED.values(), ids=SETTLED)
def test_anything_else_is_left_as_it_is(job: SlurmJob | None, why: str) -> None:
    world = Requeues(*([job] if job else []))
    seen = STEP.check(world.bench.see())
    assert isinstance(seen, Done)
    assert why in seen.sentence
    STEP.act(world.bench.see())
    assert world.asked == []


@pytest.mark.parametrize(
    "job", [replace(CRASHED, state="UNKNOWN"), replace(CRASHED, flags=frozenset({"COMPLETING"}))]
)
def test_an_end_that_cannot_be_read_is_waited_for(job: SlurmJob) -> None:
    world = Requeues(job)
    assert isinstance(STEP.check(world.bench.see()), Wait)
    STEP.act(world.bench.see())
    assert world.asked == []


def test_a_requeue_that_was_taken_and_cannot_be_seen_is_not_repeated_by_the_same_slurmctld() -> None:
    world = Requeues(CRASHED)
    started = world.bench.slurm.config(deadline=5.0).started_at
    seen = STEP.check(world.bench.see(facts={"asks": 1, "ctld_started": started}))
    assert isinstance(seen, Done)
    assert STEP.check(world.bench.see(facts={"asks": 1, "ctld_started": (started or 0) - 60})) is None
    assert isinstance(STEP.check(world.bench.see(facts={"asks": 2, "ctld_started": 1})), Done)
