"""The guarded facades: nothing leaves without the lease, and a spare that is let go bears no claim."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remediator.actuators.nodes import Nodes, fenced
from remediator.actuators.ports import Unfit
from remediator.actuators.spares import Spares
from remediator.clock import ManualClock
from remediator.errors import Fenced
from remediator.guard import Guard, open_guard
from remediator.kube.fence import CORDON_REASON
from remediator.kube.pods import PodView
from remediator.kube.spare import ADMITTED, CLAIM, RETIRED, SpareKeys
from remediator.model.incident import Incident
from remediator.model.spare import Spare
from tests.fakes.kube import FakeCluster

POOL = {"remediator.dev/pool": "training"}
KEYS = SpareKeys()


class River:
    """A sick worker, a spare, and the facades over them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kube = FakeCluster(self.clock)
        uid = self.kube.add_node("gpu-0", labels=POOL, taints=(KEYS.worker,))
        self.spare = Spare(node="gpu-4", uid=self.kube.add_spare("gpu-4", POOL), incident="inc-1")
        self.nodes, self.spares = self.behind(open_guard(self.clock))
        self.kube.add_pod("slurm", "w-0", "gpu-0", gpus=8)
        self.incident = Incident(
            id="inc-1",
            key="k",
            node="gpu-0",
            node_uid=uid,
            boot_id="b",
            tier="T0",
            rule="xid-79",
            cause="XID 79",
            plan="replace",
            fault_at=0.0,
            opened_at=0.0,
        )

    def behind(self, guard: Guard) -> tuple[Nodes, Spares]:
        """The facades behind a guard."""
        return Nodes(self.kube, guard), Spares(self.kube.spares, guard)

    def pod(self) -> PodView:
        """The worker pod."""
        pod = self.kube.pod("slurm", "w-0")
        assert pod is not None
        return pod


@pytest.fixture
def river() -> River:
    return River()


CALLS: dict[str, Callable[[River, Nodes, Spares], object]] = {
    "node": lambda river, nodes, _: nodes.node("gpu-0"),
    "pods_on": lambda river, nodes, _: nodes.pods_on("gpu-0"),
    "worker": lambda river, nodes, _: nodes.worker("w-0"),
    "fence": lambda river, nodes, _: nodes.fence(river.incident, river.kube.view("gpu-0")),
    "unfence": lambda river, nodes, _: nodes.unfence(river.incident),
    "evict": lambda river, nodes, _: nodes.evict(river.pod()),
    "offers": lambda river, _, spares: spares.offers(POOL, {}),
    "is_claimed": lambda river, _, spares: spares.is_claimed(river.spare),
    "is_admitted": lambda river, _, spares: spares.is_admitted(river.spare),
    "claim": lambda river, _, spares: spares.claim(river.spare),
    "release": lambda river, _, spares: spares.release(river.spare),
    "retire": lambda river, _, spares: spares.retire(river.spare, "bad"),
    "admit": lambda river, _, spares: spares.admit(river.spare),
    "is_detached": lambda river, _, spares: spares.is_detached(river.incident),
    "detach": lambda river, _, spares: spares.detach(river.incident),
    "attach": lambda river, _, spares: spares.attach(river.incident),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_nothing_leaves_once_leadership_moved(
    river: River, call: Callable[[River, Nodes, Spares], object]
) -> None:
    nodes, spares = river.behind(Guard(1, river.clock, lambda: None))
    with pytest.raises(Fenced):
        call(river, nodes, spares)
    assert river.kube.api.requests == []


def test_a_cordon_follows_the_fence_when_the_veto_is_lifted_and_both_are_taken_back(river: River) -> None:
    river.nodes.fence(river.incident, river.kube.view("gpu-0"), cordon=False)
    node = river.kube.view("gpu-0")
    assert fenced(node, river.incident, cordon=False)
    assert not fenced(node, river.incident)
    assert CORDON_REASON not in node.annotations
    assert river.nodes.fence(river.incident, river.kube.view("gpu-0")).wrote
    assert fenced(river.kube.view("gpu-0"), river.incident)
    assert not river.nodes.fence(river.incident, river.kube.view("gpu-0"), cordon=False).wrote
    river.nodes.unfence(river.incident)
    after = river.kube.view("gpu-0")
    assert (after.unschedulable, after.annotations) == (False, {})


def test_a_cordon_somebody_set_while_ours_waited_is_theirs(river: River) -> None:
    river.nodes.fence(river.incident, river.kube.view("gpu-0"), cordon=False)
    river.kube.cordon("gpu-0")
    river.nodes.fence(river.incident, river.kube.view("gpu-0"))
    river.nodes.unfence(river.incident)
    assert river.kube.view("gpu-0").unschedulable


def test_a_spare_goes_from_offer_to_worker(river: River) -> None:
    assert [node.uid for node in river.spares.offers(POOL, {}).usable] == [river.spare.uid]
    river.spares.claim(river.spare)
    assert river.spares.is_claimed(river.spare)
    river.spares.admit(river.spare)
    assert river.spares.is_admitted(river.spare)
    river.nodes.fence(river.incident, river.kube.view("gpu-0"))
    river.spares.detach(river.incident)
    assert river.spares.is_detached(river.incident)
    river.spares.attach(river.incident)
    river.nodes.unfence(river.incident)
    assert [taint.key for taint in river.kube.view("gpu-0").taints] == [KEYS.worker]


def test_a_spare_found_unfit_late_is_let_go_for_others_once_it_is_fit_again(river: River) -> None:
    river.spares.claim(river.spare)
    river.kube.add_pod("team", "notebook", "gpu-4", gpus=1)
    with pytest.raises(Unfit, match="team/notebook"):
        river.spares.admit(river.spare)
    assert CLAIM not in river.kube.view("gpu-4").annotations
    river.kube.remove_pod("team", "notebook")
    river.spares.claim(river.spare.model_copy(update={"incident": "inc-2"}))


def test_a_spare_that_is_gone_is_neither_claimed_nor_a_hindrance(river: River) -> None:
    river.kube.remove_node("gpu-4")
    assert not river.spares.is_claimed(river.spare)
    assert not river.spares.is_admitted(river.spare)
    for act in (river.spares.claim, river.spares.admit):
        with pytest.raises(Unfit, match="is gone"):
            act(river.spare)
    river.spares.release(river.spare)
    river.spares.retire(river.spare, "gone")


def test_a_retired_spare_keeps_its_reason_without_control_characters(river: River) -> None:
    river.spares.claim(river.spare)
    river.spares.retire(river.spare, "line one\nline two")
    assert river.kube.view("gpu-4").annotations[RETIRED] == "inc-1: line one line two"


def test_an_admission_of_an_earlier_incident_does_not_count(river: River) -> None:
    river.kube.annotate("gpu-4", {ADMITTED: "inc-0"})
    assert not river.spares.is_admitted(river.spare)
    river.spares.claim(river.spare)
    river.spares.admit(river.spare)
    assert river.kube.view("gpu-4").annotations[ADMITTED] == "inc-1"
