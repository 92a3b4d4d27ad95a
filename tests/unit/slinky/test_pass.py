"""A pass as a whole: which step goes on when a server refuses, and what reaches Kubernetes."""

from __future__ import annotations

import pytest

from deploy.lab.slinky import status
from deploy.lab.slinky.kube import Kube
from deploy.lab.slinky.lag import Span
from deploy.lab.slinky.model import POD_CORDON, POD_PROTECT, Json, NodeSet, SlurmNode
from deploy.lab.slinky.slurm import SlurmRest
from deploy.lab.slinky.sync import Habits, NodeSetPass
from tests.unit.slinky.memory import CONTROLLER, NODESET, NOW, MemoryKube, MemorySlurm, node, pod

HABITS = Habits(Span(4, 6), 3.0)


def run(kube: Kube, rest: SlurmRest | None, *, show: bool = True, nodeset: Json | None = None) -> bool:
    work = NodeSetPass(
        kube,
        rest,
        nodeset=NodeSet.from_json(nodeset or NODESET),
        controller=CONTROLLER,
        habits=HABITS,
        now=NOW,
    )
    return work.run(lambda *_: show)


def record(*state: str, reason: str = "") -> SlurmNode:
    return SlurmNode("worker-0", frozenset(state), reason, comment="")


def test_cordon_annotates_the_pod_and_drains() -> None:
    kube, rest = MemoryKube([pod()], [node(unschedulable=True)]), MemorySlurm(record("IDLE"))
    assert run(kube, rest)
    assert kube.cordons() == ["true"]
    assert rest.updates[0].state == "DRAIN"
    assert "NodeCordon" in kube.events()


def test_refused_drain_leaves_the_annotation_and_an_event() -> None:
    kube, rest = MemoryKube([pod()], [node(unschedulable=True)]), MemorySlurm(record("IDLE"), refuse=True)
    assert not run(kube, rest)
    assert kube.cordons() == ["true"]
    assert "SyncFailed" in kube.events()


def test_slurmrestd_away_stops_everything_but_the_event() -> None:
    kube, rest = MemoryKube([], [node(unschedulable=True)]), MemorySlurm(away=True)
    assert not run(kube, rest)
    assert kube.events() == ["SyncFailed"]
    assert kube.patches == []
    assert kube.pods_made() == []


def test_a_failed_step_does_not_stop_the_next() -> None:
    kube = MemoryKube([], [node()], refuse="/status")
    assert not run(kube, MemorySlurm())
    assert kube.pods_made() == ["worker-0"]


def test_without_a_restapi_a_cordon_does_nothing_and_scale_in_deletes_at_once() -> None:
    nodeset = {**NODESET, "spec": {**NODESET["spec"], "replicas": 0}}
    kube = MemoryKube([pod()], [node(unschedulable=True)])
    assert run(kube, None, nodeset=nodeset)
    assert kube.cordons() == []
    assert kube.deleted == ["/api/v1/namespaces/slurm/pods/worker-0"]


def test_pods_of_others_are_left_and_not_counted() -> None:
    kube = MemoryKube([pod(ownerReferences=[{"uid": "other"}])], [node(unschedulable=True)])
    assert run(kube, MemorySlurm(record("IDLE")))
    assert kube.cordons() == []
    assert kube.pods_made() == ["worker-0"]


def test_ready_pod_without_a_record_is_deleted() -> None:
    kube = MemoryKube([pod()], [node()])
    assert run(kube, MemorySlurm())
    assert kube.deleted == ["/api/v1/namespaces/slurm/pods/worker-0"]
    assert "SlurmNodeNotRegistered" in kube.events()


def test_busy_pod_is_protected() -> None:
    kube = MemoryKube([pod()], [node()])
    run(kube, MemorySlurm(record("MIXED")))
    assert (
        "/api/v1/namespaces/slurm/pods/worker-0",
        {"metadata": {"labels": {POD_PROTECT: "true"}}},
    ) in kube.patches


def test_idle_pod_loses_its_protection() -> None:
    kube = MemoryKube([pod(labels={POD_PROTECT: "true"})], [node()])
    run(kube, MemorySlurm(record("IDLE")))
    assert (
        "/api/v1/namespaces/slurm/pods/worker-0",
        {"metadata": {"labels": {POD_PROTECT: None}}},
    ) in kube.patches


def test_change_that_lags_does_not_reach_the_pod() -> None:
    kube = MemoryKube([pod()], [node()])
    run(kube, MemorySlurm(record("MIXED")), show=False)
    assert [path for path, _ in kube.patches if "/pods/" in path] == []


def test_overwritten_reason_then_undrain_makes_one_more_drain_and_drops_the_annotation() -> None:
    kube, rest = MemoryKube([pod(annotations={POD_CORDON: "true"})], [node()]), MemorySlurm(record("IDLE"))
    assert run(kube, rest)
    assert [u.state for u in rest.updates if u.state] == ["DRAIN"]
    assert kube.cordons() == [None]


@pytest.mark.parametrize(
    ("shown", "wanted", "patch"),
    [
        ({}, {}, []),
        ({"A": "x"}, {"A": "x"}, []),
        ({"A": "x"}, {"A": "y"}, [{"type": "A", "status": "True", "message": "y"}]),
        ({"A": "x"}, {}, [{"type": "A", "$patch": "delete"}]),
        (
            {},
            {"A": "x"},
            [{"type": "A", "status": "True", "message": "x", "lastTransitionTime": "2027-01-15T08:00:00Z"}],
        ),
    ],
)
def test_condition_patch(shown: dict[str, str], wanted: dict[str, str], patch: list[Json]) -> None:
    assert status.condition_patch(shown, wanted, NOW) == patch
