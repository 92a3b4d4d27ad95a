"""What the Cluster port promises about evicting pods, on the real API server and on the fake alike."""

from __future__ import annotations

import pytest

from remediator.actuators.ports import Removal
from remediator.errors import Blocked
from remediator.kube.errors import Conflict
from remediator.kube.pods import WORKER_LABELS, PodView
from tests.contract.kube.conftest import RealWorld, World
from tests.servers.kube import KubeServer

D = 5.0
HOLD = "example.com/hold"


def seen(world: World, name: str) -> PodView:
    pod = world.pod(name)
    assert pod is not None
    return pod


def evict(world: World, pod: PodView) -> Removal:
    return world.cluster.evict(pod, deadline=D)


@pytest.fixture
def pod(world: World, name: str) -> PodView:
    """A running pod of the same name as its node."""
    world.add_node(name)
    world.add_pod(name, name, labels={"app": name}, gpus=8)
    return seen(world, name)


def test_an_evicted_pod_is_terminating_until_its_kubelet_ends_it(world: World, pod: PodView) -> None:
    done = evict(world, pod)
    assert done.wrote
    assert done.pod is not None
    assert done.pod.terminating
    assert not done.gone
    world.kubelet_ends(pod.name)
    assert evict(world, done.pod) == Removal(None, wrote=False)


def test_a_pod_shows_its_gpus_and_when_it_should_be_gone(world: World, pod: PodView) -> None:
    assert (pod.gpus, pod.holds_gpus, pod.terminating, pod.overdue(9e9)) == (8, True, False, 0.0)
    evict(world, pod)
    gone_at = seen(world, pod.name).deletion
    assert gone_at is not None
    assert seen(world, pod.name).overdue(gone_at + 60) == 60


def test_evicting_again_writes_nothing(world: World, pod: PodView) -> None:
    evict(world, pod)
    again = evict(world, seen(world, pod.name))
    assert not again.wrote
    assert not again.gone
    assert world.pod_writes(pod.name) == 1


def test_an_old_view_of_a_pod_that_is_leaving_is_no_error(world: World, pod: PodView) -> None:
    evict(world, pod)
    again = evict(world, pod)
    assert again.pod is not None
    assert again.pod.terminating
    assert not again.wrote


def test_a_label_set_after_the_pod_was_judged_stops_the_eviction(world: World, pod: PodView) -> None:
    world.change_pod(pod.name, {"metadata": {"labels": {"remediator.dev/no-replace": "true"}}})
    with pytest.raises(Conflict):
        evict(world, pod)
    assert not seen(world, pod.name).terminating
    assert world.pod_writes(pod.name) == 0


def test_a_pod_that_is_gone_is_a_success(world: World, pod: PodView) -> None:
    evict(world, pod)
    world.kubelet_ends(pod.name)
    assert evict(world, pod).gone


def test_another_pod_under_the_name_is_left_alone(world: World, pod: PodView) -> None:
    evict(world, pod)
    world.kubelet_ends(pod.name)
    world.add_pod(pod.name, pod.node)
    assert evict(world, pod).gone
    assert not seen(world, pod.name).terminating


def test_a_disruption_budget_blocks_and_is_named(world: World, pod: PodView) -> None:
    world.protect(pod.name, f"{pod.name}-pdb")
    with pytest.raises(Blocked, match=f"disruption budget {pod.name}-pdb "):
        evict(world, pod)
    assert not seen(world, pod.name).terminating


def test_two_budgets_on_one_pod_block_as_well(world: World, pod: PodView) -> None:
    world.protect(pod.name, f"{pod.name}-a", f"{pod.name}-b")
    with pytest.raises(Blocked, match="more than one PodDisruptionBudget"):
        evict(world, pod)


@pytest.mark.kube
@pytest.mark.parametrize("policy", ["AlwaysAllow", "IfHealthyBudget"])
def test_a_broken_pod_whose_budget_lets_it_go_is_evicted(
    kube_server: KubeServer, name: str, policy: str
) -> None:
    """Field case O14, variant b: a pod that crashes over and over under a budget of one of one; real only."""
    real = RealWorld(kube_server)
    real.add_node(name)
    real.add_pod(name, name, labels={"app": name})
    real.change_pod(name, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    spec = {
        "minAvailable": 1,
        "selector": {"matchLabels": {"app": name}},
        "unhealthyPodEvictionPolicy": policy,
    }
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    real.admin.post(budgets, {"metadata": {"name": name}, "spec": spec}, deadline=D)
    if policy == "AlwaysAllow":
        assert evict(real, seen(real, name)).wrote
    else:
        with pytest.raises(Blocked, match=f"disruption budget {name} "):
            evict(real, seen(real, name))
    assert seen(real, name).terminating == (policy == "AlwaysAllow")


def test_finalizers_are_named_and_hold_the_pod_past_its_time(world: World, name: str) -> None:
    world.add_node(name)
    world.add_pod(name, name, finalizers=[HOLD])
    held = evict(world, seen(world, name))
    assert held.pod is not None
    assert held.pod.finalizers == (HOLD,)
    world.kubelet_ends(name)
    left = seen(world, name)
    assert left.deletion is not None
    assert left.overdue(left.deletion + 90) == 90
    world.change_pod(name, {"metadata": {"finalizers": None}})
    assert world.pod(name) is None


def test_a_slurm_worker_is_found_by_its_slurm_name(world: World, pod: PodView) -> None:
    assert world.cluster.worker(pod.name, deadline=D) is None
    uid = world.add_pod(f"{pod.name}-w", pod.node, labels=WORKER_LABELS)
    found = world.cluster.worker(f"{pod.name}-w", deadline=D)
    assert found is not None
    assert (found.uid, found.node) == (uid, pod.node)
    world.change_pod(f"{pod.name}-w", {"status": {"phase": "Failed"}})
    assert world.cluster.worker(f"{pod.name}-w", deadline=D) is None
