"""Every run that holds a drained node, whatever Slurm calls its state; a contradiction is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.errors import Retry
from remediator.model.plan import Done, Wait
from remediator.model.run import JobRun
from remediator.workflow.steps.survey import Survey, run_of
from slurm_bridge.model import SlurmJob
from tests.unit.workflow.bench import JOB, RUN, Bench

STEP = Survey()
SICK = frozenset({"w-0"})
HERE = {
    "running": JOB,
    "suspended": replace(JOB, state="SUSPENDED"),
    "saving": replace(JOB, state="PENDING", flags=frozenset({"COMPLETING"}), restart_count=1),
    "ended but completing": replace(JOB, state="COMPLETED", flags=frozenset({"COMPLETING"})),
    "in a state nobody knows": replace(JOB, state="UNKNOWN"),
}
ELSEWHERE = {
    "pending": replace(JOB, state="PENDING", nodes=()),
    "held": replace(JOB, state="PENDING", nodes=(), held=True),
    "cancelled": replace(JOB, state="CANCELLED"),
    "ended": replace(JOB, state="COMPLETED"),
    "on other nodes": replace(JOB, nodes=("w-1", "w-2")),
    "on a node with a longer name": replace(JOB, nodes=("w-01",)),
}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("job", HERE.values(), ids=HERE.keys())
def test_a_job_that_holds_the_node_is_found(bench: Bench, job: SlurmJob) -> None:
    bench.slurm.listed = [job]
    found = STEP.check(bench.see())
    assert isinstance(found, Wait)
    assert found.after == 0.0
    assert [JobRun.model_validate(body).job_id for body in found.facts["runs"]] == [7]


@pytest.mark.parametrize("job", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_a_job_that_holds_it_not_is_not(bench: Bench, job: SlurmJob) -> None:
    bench.slurm.listed = [job]
    assert isinstance(STEP.check(bench.see()), Done)


def test_it_is_done_once_all_runs_are_on_the_books(bench: Bench) -> None:
    bench.slurm.listed = [JOB]
    done = STEP.check(bench.see(runs=(RUN,)))
    assert isinstance(done, Done)
    assert done.facts == {"grace_s": 6}
    assert "job runs to be moved: 1" in done.sentence
    assert "6 s" in done.sentence


def test_only_new_runs_are_told(bench: Bench) -> None:
    bench.slurm.listed = [JOB, replace(JOB, job_id=8)]
    found = STEP.check(bench.see(runs=(RUN,)))
    assert isinstance(found, Wait)
    assert [body["job_id"] for body in found.facts["runs"]] == [8]


def test_a_busy_node_without_a_job_is_unknown(bench: Bench) -> None:
    bench.slurm.mark("w-0", state="ALLOCATED")
    with pytest.raises(Retry, match="unknown"):
        STEP.check(bench.see())


def test_a_completing_node_without_a_job_is_unknown(bench: Bench) -> None:
    bench.slurm.mark("w-0", flags=frozenset({"COMPLETING"}))
    with pytest.raises(Retry):
        STEP.check(bench.see())


def test_a_quiet_node_without_a_job_has_none(bench: Bench) -> None:
    done = STEP.check(bench.see())
    assert isinstance(done, Done)
    assert "no job runs" in done.sentence


def test_all_workers_of_the_machine_are_looked_at() -> None:
    bench = Bench(slurm_nodes=("w-0", "w-2"))
    bench.slurm.listed = [replace(JOB, job_id=8, nodes=("w-2",)), replace(JOB, job_id=9, nodes=("w-1",))]
    found = STEP.check(bench.see())
    assert isinstance(found, Wait)
    assert [body["job_id"] for body in found.facts["runs"]] == [8]


def test_a_run_carries_its_identity_and_how_it_may_be_released() -> None:
    run = run_of(JOB, SICK)
    assert (run.key, run.address, run.nodes, run.release) == ("7.100.0", "7", ("w-0", "w-1"), "requeue")


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (HERE["saving"], "7.100.0"),
        (HERE["ended but completing"], "7.100.0"),
        (replace(JOB, restart_count=2), "7.100.2"),
        (replace(JOB, restart_count=2, flags=frozenset({"COMPLETING"})), "7.100.2"),
        (replace(HERE["saving"], restart_count=0), "7.100.0"),
    ],
)
def test_a_run_that_saves_keeps_the_name_it_had(job: SlurmJob, key: str) -> None:
    assert run_of(job, SICK).key == key


def test_an_array_task_is_addressed_as_a_task() -> None:
    run = run_of(replace(JOB, job_id=12, array_job_id=9, array_task_id=3), SICK)
    assert (run.job_id, run.address) == (12, "9_3")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(JOB, batch=False), "no batch script"),
        (replace(JOB, requeue=False), "--no-requeue"),
        (replace(JOB, comment="remediator:leave"), "comment"),
        (replace(JOB, required_nodes=("w-0",)), "by name"),
    ],
)
def test_a_job_that_must_be_left_alone_is_only_told(job: SlurmJob, why: str) -> None:
    run = run_of(job, SICK)
    assert run.release == "tell-only"
    assert why in run.why


def test_the_record_names_the_jobs_that_wait_for_a_run(bench: Bench) -> None:
    waiting = replace(JOB, job_id=8, state="PENDING", nodes=(), dependency="afterok:7(unfulfilled)")
    other = replace(JOB, job_id=9, state="PENDING", nodes=(), dependency="afterok:6(unfulfilled)")
    bench.slurm.listed = [JOB, waiting, other]
    found = STEP.check(bench.see())
    assert isinstance(found, Wait)
    assert [body["waited_for_by"] for body in found.facts["runs"]] == [["8"]]
