"""Foreign objects are read tolerantly; Slinky's names are computed as Slinky does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.kube.nodes import parse_node
from remediator.kube.pods import SCALING_MODE, WORKER_LABELS, parse_pod, slurm_node
from remediator.kube.reviews import _identity

META = {"name": "n", "uid": "u", "resourceVersion": "1", "namespace": "slurm"}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["labels", "annotations", "ownerReferences", "taints", "unschedulable", "providerID", "nodeName"]
parts = st.dictionaries(st.sampled_from(FIELDS), json_values)
statuses = st.dictionaries(st.sampled_from(["nodeInfo", "conditions", "phase"]), json_values)


@given(meta=parts, spec=parts | json_values, status=statuses | json_values)
def test_odd_fields_never_break_reading_and_never_make_a_node_ready(
    meta: Any, spec: Any, status: Any
) -> None:
    raw = {"metadata": {**meta, **META}, "spec": spec, "status": status}
    node, pod = parse_node(raw), parse_pod(raw)
    assert node is not None
    assert node.ready is None
    assert pod is not None


@given(raw=st.dictionaries(st.text(max_size=8), json_values))
def test_an_object_without_identity_is_refused(raw: dict[str, Any]) -> None:
    assert parse_node(raw) is None
    assert parse_pod(raw) is None


@pytest.mark.parametrize(("said", "ready"), [("True", True), ("False", False), ("Unknown", None), ("", None)])
def test_ready_is_known_or_none(said: str, ready: bool | None) -> None:
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": said}]
    node = parse_node({"metadata": META, "status": {"conditions": conditions}})
    assert node is not None
    assert node.ready is ready


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({}, {"hostname": "gpu-0"}, None),
        ({"app.kubernetes.io/name": "slurmd"}, {"hostname": "gpu-0"}, None),
        (WORKER_LABELS, {"hostname": "gpu-0", "nodeName": "k"}, "gpu-0"),
        (WORKER_LABELS, {"nodeName": "k"}, "n"),
        (WORKER_LABELS, {"nodeName": "k", "hostname": "h", "hostNetwork": True}, "k"),
        (WORKER_LABELS, {"hostname": "h", "hostNetwork": True}, None),
        ({**WORKER_LABELS, SCALING_MODE: "StatefulSet"}, {"hostname": "gpu-0"}, "gpu-0"),
        ({**WORKER_LABELS, SCALING_MODE: "DaemonSet"}, {"hostname": "k-0", "hostNetwork": True}, "k-0"),
        ({**WORKER_LABELS, SCALING_MODE: "DaemonSet"}, {"nodeName": "k-0"}, None),
    ],
)
def test_a_worker_pods_slurm_name(labels: dict[str, str], spec: dict[str, Any], expected: str | None) -> None:
    pod = parse_pod({"metadata": {**META, "labels": labels}, "spec": spec})
    assert pod is not None
    assert slurm_node(pod) == expected


@given(status=st.dictionaries(st.sampled_from(["authenticated", "audiences", "user", "error"]), json_values))
def test_an_odd_review_never_authenticates(status: dict[str, Any]) -> None:
    assert not _identity(status, "remediator").authenticated


@pytest.mark.parametrize("nodes", [[], ["a", "b"], "a", None, [7]])
def test_a_node_claim_that_is_not_exactly_one_is_none(nodes: Any) -> None:
    extra = {"authentication.kubernetes.io/node-name": nodes}
    status = {"authenticated": True, "audiences": ["r"], "user": {"username": "u", "extra": extra}}
    identity = _identity(status, "r")
    assert identity.authenticated
    assert identity.node == ""


@pytest.mark.parametrize("audiences", [None, [], ["vault"], "remediator", {"remediator": 1}])
def test_a_token_for_another_audience_does_not_authenticate(audiences: Any) -> None:
    status = {"authenticated": True, "audiences": audiences, "user": {"username": "u"}}
    assert not _identity(status, "remediator").authenticated
    assert _identity({**status, "audiences": ["remediator"]}, "remediator").authenticated


@pytest.mark.parametrize(
    ("spec", "gpus", "holds"),
    [
        ({}, 0, False),
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}, 8, True),
        ({"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}] * 2}, 4, True),
        ({"initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}, 8, True),
        ({"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "3"}}}]}, 3, True),
        ({"containers": [{"resources": {"limits": {"amd.com/gpu": "1"}}}]}, 1, True),
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1k"}}}]}, 1, True),
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "0"}}}]}, 0, False),
        ({"containers": [{"resources": {"limits": {"cpu": "8", "memory": "1Gi"}}}]}, 0, False),
        ({"resourceClaims": [{"name": "gpus"}]}, 0, True),
    ],
)
def test_the_gpus_a_pod_asks_for(spec: dict[str, Any], gpus: int, holds: bool) -> None:
    pod = parse_pod({"metadata": META, "spec": spec, "status": {"phase": "Running"}})
    done = parse_pod({"metadata": META, "spec": spec, "status": {"phase": "Succeeded"}})
    assert pod is not None
    assert done is not None
    assert (pod.gpus, pod.holds_gpus, done.holds_gpus) == (gpus, holds, False)


@pytest.mark.parametrize("odd", ["", "soon", "2026-11-29T18:00:00", 7, {"a": 1}])
def test_a_deletion_time_that_cannot_be_read_is_still_a_deletion_but_never_overdue(odd: Any) -> None:
    pod = parse_pod({"metadata": {**META, "deletionTimestamp": odd}})
    assert pod is not None
    assert pod.terminating
    assert pod.overdue(9e12) == 0.0


@pytest.mark.parametrize("odd", [None, "", "many", "-1", {}, "1k"])
def test_a_number_of_gpus_that_cannot_be_read_is_unknown(odd: Any) -> None:
    amounts = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": odd}}
    node = parse_node({"metadata": META, "status": amounts})
    assert node is not None
    assert (node.gpus, node.gpu_capacity) == (None, 8)
