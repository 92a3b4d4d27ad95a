"""What the Cluster port promises, on the real API server and on the fake alike."""

from __future__ import annotations

import itertools

import pytest

from remediator.actuators.ports import IdentityChanged
from remediator.errors import BadInput, Blocked, Retry
from remediator.kube.errors import Conflict
from remediator.kube.fence import CORDON_REASON, FENCED, INCIDENT, is_fenced
from tests.contract.kube.conftest import Racing, World

D = 5.0
REASON = "remediator: inc-1 XID 79"
FOREIGN = {
    "key": "example.com/mine",
    "value": "x",
    "effect": "NoExecute",
    "timeAdded": "2026-01-01T00:00:00Z",
}


def fence(world: World, name: str, *, cordon: bool = True, incident: str = "inc-1") -> bool:
    """Fence the node as it is now."""
    return world.cluster.fence(world.view(name), incident, REASON, cordon=cordon, deadline=D).wrote


def unfence(world: World, name: str, uid: str) -> bool:
    return world.cluster.unfence(name, uid, "inc-1", deadline=D).wrote


def ours(world: World, name: str) -> list[dict[str, object]]:
    """Our taint on it, as it is written."""
    return [dict(taint.raw) for taint in world.view(name).taints if taint.key == FENCED]


def keys(world: World, name: str) -> set[str]:
    return {taint.key for taint in world.view(name).taints}


def test_a_node_is_read_and_an_unknown_one_is_none(world: World, name: str) -> None:
    uid = world.add_node(name)
    node = world.cluster.node(name, deadline=D)
    assert node is not None
    assert (node.uid, node.ready, node.unschedulable) == (uid, True, False)
    assert node.boot_id.startswith("boot-")
    assert world.cluster.node(f"{name}-not", deadline=D) is None


def test_fence_taints_and_cordons_in_one_write_and_reads_back(world: World, name: str) -> None:
    world.add_node(name, taints=[FOREIGN])
    done = world.cluster.fence(world.view(name), "inc-1", REASON, cordon=True, deadline=D)
    assert done.wrote
    assert done.node == world.view(name)
    assert is_fenced(done.node, "inc-1")
    assert done.node.unschedulable
    assert done.node.annotations[CORDON_REASON] == REASON
    assert done.node.annotations[INCIDENT] == "inc-1"
    assert FOREIGN in [taint.raw for taint in done.node.taints]
    assert world.writes(name) == 1


def test_fence_without_cordon_leaves_the_node_schedulable_and_gives_no_cordon_reason(
    world: World, name: str
) -> None:
    world.add_node(name)
    fence(world, name, cordon=False)
    node = world.view(name)
    assert is_fenced(node, "inc-1")
    assert not node.unschedulable
    assert CORDON_REASON not in node.annotations


def test_fencing_again_writes_nothing(world: World, name: str) -> None:
    world.add_node(name)
    assert fence(world, name)
    assert not fence(world, name)
    assert world.writes(name) == 1


def test_a_cordon_may_follow_when_a_veto_is_lifted(world: World, name: str) -> None:
    uid = world.add_node(name)
    fence(world, name, cordon=False)
    assert fence(world, name, cordon=True)
    assert world.view(name).unschedulable
    assert unfence(world, name, uid)
    assert not world.view(name).unschedulable


def test_unfence_takes_back_everything_we_set(world: World, name: str) -> None:
    uid = world.add_node(name, taints=[FOREIGN])
    before = world.view(name)
    fence(world, name)
    assert unfence(world, name, uid)
    after = world.view(name)
    assert (after.taints, after.annotations, after.unschedulable) == (
        before.taints,
        before.annotations,
        False,
    )
    assert not unfence(world, name, uid)
    assert world.writes(name) == 2


def test_unfence_keeps_a_cordon_and_a_reason_that_were_there_before(world: World, name: str) -> None:
    uid = world.add_node(name, unschedulable=True)
    world.change(name, {"metadata": {"annotations": {CORDON_REASON: "disk swap"}}})
    fence(world, name)
    unfence(world, name, uid)
    node = world.view(name)
    assert node.unschedulable
    assert node.annotations[CORDON_REASON] == "disk swap"
    assert FENCED not in keys(world, name)


def test_unfence_of_a_node_we_never_fenced_writes_nothing(world: World, name: str) -> None:
    uid = world.add_node(name, unschedulable=True)
    assert not unfence(world, name, uid)
    assert world.writes(name) == 0


