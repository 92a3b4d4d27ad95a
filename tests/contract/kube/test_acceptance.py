"""What the acceptance test's bench promises, on the real API server and on the fake alike."""

from __future__ import annotations

from typing import Any

import pytest

from remediator.actuators.acceptance import PodBench
from remediator.clock import ManualClock, SystemClock
from remediator.kube.acceptance import PROOF, TestPod, Trial, pod_name
from remediator.kube.nodes import NodeView
from remediator.kube.spare import SpareKeys
from tests.contract.kube.conftest import World

D = 5.0
TAG = "inc-1"
TEST = TestPod("localhost/test:1", ("check", "all"), "default", 300, ("/sys",))
TAINTS = [{"key": SpareKeys().spare, "value": "true", "effect": "NoSchedule"}]


@pytest.fixture
def node(world: World, name: str) -> NodeView:
    """A Ready node behind the spare taint, with eight GPUs; its pods stay as they are."""
    world.add_node(name)
    world.change(name, {"spec": {"taints": TAINTS}})
    world.show_gpus(name, 8, 8)
    world.stall(name)
    return world.view(name)


@pytest.fixture
def bench(world: World) -> PodBench:
    return PodBench(world.api, SystemClock(), TEST)


def look(bench: PodBench, node: NodeView, tag: str = TAG) -> Trial:
    return bench.look(node.name, node.uid, tag, deadline=D)


def start(bench: PodBench, node: NodeView) -> str:
    bench.start(node.name, node.uid, TAG, deadline=D)
    return pod_name(TAG, node.uid)


def ended(message: str, code: int) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "message": message, "reason": "Error" if code else "Completed"}}
    row = {"name": "test", "state": state, "ready": False, "restartCount": 0, "image": "i", "imageID": "i"}
    return {"status": {"phase": "Failed" if code else "Succeeded", "containerStatuses": [row]}}


def test_a_test_runs_once_on_its_node_with_every_gpu(world: World, bench: PodBench, node: NodeView) -> None:
    assert look(bench, node).state == "untested"
    for _ in range(2):
        name = start(bench, node)
    pod = world.pod(name)
    assert pod is not None
    assert (pod.node, pod.gpus) == (node.name, 8)
    assert world.pod_writes(name) == 1
    assert look(bench, node).state == "running"
    assert look(bench, node, tag="inc-2").state == "untested"


@pytest.mark.parametrize(
    ("code", "said", "state"), [(0, "warming up\n8 GPUs fine\n", "passed"), (3, "a\nGPU 3 dead", "failed")]
)
def test_the_pods_end_is_the_verdict_and_its_last_line_the_reason(
    world: World, bench: PodBench, node: NodeView, code: int, said: str, state: str
) -> None:
    world.change_pod(start(bench, node), ended(said, code))
    trial = look(bench, node)
    assert trial.state == state
    assert trial.sentence == f"acceptance test {state}: {said.strip().splitlines()[-1]}"


def test_a_proof_outlives_the_pod_and_is_written_once(world: World, bench: PodBench, node: NodeView) -> None:
    name = start(bench, node)
    world.change_pod(name, ended("fine", 0))
    for _ in range(2):
        bench.prove(node.name, node.uid, TAG, "passed: fine", deadline=D)
    assert look(bench, node).pod
    for _ in range(2):
        bench.clear(node.uid, TAG, deadline=D)
    assert world.pod(name) is None
    trial = look(bench, node)
    assert (trial.state, trial.pod) == ("proven", False)
    assert "inc-1: passed: fine" in trial.sentence
    assert world.writes(node.name) == 1


def test_a_proof_does_not_outlive_a_boot_or_a_day(world: World, bench: PodBench, node: NodeView) -> None:
    bench.prove(node.name, node.uid, TAG, "passed", deadline=D)
    tomorrow = ManualClock(SystemClock().now() + 86_400)
    late = PodBench(world.api, tomorrow, TEST)
    assert look(late, node).state == "untested"
    proof = world.view(node.name).annotations[PROOF]
    other_boot = proof.replace(node.boot_id, "another-boot")
    world.change(node.name, {"metadata": {"annotations": {PROOF: other_boot}}})
    assert look(bench, node).state == "untested"


def test_what_the_node_itself_shows_comes_first(world: World, bench: PodBench, node: NodeView) -> None:
    bench.prove(node.name, node.uid, TAG, "passed", deadline=D)
    world.show_gpus(node.name, 7, 8)
    assert look(bench, node) == Trial("failed", f"7 of 8 GPUs of {node.name} are healthy")
    world.show_gpus(node.name, 0, 0)
    assert look(bench, node).state == "failed"


def test_without_a_test_pod_healthy_gpus_are_proof_enough(world: World, name: str) -> None:
    bench = PodBench(world.api, SystemClock(), None)
    world.add_node(name)
    view = world.view(name)
    assert look(bench, view).state in {"not-ready", "proven"}
    world.show_gpus(name, 8, 8)
    assert look(bench, view).state == "proven"
    world.show_gpus(name, 7, 8)
    assert look(bench, view).state == "failed"
    assert world.writes(name) == 0


def test_another_machine_of_that_name_has_failed(world: World, bench: PodBench, node: NodeView) -> None:
    world.remove_node(node.name)
    assert look(bench, node).state == "failed"
    world.add_node(node.name)
    assert "another machine" in look(bench, node).sentence
