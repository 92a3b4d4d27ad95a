"""What the SparePool port promises, on the real API server and on the fake alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from remediator.actuators.ports import IdentityChanged, Unfit
from remediator.errors import Blocked
from remediator.kube.nodes import NodeView
from remediator.kube.spare import ADMITTED, CLAIM, DETACHED, RETIRED, SpareKeys
from tests.contract.kube.conftest import World

D = 5.0
KEYS = SpareKeys()
POOL = "remediator.dev/pool"
FOREIGN = {"key": "example.com/mine", "value": "x", "effect": "NoSchedule"}
WORKER = {"key": KEYS.worker, "value": "true", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}


def taint(key: str) -> dict[str, Any]:
    return {"key": key, "value": "true", "effect": "NoSchedule"}


def add_spare(world: World, pool: str, suffix: str = "", leaf: str | None = None) -> NodeView:
    node = f"{pool}{suffix}"
    world.add_node(node)
    labels = {POOL: pool, KEYS.spare: "true", KEYS.leaf: leaf}
    # The real server gives every new node a not-ready taint, which a controller takes away.
    world.change(node, {"metadata": {"labels": labels}, "spec": {"taints": [taint(KEYS.spare)]}})
    return world.view(node)


def offered(world: World, pool: str, leaf: str = "") -> list[str]:
    offers = world.spares.offers({POOL: pool}, {KEYS.leaf: leaf} if leaf else {}, deadline=D)
    return [node.name for node in offers.usable]


def refused(world: World, pool: str) -> str:
    offers = world.spares.offers({POOL: pool}, {}, deadline=D)
    assert offers.usable == ()
    return " ".join(offers.refused)


def claim(world: World, node: NodeView, incident: str = "inc-1") -> bool:
    return world.spares.claim(node.name, node.uid, incident, deadline=D).wrote


def admit(world: World, node: NodeView, incident: str = "inc-1") -> bool:
    return world.spares.admit(node.name, node.uid, incident, deadline=D).wrote


def detach(world: World, node: NodeView, incident: str = "inc-1") -> bool:
    return world.spares.detach(node.name, node.uid, incident, deadline=D).wrote


def attach(world: World, node: NodeView, incident: str = "inc-1") -> bool:
    return world.spares.attach(node.name, node.uid, incident, deadline=D).wrote


def keys(world: World, name: str) -> set[str]:
    return {found.key for found in world.view(name).taints}


@pytest.fixture
def sick(world: World, name: str) -> NodeView:
    """A worker node that incident inc-1 has fenced."""
    world.add_node(name, taints=[FOREIGN, WORKER])
    world.cluster.fence(world.view(name), "inc-1", "remediator: inc-1", cordon=True, deadline=D)
    return world.view(name)


def test_spares_of_the_pool_are_offered_those_behind_the_same_leaf_first(world: World, name: str) -> None:
    for suffix, leaf in (("-a", "leaf-1"), ("-b", None), ("-c", "leaf-2"), ("-d", "leaf-2")):
        add_spare(world, name, suffix, leaf)
    add_spare(world, f"{name}-other")
    assert offered(world, name, leaf="leaf-2") == [f"{name}-{end}" for end in "cdab"]
    assert offered(world, name) == [f"{name}-{end}" for end in "abcd"]


UNFIT: dict[str, tuple[Callable[[World, str], object], str]] = {
    "cordoned": (lambda world, name: world.change(name, {"spec": {"unschedulable": True}}), "cordoned"),
    "without its taint": (
        lambda world, name: world.change(name, {"spec": {"taints": None}}),
        "both the label and the taint",
    ),
    "in maintenance": (
        lambda world, name: world.change(name, {"spec": {"taints": [taint(KEYS.spare), FOREIGN]}}),
        "example.com/mine",
    ),
    "retired": (
        lambda world, name: world.change(name, {"metadata": {"annotations": {RETIRED: "broken fan"}}}),
        "broken fan",
    ),
    "used by others": (
        lambda world, name: world.add_pod(f"{name}-gpu", name, gpus=1),
        "holds GPUs",
    ),
}


@pytest.mark.parametrize(("spoil", "why"), UNFIT.values(), ids=UNFIT.keys())
def test_a_spare_that_cannot_be_taken_is_neither_offered_nor_claimed_nor_admitted(
    world: World, name: str, spoil: Callable[[World, str], object], why: str
) -> None:
    spare = add_spare(world, name)
    spoil(world, name)
    assert why in refused(world, name)
    with pytest.raises(Unfit, match=why):
        claim(world, spare)
    world.change(name, {"metadata": {"annotations": {CLAIM: "inc-1"}}})
    with pytest.raises(Unfit, match=why):
        admit(world, spare)
    assert world.writes(name) == 0


def test_a_finished_gpu_pod_does_not_make_a_spare_unfit(world: World, name: str) -> None:
    spare = add_spare(world, name)
    world.add_pod(f"{name}-test", name, gpus=8)
    world.change_pod(f"{name}-test", {"status": {"phase": "Succeeded"}})
    assert claim(world, spare)


def test_a_claim_shows_once_and_keeps_other_incidents_away(world: World, name: str) -> None:
    spare = add_spare(world, name)
    assert claim(world, spare)
    assert not claim(world, spare)
    assert world.spares.is_claimed(name, spare.uid, "inc-1", deadline=D)
    with pytest.raises(Unfit, match="claimed by incident inc-1"):
        claim(world, spare, "inc-2")
    with pytest.raises(Unfit, match="not claimed by inc-2"):
        admit(world, spare, "inc-2")
    assert world.writes(name) == 1


def test_a_released_spare_is_as_it_was(world: World, name: str) -> None:
    before = add_spare(world, name)
    claim(world, before)
    assert world.spares.release(name, before.uid, "inc-1", deadline=D).wrote
    assert not world.spares.release(name, before.uid, "inc-1", deadline=D).wrote
    after = world.view(name)
    assert (after.labels, after.annotations, after.taints) == (
        before.labels,
        before.annotations,
        before.taints,
    )
    assert claim(world, before, "inc-2")


def test_release_leaves_another_incidents_claim(world: World, name: str) -> None:
    spare = add_spare(world, name)
    claim(world, spare)
    assert not world.spares.release(name, spare.uid, "inc-2", deadline=D).wrote


def test_admitting_swaps_the_taints_in_one_write(world: World, name: str) -> None:
    spare = add_spare(world, name)
    claim(world, spare)
    assert admit(world, spare)
    node = world.view(name)
    assert keys(world, name) == {KEYS.worker}
    assert KEYS.spare not in node.labels
    assert node.labels[POOL] == name
    assert (node.annotations.get(CLAIM), node.annotations[ADMITTED]) == (None, "inc-1")
    assert world.spares.is_admitted(name, spare.uid, "inc-1", deadline=D)
    assert world.writes(name) == 2
    assert offered(world, name) == []


def test_an_admitted_node_with_its_worker_on_it_is_not_admitted_again(world: World, name: str) -> None:
    spare = add_spare(world, name)
    claim(world, spare)
    admit(world, spare)
    world.add_pod(f"{name}-worker", name, gpus=8)
    assert not admit(world, spare)
    assert world.writes(name) == 2


def test_a_person_who_closes_an_admitted_node_is_not_overridden(world: World, name: str) -> None:
    spare = add_spare(world, name)
    claim(world, spare)
    admit(world, spare)
    world.change(name, {"spec": {"taints": [taint(KEYS.spare)]}})
    with pytest.raises(Blocked, match="somebody changed"):
        admit(world, spare)
    assert keys(world, name) == {KEYS.spare}


def test_a_retired_spare_says_why_and_keeps_its_taint(world: World, name: str) -> None:
    spare = add_spare(world, name)
    claim(world, spare)
    assert world.spares.retire(name, spare.uid, "inc-1", "7 of 8 GPUs", deadline=D).wrote
    assert not world.spares.retire(name, spare.uid, "inc-1", "7 of 8 GPUs", deadline=D).wrote
    node = world.view(name)
    assert node.annotations[RETIRED] == "inc-1: 7 of 8 GPUs"
    assert CLAIM not in node.annotations
    assert keys(world, name) == {KEYS.spare, RETIRED}
    assert "7 of 8 GPUs" in refused(world, name)


def test_only_our_own_spare_is_retired(world: World, name: str) -> None:
    spare = add_spare(world, name)
    claim(world, spare, "inc-2")
    with pytest.raises(Blocked, match="not claimed by inc-1"):
        world.spares.retire(name, spare.uid, "inc-1", "bad", deadline=D)
    claim_stands = world.view(name).annotations[CLAIM]
    assert claim_stands == "inc-2"


def test_another_machine_under_a_spares_name_is_unfit_and_never_written(world: World, name: str) -> None:
    spare = add_spare(world, name)
    world.remove_node(name)
    for act in (claim, admit):
        with pytest.raises(Unfit, match="is gone"):
            act(world, spare)
    new = add_spare(world, name)
    for act in (claim, admit):
        with pytest.raises(Unfit, match="another machine"):
            act(world, spare)
    with pytest.raises(IdentityChanged):
        world.spares.is_admitted(name, spare.uid, "inc-1", deadline=D)
    assert world.writes(name) == 0
    assert world.view(name).uid == new.uid


def test_detaching_keeps_workers_off_and_attaching_takes_it_back(world: World, sick: NodeView) -> None:
    assert detach(world, sick)
    assert not detach(world, sick)
    assert world.spares.is_detached(sick.name, sick.uid, "inc-1", deadline=D)
    assert keys(world, sick.name) == {taint.key for taint in sick.taints} - {KEYS.worker} | {RETIRED}
    assert attach(world, sick)
    assert not attach(world, sick)
    after = world.view(sick.name)
    assert {(found.key, found.value) for found in after.taints} == {
        (found.key, found.value) for found in sick.taints
    }
    assert WORKER in [found.raw for found in after.taints]
    assert after.annotations == sick.annotations
    assert world.writes(sick.name) == 3


def test_a_node_without_our_standing_fence_is_not_detached(world: World, sick: NodeView) -> None:
    with pytest.raises(Blocked, match="not fenced by inc-2"):
        detach(world, sick, "inc-2")
    world.change(sick.name, {"spec": {"unschedulable": None}})
    with pytest.raises(Blocked, match="uncordoned by somebody else"):
        detach(world, sick)
    assert KEYS.worker in keys(world, sick.name)


def test_a_persons_return_of_a_detached_node_is_not_undone(world: World, sick: NodeView) -> None:
    detach(world, sick)
    kept = [dict(found.raw) for found in world.view(sick.name).taints if found.key != RETIRED]
    world.change(sick.name, {"spec": {"taints": kept}})
    with pytest.raises(Blocked, match="removed by somebody else"):
        detach(world, sick)
    assert attach(world, sick)
    assert DETACHED not in world.view(sick.name).annotations
    assert [dict(found.raw) for found in world.view(sick.name).taints] == kept


def test_attaching_does_not_double_a_worker_taint_that_is_back(world: World, sick: NodeView) -> None:
    detach(world, sick)
    taints = [dict(found.raw) for found in world.view(sick.name).taints]
    world.change(sick.name, {"spec": {"taints": [*taints, WORKER]}})
    attach(world, sick)
    assert [found.key for found in world.view(sick.name).taints].count(KEYS.worker) == 1


@pytest.mark.parametrize("note", ["", "{", "[]", '{"incident": "inc-1", "taints": 7}'])
def test_a_note_that_cannot_be_read_is_left_to_people(world: World, sick: NodeView, note: str) -> None:
    detach(world, sick)
    world.change(sick.name, {"metadata": {"annotations": {DETACHED: note}}})
    with pytest.raises(Blocked, match="by hand"):
        attach(world, sick)
    assert RETIRED in keys(world, sick.name)


def test_a_label_cannot_hold_an_rfc_3339_time(world: World, name: str) -> None:
    """Why a veto's end is written differently in a label; the fake does not check values."""
    world.add_node(name)
    world.change(name, {"metadata": {"labels": {"remediator.dev/no-replace": "until-20261129T180000Z"}}})
    assert world.view(name).labels["remediator.dev/no-replace"] == "until-20261129T180000Z"