def test_another_machine_under_the_name_is_never_written(world: World, name: str) -> None:
    uid = world.add_node(name)
    judged = world.view(name)
    world.remove_node(name)
    with pytest.raises(IdentityChanged, match="is gone"):
        world.cluster.fence(judged, "inc-1", REASON, cordon=True, deadline=D)
    world.add_node(name)
    with pytest.raises(Conflict):
        world.cluster.fence(judged, "inc-1", REASON, cordon=True, deadline=D)
    with pytest.raises(IdentityChanged, match="another machine"):
        unfence(world, name, uid)
    assert world.writes(name) == 0


def test_a_machine_replaced_between_read_and_write_is_never_written(world: World, name: str) -> None:
    uid = world.add_node(name)
    fence(world, name)
    before = world.writes(name)

    def replace() -> None:
        world.remove_node(name)
        world.add_node(name)

    with pytest.raises(IdentityChanged):
        world.over(Racing(world.api, replace)).unfence(name, uid, "inc-1", deadline=D)
    assert world.writes(name) == before


def test_a_node_that_changed_since_it_was_judged_is_not_written(world: World, name: str) -> None:
    """What may have changed is a veto: it has to be judged again."""
    world.add_node(name)
    judged = world.view(name)
    world.change(name, {"metadata": {"labels": {"remediator.dev/no-replace": "true"}}})
    with pytest.raises(Conflict):
        world.cluster.fence(judged, "inc-1", REASON, cordon=True, deadline=D)
    assert world.writes(name) == 0
    assert not world.view(name).unschedulable


def test_the_fence_of_another_incident_blocks(world: World, name: str) -> None:
    uid = world.add_node(name)
    fence(world, name, incident="inc-0")
    with pytest.raises(Blocked, match="inc-0"):
        fence(world, name)
    assert not unfence(world, name, uid)
    assert world.writes(name) == 1


def test_a_persons_uncordon_is_not_undone(world: World, name: str) -> None:
    uid = world.add_node(name)
    fence(world, name)
    world.change(name, {"spec": {"unschedulable": None}})
    with pytest.raises(Blocked, match="uncordoned"):
        fence(world, name)
    assert not world.view(name).unschedulable
    assert unfence(world, name, uid)
    assert FENCED not in keys(world, name)


def test_a_persons_removal_of_our_taint_is_not_undone(world: World, name: str) -> None:
    world.add_node(name, taints=[FOREIGN])
    fence(world, name)
    world.change(name, {"spec": {"taints": [FOREIGN]}})
    with pytest.raises(Blocked, match="removed"):
        fence(world, name)
    assert keys(world, name) == {FOREIGN["key"]}


def test_a_lost_race_is_run_again_on_fresh_data(world: World, name: str) -> None:
    uid = world.add_node(name)
    fence(world, name)
    once = itertools.chain([{"spec": {"taints": [FOREIGN, *ours(world, name)]}}], itertools.repeat({}))
    racing = world.over(Racing(world.api, lambda: world.change(name, next(once))))
    racing.unfence(name, uid, "inc-1", deadline=D)
    assert keys(world, name) == {FOREIGN["key"]}
    assert world.writes(name) == 2


def test_a_race_lost_again_and_again_is_a_retry_without_a_write(world: World, name: str) -> None:
    uid = world.add_node(name)
    fence(world, name)
    ticks = itertools.count()
    racing = world.over(
        Racing(world.api, lambda: world.change(name, {"metadata": {"labels": {"tick": str(next(ticks))}}}))
    )
    with pytest.raises(Retry, match="writers were faster"):
        racing.unfence(name, uid, "inc-1", deadline=D)
    assert world.writes(name) == 1


def test_pods_on_a_node_are_those_bound_to_it(world: World, name: str) -> None:
    world.add_node(name)
    world.add_node(f"{name}-b")
    uids = {world.add_pod(f"{name}-p{number}", name) for number in range(3)}
    world.add_pod(f"{name}-other", f"{name}-b")
    assert {pod.uid for pod in world.cluster.pods_on(name, deadline=D)} == uids
    assert world.cluster.pods_on(f"{name}-none", deadline=D) == ()


@pytest.mark.parametrize("bad", ["", "../pods", "a/b", "ALL", "gpu[0-3]", "a,b=c", "x" * 300, "gpu\n"])
def test_a_name_that_is_none_is_refused_before_anything_is_sent(world: World, bad: str) -> None:
    with pytest.raises(BadInput):
        world.cluster.node(bad, deadline=D)
    with pytest.raises(BadInput):
        world.cluster.pods_on(bad, deadline=D)
    with pytest.raises(BadInput):
        world.cluster.unfence(bad, "uid", "inc-1", deadline=D)
