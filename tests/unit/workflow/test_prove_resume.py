"""Proof is the next run RUNNING off the sick machine; anything unclear waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.errors import Blocked
from remediator.model.plan import Done, Wait
from remediator.workflow.steps.prove_resume import ProveResume
from slurm_bridge.model import SlurmJob
from tests.unit.workflow.bench import JOB, RUN, Bench

STEP = ProveResume()
NEXT = replace(JOB, restart_count=1, submit_time=130, nodes=("w-1", "w-2"), start_time=150.0)
SAVING = frozenset({"COMPLETING"})
WAITS: dict[str, SlurmJob] = {
    "the old run": JOB,
    "the old run, saving": replace(JOB, flags=SAVING),
    "the next run, still saving": replace(NEXT, state="PENDING", flags=SAVING, nodes=("w-0",)),
    "the next run, queued": replace(NEXT, state="PENDING", nodes=()),
    "the next run, with priority 0 for another reason": replace(
        NEXT, state="PENDING", nodes=(), held=True, state_reason="BeginTime"
    ),
    "the next run, held, still saving": replace(
        NEXT, state="PENDING", flags=SAVING, held=True, state_reason="JobHeldUser"
    ),
    "the old run, suspended elsewhere": replace(JOB, state="SUSPENDED", nodes=("w-1",)),
    "the old run, its nodes unsaid": replace(JOB, nodes=()),
    "the next run, suspended": replace(NEXT, state="SUSPENDED"),
    "the next run, in its prolog": replace(NEXT, flags=frozenset({"CONFIGURING"})),
    "the next run, ending": replace(NEXT, state="COMPLETED", flags=SAVING),
    "a state nobody knows": replace(NEXT, state="UNKNOWN"),
    "the old run in a state nobody knows": replace(JOB, state="UNKNOWN"),
}
PROVEN: dict[str, SlurmJob | None] = {
    "the next run on good nodes": NEXT,
    "a later run": replace(NEXT, restart_count=3),
    "the old run ended by itself": replace(JOB, state="COMPLETED"),
    "the old run was cancelled": replace(JOB, state="CANCELLED"),
    "the next run, held": replace(NEXT, state="PENDING", nodes=(), held=True, state_reason="JobHeldUser"),
    "the next run, held as pyslurm says it": replace(
        NEXT, state="PENDING", nodes=(), held=True, state_reason="job requeued in held state"
    ),
    "the next run, held by Slurm": replace(
        NEXT, state="PENDING", nodes=(), held=True, state_reason="launch failed requeued held"
    ),
    "the old run, shrunk to its other node": replace(JOB, nodes=("w-1",)),
    "the next run ended already": replace(NEXT, state="COMPLETED"),
    "the next run was cancelled": replace(NEXT, state="CANCELLED", nodes=()),
    "forgotten by Slurm": None,
}


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("job", WAITS.values(), ids=WAITS.keys())
def test_it_waits_for(bench: Bench, job: SlurmJob) -> None:
    bench.slurm.listed = [job]
    assert isinstance(STEP.check(bench.see()), Wait)


@pytest.mark.parametrize("job", PROVEN.values(), ids=PROVEN.keys())
def test_it_ends_with(bench: Bench, job: SlurmJob | None) -> None:
    bench.slurm.listed = [job] if job else []
    assert isinstance(STEP.check(bench.see()), Done)


def test_the_proof_names_nodes_restart_and_start(bench: Bench) -> None:
    bench.slurm.listed = [NEXT]
    done = STEP.check(bench.see())
    assert isinstance(done, Done)
    assert done.facts == {"nodes": ["w-1", "w-2"], "restart": 1, "running_at": 150.0}


def test_why_it_waits_is_said(bench: Bench) -> None:
    bench.slurm.listed = [replace(NEXT, state="PENDING", nodes=(), state_reason="JobHeldUser")]
    wait = STEP.check(bench.see())
    assert isinstance(wait, Wait)
    assert "JobHeldUser" in wait.sentence


def test_a_held_job_says_how_it_is_released(bench: Bench) -> None:
    bench.slurm.listed = [replace(NEXT, state="PENDING", nodes=(), held=True, state_reason="JobHeldAdmin")]
    done = STEP.check(bench.see())
    assert isinstance(done, Done)
    assert "held (JobHeldAdmin) until `scontrol release 7`" in done.sentence
    assert "running_at" not in done.facts


def test_a_job_back_on_the_drained_machine_is_for_a_person(bench: Bench) -> None:
    bench.drain("w-0")
    bench.slurm.listed = [replace(NEXT, nodes=("w-1", "w-0"))]
    with pytest.raises(Blocked, match="drained machine again"):
        STEP.check(bench.see())


def test_a_next_run_that_ended_on_the_drained_machine_is_over(bench: Bench) -> None:
    """Its record still names the node it ran on before; nothing runs there any more."""
    bench.slurm.listed = [replace(NEXT, state="CANCELLED", nodes=("w-0",))]
    assert isinstance(STEP.check(bench.see()), Done)


def test_an_array_task_is_read_by_its_own_job_id(bench: Bench) -> None:
    bench.slurm.listed = [replace(NEXT, job_id=12, array_job_id=9, array_task_id=3)]
    done = STEP.check(bench.see(run=RUN.model_copy(update={"job_id": 12, "address": "9_3"})))
    assert isinstance(done, Done)
    assert "job 9_3" in done.sentence
