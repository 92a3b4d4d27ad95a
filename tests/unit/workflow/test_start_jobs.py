"""The requeue delay is lifted only once the old processes are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.model.plan import Done, Wait
from remediator.workflow.steps.start_jobs import StartJobs
from slurm_bridge.model import SlurmJob
from tests.unit.workflow.bench import JOB, RUN, Bench

STEP = StartJobs()
NEXT = replace(JOB, state="PENDING", restart_count=1, submit_time=130, nodes=())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def delayed(bench: Bench, seconds: float) -> SlurmJob:
    return replace(NEXT, begin_time=bench.clock.now() + seconds)


@pytest.mark.parametrize("seconds", [1.1, 121.0])
def test_a_delayed_job_is_started(bench: Bench, seconds: float) -> None:
    bench.slurm.listed = [delayed(bench, seconds)]
    assert STEP.check(bench.see()) is None
    STEP.act(bench.see())
    assert bench.slurm.started == [7]


def test_a_job_that_a_person_holds_loses_only_the_delay(bench: Bench) -> None:
    bench.slurm.listed = [replace(delayed(bench, 121.0), held=True)]
    assert STEP.check(bench.see()) is None


@pytest.mark.parametrize("begin", [None, -5.0, 0.5])
def test_a_job_without_a_delay_needs_nothing(bench: Bench, begin: float | None) -> None:
    job = NEXT if begin is None else delayed(bench, begin)
    bench.slurm.listed = [job]
    assert isinstance(STEP.check(bench.see()), Done)


def test_while_it_saves_the_delay_stands(bench: Bench) -> None:
    """slurmctld sets the delay at the end of COMPLETING: lifted before, it would come back."""
    saving = replace(delayed(bench, 121.0), flags=frozenset({"COMPLETING"}))
    bench.slurm.listed = [saving]
    assert isinstance(STEP.check(bench.see()), Wait)


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLED", "COMPLETED", "FAILED", "SUSPENDED"])
def test_a_job_that_does_not_wait_needs_no_start(bench: Bench, state: str) -> None:
    bench.slurm.listed = [replace(NEXT, state=state)]
    done = STEP.check(bench.see())
    assert isinstance(done, Done)
    assert state in done.sentence


def test_a_job_whose_state_cannot_be_read_is_looked_at_again(bench: Bench) -> None:
    bench.slurm.listed = [replace(NEXT, state="UNKNOWN")]
    assert isinstance(STEP.check(bench.see()), Wait)


def test_a_forgotten_job_needs_no_start(bench: Bench) -> None:
    assert isinstance(STEP.check(bench.see()), Done)


def test_a_job_that_is_still_the_old_run_keeps_its_owners_begin_time(bench: Bench) -> None:
    waiting = replace(JOB, state="PENDING", nodes=(), begin_time=bench.clock.now() + 3600)
    bench.slurm.listed = [waiting]
    assert isinstance(STEP.check(bench.see()), Done)


def test_an_array_task_is_started_by_its_own_job_id(bench: Bench) -> None:
    task = replace(delayed(bench, 121.0), job_id=12, array_job_id=9, array_task_id=3)
    run = RUN.model_copy(update={"job_id": 12, "address": "9_3"})
    bench.slurm.listed = [task]
    STEP.act(bench.see(run=run))
    assert bench.slurm.started == [12]
    assert "9_3" in STEP.intention(bench.incident, run)
