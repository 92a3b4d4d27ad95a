"""A machine with several Slurm workers: each is drained, looked at and forced by its own name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.model.plan import Done, Hold, Outcome, Wait, Yield
from remediator.workflow.attempt import attempt
from remediator.workflow.step import Step
from remediator.workflow.steps.drain_slurm import DrainSlurm
from remediator.workflow.steps.force_down import ForceDown
from remediator.workflow.steps.survey import Survey
from slurm_bridge.model import SlurmNode
from tests.fakes.river import WORKER
from tests.unit.workflow.bench import JOB, OURS, RUN, Bench

THEIRS = "admin: swapping a cable"


@pytest.fixture
def bench() -> Bench:
    return Bench(slurm_nodes=("w-0", "w-1"))


def seen(bench: Bench, name: str) -> SlurmNode:
    found = bench.slurm.node(name, deadline=5.0)
    assert found is not None
    return found


def tried(step: Step, bench: Bench, **fields: object) -> Outcome | None:
    return attempt(step, bench.see(**fields), may_act=True, probe=lambda _moment: None)


def test_somebody_elses_worker_holds_and_the_others_are_drained_all_the_same(bench: Bench) -> None:
    bench.drain("w-0", reason=THEIRS)
    held = tried(DrainSlurm(), bench)
    assert isinstance(held, Hold)
    assert "w-0 has somebody else's reason" in held.sentence
    assert [(write.target, write.detail) for write in bench.slurm.writes] == [("w-1", OURS)]


def test_a_worker_that_somebody_else_resumed_is_not_drained_because_another_one_is(bench: Bench) -> None:
    bench.drain("w-0", "w-1", reason=THEIRS)
    held = tried(DrainSlurm(), bench)
    assert isinstance(held, Hold)
    bench.slurm.resume("w-0", deadline=5.0)
    bench.slurm.writes.clear()
    assert isinstance(tried(DrainSlurm(), bench, facts=held.facts), Yield)
    assert bench.slurm.writes == []


def test_a_worker_that_came_later_is_drained_and_no_person_is_suspected(bench: Bench) -> None:
    bench.drain("w-0", "w-1")
    done = tried(DrainSlurm(), bench)
    assert isinstance(done, Done)
    bench.incident = bench.incident.model_copy(update={"slurm_nodes": ("w-0", "w-1", "w-2")})
    assert isinstance(tried(DrainSlurm(), bench, facts=done.facts), Done)
    assert [write.target for write in bench.slurm.writes if write.effect] == ["w-2"]


def test_a_worker_that_runs_on_another_machine_now_is_not_drained_there(bench: Bench) -> None:
    bench.drain("w-0", "w-1")
    done = tried(DrainSlurm(), bench)
    assert isinstance(done, Done)
    bench.kube.add_node("gpu-9")
    bench.kube.add_pod("slurm", "w-1", "gpu-9", labels=WORKER)
    bench.slurm.resume("w-1", deadline=5.0)
    found = tried(DrainSlurm(), bench, facts=done.facts)
    assert isinstance(found, Wait)
    assert found.facts == {"workers": ["w-0"]}


def test_a_worker_that_the_survey_finds_on_the_machine_is_drained_before_it_goes_on(bench: Bench) -> None:
    bench.kube.add_pod("slurm", "w-0", "gpu-0", labels=WORKER)
    bench.kube.add_pod("slurm", "w-2", "gpu-0", labels=WORKER)
    bench.kube.add_pod("slurm", "other", "gpu-0")
    found = tried(Survey(), bench)
    assert isinstance(found, Wait)
    assert found.facts == {"workers": ["w-0", "w-1", "w-2"], "again": "drain-slurm"}


def test_only_the_worker_that_does_not_end_is_set_down(bench: Bench) -> None:
    bench.drain("w-0", "w-1")
    bench.see().nodes.fence(bench.incident, bench.kube.view("gpu-0"))
    left = replace(JOB, nodes=("w-1",), state="PENDING", flags=frozenset({"COMPLETING"}), restart_count=1)
    bench.slurm.listed = [left]
    done = tried(ForceDown(), bench, runs=(RUN,))
    assert isinstance(done, Done)
    assert done.sentence == "w-1 is DOWN"
    assert (seen(bench, "w-0").is_down, seen(bench, "w-1").is_down) == (False, True)
