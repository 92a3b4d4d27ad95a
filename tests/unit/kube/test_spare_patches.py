"""Whatever taints a node bears: admitting and detaching touch their own, and attaching is the way back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remediator.kube.fence import INCIDENT, fence_patch
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.spare import (
    CLAIM,
    HOLDING,
    SpareKeys,
    admit_patch,
    attach_patch,
    detach_patch,
    is_admitted,
    unfit,
)
from tests.fakes.kube import merge

KEYS = SpareKeys()
TOLERATED = (KEYS.worker, *KEYS.tolerated)
Raw = dict[str, Any]
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
taint_keys = st.sampled_from(
    [KEYS.worker, KEYS.spare, "nvidia.com/gpu", "example.com/a", "node.kubernetes.io/x"]
)
taints = st.lists(
    st.fixed_dictionaries({"key": taint_keys, "effect": effects}, optional={"value": st.just("v")}),
    max_size=5,
    unique_by=lambda row: (row["key"], row["effect"]),
)


def node(rows: list[Raw], labels: dict[str, str] | None = None, **annotations: str) -> Raw:
    meta = {
        "name": "n",
        "uid": "u",
        "resourceVersion": "1",
        "labels": labels or {},
        "annotations": annotations,
    }
    return {
        "metadata": meta,
        "spec": {"taints": rows},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def view(raw: Raw) -> NodeView:
    found = parse_node(raw)
    assert found is not None
    return found


def patched(raw: Raw, patch: Raw | None) -> Raw:
    assert patch is not None
    return merge(raw, patch)


def rows(raw: Raw) -> list[Raw]:
    found: list[Raw] = raw["spec"].get("taints") or []
    return sorted(found, key=lambda row: (row["key"], row["effect"]))


@given(rows_=taints)
def test_detach_then_attach_leaves_exactly_what_was_there(rows_: list[Raw]) -> None:
    bare = node(rows_)
    fenced = patched(bare, fence_patch(view(bare), "inc-1", "why", cordon=True))
    detached = patched(fenced, detach_patch(view(fenced), KEYS, "inc-1"))
    assert KEYS.worker not in [row["key"] for row in rows(detached)]
    assert detach_patch(view(detached), KEYS, "inc-1") is None
    back = patched(detached, attach_patch(view(detached), "inc-1"))
    assert rows(back) == rows(fenced)
    assert back["metadata"]["annotations"] == fenced["metadata"]["annotations"]
    assert back["metadata"]["annotations"][INCIDENT] == "inc-1"


@given(rows_=taints)
def test_admitting_swaps_only_the_spare_taint_for_the_worker_taint(rows_: list[Raw]) -> None:
    gate = {"key": KEYS.spare, "effect": "NoSchedule"}
    harmless = [row for row in rows_ if row["key"] in TOLERATED or row["effect"] == "PreferNoSchedule"]
    raw = node([*harmless, gate], {KEYS.spare: "true", "zone": "a"}, **{CLAIM: "inc-1"})
    assert not unfit(view(raw), KEYS)
    admitted = patched(raw, admit_patch(view(raw), KEYS, "inc-1"))
    kept = [row for row in rows(admitted) if row["key"] != KEYS.worker]
    assert kept == [row for row in rows(raw) if row["key"] not in (KEYS.worker, KEYS.spare)]
    closed = [row["key"] for row in rows(admitted) if row["effect"] in HOLDING]
    assert KEYS.worker in closed
    assert admitted["metadata"]["labels"] == {"zone": "a"}
    assert is_admitted(view(admitted), KEYS, "inc-1")
    assert admit_patch(view(admitted), KEYS, "inc-1") is None
    assert unfit(view(admitted), KEYS)
