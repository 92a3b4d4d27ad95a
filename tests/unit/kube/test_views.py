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
