"""A pass as a whole: which step goes on when a server refuses, and what reaches Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.slinky import status
from deploy.lab.slinky.kube import Kube, KubeError
from deploy.lab.slinky.lag import Span
from deploy.lab.slinky.model import POD_CORDON, POD_PROTECT, Json, NodeSet, SlurmNode
from deploy.lab.slinky.plan import SetSlurm
from deploy.lab.slinky.slurm import SlurmError, SlurmRest
from deploy.lab.slinky.sync import Habits, NodeSetPass

NODESET_JSON: Json = {
    "metadata": {"namespace": "slurm", "name": "worker", "uid": "nu", "generation": 1},
    "spec": {"controllerRef": {"name": "slurm"}, "replicas": 1},
}
CONTROLLER: Json = {
    "metadata": {"name": "slurm", "namespace": "slurm"},
    "spec": {"slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"}},
}
HABITS = Habits(Span(4, 6), 3.0)
NOW = 1_800_000_000.0
READY = {"type": "Ready", "status": "True", "lastTransitionTime": status.stamp(NOW - 60)}


def pod(name: str = "worker-0", **metadata: Any) -> Json:
    owner = {"uid": "nu"}
    meta = {"namespace": "slurm", "name": name, "uid": f"uid-{name}", "ownerReferences": [owner], **metadata}
    spec = {"nodeName": "gpu-0", "hostname": name}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", "conditions": [READY]}}


def node(*, unschedulable: bool = False) -> Json:
    return {"metadata": {"name": "gpu-0", "uid": "n0"}, "spec": {"unschedulable": unschedulable}}


class MemoryKube(Kube):
    """Lists what it was given and remembers what it was asked to write."""

    def __init__(self, pods: list[Json], nodes: list[Json], refuse: str = "") -> None:
        super().__init__("https://nowhere", Path("token"), Path("ca"))
        self.lists: Mapping[str, list[Json]] = {"/api/v1/namespaces/slurm/pods": pods, "/api/v1/nodes": nodes}
        self.patches: list[tuple[str, Json]] = []
        self.created: list[tuple[str, Json]] = []
        self.deleted: list[str] = []
        self.refuse = refuse

    def items(self, path: str, **query: str) -> list[Json]:
        return self.lists[path]

    def get(self, path: str) -> Json | None:
        return None

    def create(self, path: str, body: Json) -> bool:
        self.created.append((path, body))
        return True

    def patch(self, path: str, body: Json, kind: str = "") -> None:
        if self.refuse and path.endswith(self.refuse):
            raise KubeError(403, "no")
        self.patches.append((path, body))

    def delete(self, path: str, uid: str) -> None:
        self.deleted.append(path)

    def events(self) -> list[str]:
        return [body["reason"] for path, body in self.created if path.endswith("/events")]

    def pods_made(self) -> list[str]:
        return [body["metadata"]["name"] for path, body in self.created if path.endswith("/pods")]


class MemorySlurm(SlurmRest):
    """Knows the given records; may refuse to write or be away."""

    def __init__(self, *records: SlurmNode, refuse: bool = False, away: bool = False) -> None:
        super().__init__("http://nowhere", lambda: "")
        self.records = {r.name: r for r in records}
        self.updates: list[SetSlurm] = []
        self.refuse = refuse
        self.away = away

    def nodes(self) -> dict[str, SlurmNode]:
        if self.away:
            raise SlurmError("GET /nodes/: MaxRetryError")
        return dict(self.records)

    def update(self, change: SetSlurm) -> None:
        if self.refuse:
            raise SlurmError("POST /node/worker-0: HTTP 422 Invalid node state")
        self.updates.append(change)


def run(kube: Kube, rest: SlurmRest | None, *, show: bool = True, nodeset: Json | None = None) -> bool:
    work = NodeSetPass(
        kube,
        rest,
        nodeset=NodeSet.from_json(nodeset or NODESET_JSON),
        controller=CONTROLLER,
        habits=HABITS,
        now=NOW,
    )
    return work.run(lambda *_: show)


def record(*state: str, reason: str = "") -> SlurmNode:
    return SlurmNode("worker-0", frozenset(state), reason, comment="")


def cordon_patches(kube: MemoryKube) -> list[Any]:
    annotations = [body["metadata"].get("annotations", {}) for _, body in kube.patches if "metadata" in body]
    return [a[POD_CORDON] for a in annotations if POD_CORDON in a]


def test_cordon_annotates_the_pod_and_drains() -> None:
    kube, rest = MemoryKube([pod()], [node(unschedulable=True)]), MemorySlurm(record("IDLE"))
    assert run(kube, rest)
    assert cordon_patches(kube) == ["true"]
    assert rest.updates[0].state == "DRAIN"
    assert "NodeCordon" in kube.events()


def test_refused_drain_leaves_the_annotation_and_an_event() -> None:
    kube, rest = MemoryKube([pod()], [node(unschedulable=True)]), MemorySlurm(record("IDLE"), refuse=True)
    assert not run(kube, rest)
    assert cordon_patches(kube) == ["true"]
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
    nodeset = {**NODESET_JSON, "spec": {**NODESET_JSON["spec"], "replicas": 0}}
    kube = MemoryKube([pod()], [node(unschedulable=True)])
    assert run(kube, None, nodeset=nodeset)
    assert cordon_patches(kube) == []
    assert kube.deleted == ["/api/v1/namespaces/slurm/pods/worker-0"]


def test_pods_of_others_are_left_and_not_counted() -> None:
    kube = MemoryKube([pod(ownerReferences=[{"uid": "other"}])], [node(unschedulable=True)])
    assert run(kube, MemorySlurm(record("IDLE")))
    assert cordon_patches(kube) == []
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
    assert cordon_patches(kube) == [None]


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
