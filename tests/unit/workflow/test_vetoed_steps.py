"""Every veto is read again right before each step it forbids, on the very list that is acted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from remediator.errors import Blocked, GiveUp, Retry
from remediator.kube.pods import PodView
from remediator.model.plan import Done, Wait
from remediator.model.run import JobRun
from remediator.policy.vetoes import NO_REPLACE
from remediator.workflow.step import Writing
from remediator.workflow.steps.claim_spare import ClaimSpare
from remediator.workflow.steps.detach_node import DetachNode
from remediator.workflow.steps.evict_pods import EvictPods
from remediator.workflow.steps.fence_node import FenceNode
from remediator.workflow.steps.force_down import ForceDown
from remediator.workflow.steps.hold_place import HoldPlace
from slurm_bridge.model import Reservation, SlurmJob
from tests.unit.workflow.bench import JOB, OURS, RUN, Bench

FORBIDDEN: list[Writing] = [ClaimSpare(), ForceDown(), EvictPods(), DetachNode()]
MOVED = JobRun(job_id=7, submit_time=100, restart_count=0, address="7", user="alice")
STUCK = SlurmJob(
    job_id=7, state="RUNNING", submit_time=130, restart_count=1, batch=True, requeue=True, nodes=("w-0",)
)
By = Callable[[Bench], object]


def by_pod(bench: Bench) -> None:
    bench.kube.add_pod("team", "notebook", "gpu-0", labels={NO_REPLACE: "true"})


def by_node(bench: Bench) -> None:
    bench.kube.outside("gpu-0", "label", {"metadata": {"labels": {NO_REPLACE: "yes"}}}, by="admin")


def by_workload(bench: Bench) -> None:
    bench.kube.add_pod("slurm", "slurmctld-0", "gpu-0", labels={"app.kubernetes.io/name": "slurmctld"})


def by_maintenance(bench: Bench) -> None:
    now = bench.clock.now()
    flags = frozenset({"MAINT"})
    bench.slurm.add_reservation(Reservation("fans", ("w-0",), flags=flags, start=now + 60, end=now + 7200))


def by_silence_of_kubernetes(bench: Bench) -> None:
    def silent(op: str) -> None:
        if op == "pods_on":
            raise Retry("the API server does not answer")

    bench.kube.before = silent


def by_silence_of_slurm(bench: Bench) -> None:
    def silent(op: str, _target: str) -> None:
        if op == "reservations":
            raise Retry("slurmctld does not answer")

    bench.slurm.before = silent


VETOES: list[By] = [
    by_pod,
    by_node,
    by_workload,
    by_maintenance,
    by_silence_of_kubernetes,
    by_silence_of_slurm,
]


@pytest.fixture
def bench() -> Bench:
    """A drained and fenced machine with a worker on it, and a spare."""
    bench = Bench()
    bench.drain("w-0", reason=OURS)
    bench.kube.fence(bench.kube.view("gpu-0"), "i1", OURS, cordon=False, deadline=5.0)
    bench.kube.add_pod("team", "web", "gpu-0")
    bench.slurm.listed = [STUCK]
    bench.slurm.mark("w-0", state="ALLOCATED")
    return bench


@pytest.mark.parametrize("by", VETOES)
@pytest.mark.parametrize("step", FORBIDDEN, ids=lambda step: step.name)
def test_what_is_vetoed_is_not_begun(bench: Bench, step: Writing, by: By) -> None:
    assert step.check(bench.see(runs=(MOVED,))) is None or isinstance(step, ClaimSpare)
    by(bench)
    before = len(bench.slurm.writes), len(bench.kube.writes)
    with pytest.raises(Blocked, match="vetoed by"):
        step.check(bench.see(runs=(MOVED,)))
    assert (len(bench.slurm.writes), len(bench.kube.writes)) == before


@pytest.mark.parametrize("by", VETOES)
def test_a_veto_between_look_and_eviction_is_seen(bench: Bench, by: By) -> None:
    bench.slurm.listed = []
    step = EvictPods()
    assert step.check(bench.see()) is None
    by(bench)
    writes = len(bench.kube.writes)
    with pytest.raises(Blocked, match="vetoed by"):
        step.act(bench.see())
    assert len(bench.kube.writes) == writes


def test_only_pods_that_were_judged_are_evicted(bench: Bench) -> None:
    late: list[str] = []

    def after(op: str) -> None:
        if op == "pods_on" and not late:
            late.append("came")
            bench.kube.add_pod("team", "late", "gpu-0", labels={NO_REPLACE: "true"})

    bench.kube.after = after
    EvictPods().act(bench.see())
    assert bench.kube.pod("team", "web") is None
    assert isinstance(bench.kube.pod("team", "late"), PodView)


@pytest.mark.parametrize("by", [by_pod, by_node, by_workload, by_maintenance, by_silence_of_slurm])
def test_a_vetoed_node_gets_our_taint_and_no_cordon(by: By) -> None:
    bench = Bench()
    by(bench)
    done = FenceNode().act(bench.see())
    assert isinstance(done, Done)
    assert "vetoed by" in done.sentence
    assert not bench.kube.view("gpu-0").unschedulable


@pytest.mark.parametrize("step", FORBIDDEN, ids=lambda step: step.name)
def test_another_machine_under_the_name_is_never_emptied(bench: Bench, step: Writing) -> None:
    bench.kube.add_node("gpu-0")
    with pytest.raises(GiveUp, match=r"not the machine|another machine"):
        step.check(bench.see(runs=(MOVED,)))


@pytest.mark.parametrize("step", [ForceDown(), EvictPods()], ids=lambda step: step.name)
@pytest.mark.parametrize("gone", ["drain", "fence"])
def test_force_waits_for_a_look_at_a_condition_that_is_gone(bench: Bench, step: Writing, gone: str) -> None:
    bench.kube.add_pod("slurm", "w-0", "gpu-0", labels=WORKER)
    if step.name == "evict-pods":
        bench.slurm.listed = []
    if gone == "drain":
        bench.slurm.mark("w-0", flags=frozenset())
    else:
        bench.kube.outside("gpu-0", "untaint", {"spec": {"taints": []}}, by="admin")
    found = step.check(bench.see(runs=(MOVED,)))
    assert isinstance(found, Wait)
    assert found.facts == {"again": "drain-slurm" if gone == "drain" else "fence-node"}


@pytest.mark.parametrize("said_since", ["", "remediator:leave"])
def test_no_place_is_kept_for_a_job_whose_owner_said_since_to_leave_it(said_since: str) -> None:
    bench = Bench()
    bench.slurm.listed = [replace(JOB, comment=said_since)]
    found = HoldPlace().check(bench.see(run=RUN.model_copy(update={"nodes": JOB.nodes})))
    assert isinstance(found, Done) == bool(said_since)


WORKER = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}
