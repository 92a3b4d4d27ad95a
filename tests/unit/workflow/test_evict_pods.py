"""evict-pods: budgets, throttling, finalizers and kubelets that are silent. Nothing is ever forced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remediator.errors import Retry
from remediator.kube.pods import WORKER_LABELS
from remediator.model.plan import Again, Done, Hold, Outcome, Wait
from remediator.workflow.attempt import attempt
from remediator.workflow.steps.detach_node import DetachNode
from remediator.workflow.steps.evict_pods import EvictPods
from tests.unit.workflow.bench import JOB, Bench

EVICTION = "create namespaces/ml/pods/{}/eviction"


@pytest.fixture
def bench() -> Bench:
    """A drained node with two pods of users."""
    bench = Bench()
    bench.drain("w-0")
    bench.kube.fence(bench.kube.view("gpu-0"), "i1", bench.incident.drain_reason, cordon=True, deadline=5.0)
    for name in ("a", "b"):
        bench.kube.add_pod("ml", name, "gpu-0")
    return bench


def go(bench: Bench, waited: float = 0.0) -> Outcome | None:
    """One attempt with an INTENT, `waited` seconds after the step began."""
    row = {"name": "evict-pods", "track": "node", "started_at": bench.clock.now() - waited}
    return attempt(EvictPods(), bench.see(**row), may_act=True, probe=lambda _: None)


def evictions(bench: Bench, pod: str) -> int:
    return bench.kube.api.requests.count(EVICTION.format(pod))


def test_pods_of_a_live_kubelet_leave_and_that_is_the_proof(bench: Bench) -> None:
    done = go(bench)
    assert isinstance(done, Done)
    assert done.facts == {"proof": "pods gone from a live kubelet"}


def test_a_budget_is_named_tried_after_five_seconds_and_keeps_no_other_pod(bench: Bench) -> None:
    bench.kube.protect_pod("ml", "a", "a-pdb")
    outcome = go(bench)
    assert isinstance(outcome, Again)
    assert "disruption budget a-pdb" in outcome.sentence
    assert outcome.after >= 5.0
    assert bench.kube.pod("ml", "b") is None
    bench.kube.protect_pod("ml", "a")
    assert isinstance(go(bench), Done)


def test_a_budget_that_never_frees_is_held_with_its_name_and_the_pod_stays(bench: Bench) -> None:
    bench.kube.protect_pod("ml", "a", "a-pdb")
    outcome = go(bench, waited=120.0)
    assert isinstance(outcome, Hold)
    assert "disruption budget a-pdb" in outcome.sentence
    assert outcome.after >= 5.0
    pod = bench.kube.pod("ml", "a")
    assert pod is not None
    assert not pod.terminating
    assert bench.kube.view("gpu-0").unschedulable


def test_a_throttling_server_is_asked_again_when_it_says_and_not_for_other_pods(bench: Bench) -> None:
    def before(op: str) -> None:
        if op.endswith("/eviction"):
            raise Retry("HTTP 429 too many requests", after=17.0)

    bench.kube.before = before
    outcome = go(bench)
    assert getattr(outcome, "after", 0) == 17.0
    assert evictions(bench, "a") + evictions(bench, "b") == 1


def test_a_blocked_pod_is_not_tried_sooner_because_another_one_is_throttled(bench: Bench) -> None:
    bench.kube.protect_pod("ml", "a", "a-pdb")

    def before(op: str) -> None:
        if op == EVICTION.format("b"):
            raise Retry("HTTP 429 too many requests", after=1.0)

    bench.kube.before = before
    outcome = go(bench)
    assert isinstance(outcome, Again)
    assert outcome.after >= 5.0


def test_a_finalizer_is_waited_for_then_held_with_its_name_and_left_in_place(bench: Bench) -> None:
    bench.kube.change_pod("ml", "a", {"metadata": {"finalizers": ["example.com/keep"]}})
    assert isinstance(go(bench), Wait)
    bench.clock.advance(120.0)
    outcome = go(bench)
    assert isinstance(outcome, Hold)
    assert "pod ml/a is kept by finalizer example.com/keep" in outcome.sentence
    pod = bench.kube.pod("ml", "a")
    assert pod is not None
    assert pod.finalizers == ("example.com/keep",)
    bench.kube.change_pod("ml", "a", {"metadata": {"finalizers": None}})
    assert isinstance(go(bench), Done)


def test_a_silent_kubelet_holds_and_nothing_is_forced_until_the_node_is_gone(bench: Bench) -> None:
    bench.kube.kill_kubelet("gpu-0")
    bench.kube.outside(
        "gpu-0", "silent", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    )
    assert isinstance(go(bench), Wait)
    bench.clock.advance(120.0)
    outcome = go(bench)
    assert isinstance(outcome, Hold)
    assert "the kubelet of gpu-0 is silent" in outcome.sentence
    assert {write.op for write in bench.kube.writes if write.actor == "remediator"} == {"patch", "evict"}
    bench.kube.remove_node("gpu-0")
    assert isinstance(go(bench), Wait)
    for name in ("a", "b"):
        bench.kube.remove_pod("ml", name)
    done = go(bench)
    assert isinstance(done, Done)
    assert done.facts == {"proof": "the node object is gone"}


def test_a_kubelet_that_comes_back_ends_its_pods_and_the_step(bench: Bench) -> None:
    bench.kube.kill_kubelet("gpu-0")
    assert isinstance(go(bench), Wait)
    bench.kube.revive_kubelet("gpu-0")
    assert isinstance(go(bench), Done)


def test_pods_of_another_machine_under_the_name_are_not_evicted(bench: Bench) -> None:
    bench.kube.remove_node("gpu-0")
    bench.kube.add_node("gpu-0")
    assert isinstance(go(bench), Hold)
    assert evictions(bench, "a") == 0


def test_a_node_that_is_gone_needs_no_detaching(bench: Bench) -> None:
    bench.kube.remove_node("gpu-0")
    context = bench.see(name="detach-node", track="node")
    assert isinstance(attempt(DetachNode(), context, may_act=True, probe=lambda _: None), Done)
    assert len(bench.kube.ours("gpu-0")) == 1  # the fence of before


def test_a_job_that_came_back_blocks_the_eviction_of_its_worker(bench: Bench) -> None:

    bench.kube.add_pod("slurm", "w-0", "gpu-0", labels=WORKER_LABELS)
    bench.slurm.listed = [replace(JOB, nodes=("w-0",))]
    outcome = go(bench)
    assert isinstance(outcome, Hold)
    assert evictions(bench, "a") == 0
