"""What pods and NodeSets of Slinky tell: pins, names after nodes, and whether a rollout is under way."""

from __future__ import annotations

import pytest

from remediator.kube.errors import Json
from remediator.kube.nodesets import is_rolling, is_settled, owners
from remediator.kube.pods import (
    PodView,
    is_named_after_node,
    names_of_node,
    parse_pod,
    slurm_node,
)

MODE, HASH = "nodeset.slinky.slurm.net/scaling-mode", "controller.kubernetes.io/hash"
SLURMD = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}
OWNER = {"kind": "NodeSet", "name": "worker", "uid": "u-1"}


def pod(
    name: str = "worker-0",
    labels: dict[str, str] | None = None,
    *,
    spec: Json | None = None,
    status: Json | None = None,
    owner: dict[str, str] = OWNER,
) -> PodView:
    meta: Json = {"namespace": "slurm", "name": name, "uid": name, "resourceVersion": "1"}
    meta |= {"ownerReferences": [owner], "labels": {**SLURMD, **(labels or {})}}
    found = parse_pod({"metadata": meta, "spec": spec or {}, "status": status or {}})
    assert found is not None
    return found


def nodeset(revision: str = "new", strategy: str = "RollingUpdate") -> Json:
    return {"spec": {"updateStrategy": {"type": strategy}}, "status": {"nodeSetHash": revision}}


@pytest.mark.parametrize(
    ("raw", "rolling"),
    [
        (nodeset(), True),
        (nodeset("old"), False),
        ({**nodeset(), "spec": {}}, True),
        (nodeset(strategy="OnDelete"), False),
        (nodeset(strategy="ScheduledUpdate"), False),
        ({"spec": {}, "status": {}}, False),
    ],
)
def test_a_rolling_update_goes_on_while_a_pod_is_of_another_revision(raw: Json, rolling: bool) -> None:
    mine = pod(labels={HASH: "old"})
    (owner,) = mine.owners
    assert (
        is_rolling(raw, owner, [mine, pod("worker-1", {HASH: raw["status"].get("nodeSetHash", "")})])
        is rolling
    )


def test_pods_that_are_over_or_of_another_nodeset_or_without_a_revision_do_not_count() -> None:
    (owner,) = pod().owners
    over = pod(status={"phase": "Failed"}, labels={HASH: "old"})
    assert not is_rolling(nodeset(), owner, [over, pod()])
    strange = pod("x-0", {HASH: "old"}, owner={**OWNER, "uid": "u-2"})
    assert not is_rolling(nodeset(), owner, [strange])


@pytest.mark.parametrize(
    ("status", "settled"),
    [
        ({"replicas": 4, "updatedReplicas": 4}, True),
        ({"replicas": 4, "updatedReplicas": 3}, False),
        ({"replicas": 4}, False),
        ({}, False),
    ],
)
def test_a_nodeset_that_counts_no_old_pod_is_settled(status: Json, settled: bool) -> None:
    assert is_settled({"status": status}) is settled


def test_only_workers_have_a_nodeset() -> None:
    assert list(owners([pod()])) == [("slurm", "worker")]
    assert owners([pod(labels={"app.kubernetes.io/name": "login"})]) == {}


def test_a_pin_is_a_required_affinity_to_one_node_name() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-0"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert pod(spec={"affinity": affinity}).pinned_to == "gpu-0"
    field["values"] = ["gpu-0", "gpu-1"]
    assert pod(spec={"affinity": affinity}).pinned_to == ""
    assert pod(spec={"affinity": {"nodeAffinity": None}}).pinned_to == ""


def test_the_schedulers_word_is_kept() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/6 nodes are available"}
    assert pod(status={"conditions": [condition]}).unscheduled == "0/6 nodes are available"
    assert pod(status={"conditions": [{**condition, "status": "True"}]}).unscheduled == ""


@pytest.mark.parametrize(
    ("spec", "mode", "name", "after_node"),
    [
        ({"hostname": "worker-0"}, "StatefulSet", "worker-0", False),
        ({"hostname": "gpu-0"}, "DaemonSet", "gpu-0", True),
        ({"hostNetwork": True, "nodeName": "gpu-0.rack"}, "StatefulSet", "gpu-0.rack", True),
    ],
)
def test_a_worker_is_named_after_its_node_in_daemonset_mode_and_on_the_hosts_network(
    spec: Json, mode: str, name: str, after_node: bool
) -> None:
    worker = pod(labels={MODE: mode}, spec=spec)
    assert (slurm_node(worker), is_named_after_node(worker)) == (name, after_node)
    assert not after_node or name in names_of_node("gpu-0.rack", "")


def test_an_override_is_a_name_of_its_node_too() -> None:
    assert names_of_node("gpu-0", "old-3") == {"gpu-0", "old-3"}
