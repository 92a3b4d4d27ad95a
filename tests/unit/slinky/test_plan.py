"""The cordon state machine and its neighbours, step by step as slurm-operator v1.2.1 takes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.lab.slinky import plan
from deploy.lab.slinky.model import KubeNode, NodeSet, SlurmNode, WorkerPod
from deploy.lab.slinky.plan import DeletePod, SetCordon, SetSlurm

POD = WorkerPod(
    "slurm", "worker-0", uid="u0", node="gpu-0", hostname="worker-0", phase="Running", ready_since=100.0
)
NODE = KubeNode("gpu-0")
CORDONED = KubeNode("gpu-0", unschedulable=True)
OURS = "slurm-operator: Node (gpu-0) was cordoned, Pod (slurm/worker-0) must be cordoned"
FOREIGN = "remediator: 7 XID 79"
SET, REMOVED = SetCordon(POD, True), SetCordon(replace(POD, cordoned=True), False)


def record(*state: str, reason: str = "") -> SlurmNode:
    return SlurmNode("worker-0", frozenset(state), reason)


def drain(reason: str) -> SetSlurm:
    return SetSlurm("worker-0", state="DRAIN", reason=reason)


UNCORDONED = SetSlurm(
    "worker-0", state="UNDRAIN", reason="slurm-operator: Pod (slurm/worker-0) was uncordoned"
)

# name: (Kubernetes node, pod-cordon set, Slurm record, what is done)
CORDON = {
    "nothing to do": (NODE, False, record("IDLE"), ()),
    "cordon drains an idle node": (CORDONED, False, record("IDLE"), (SET, drain(OURS))),
    "cordon drains a busy node": (CORDONED, False, record("ALLOCATED"), (SET, drain(OURS))),
    "cordon drains a down node": (CORDONED, False, record("DOWN"), (SET, drain(OURS))),
    "a drained node is not drained again": (CORDONED, True, record("IDLE", "DRAIN", reason=OURS), ()),
    "the annotation is set on a node already drained": (
        CORDONED,
        False,
        record("IDLE", "DRAIN", reason=OURS),
        (SET,),
    ),
    "a reason of the operator's own is kept": (
        CORDONED,
        False,
        record("DOWN", reason="slurm-operator: Pod is terminating"),
        (SET, drain("slurm-operator: Pod is terminating")),
    ),
    "a foreign reason is left, and no annotation set": (
        CORDONED,
        False,
        record("IDLE", "DRAIN", reason=FOREIGN),
        (),
    ),
    "a foreign reason without a drain is left": (CORDONED, False, record("IDLE", reason=FOREIGN), ()),
    "a foreign reason survives the uncordon": (NODE, True, record("IDLE", "DRAIN", reason=FOREIGN), ()),
    "the prefix is exact": (
        CORDONED,
        False,
        record("IDLE", "DRAIN", reason="slurm-operator:x"),
        (),
    ),
    "a node that does not respond is left": (CORDONED, False, record("DOWN", reason="Not responding"), ()),
    "so is one with the operator's reason before it": (
        CORDONED,
        False,
        record("DOWN", reason="slurm-operator: x: Not responding"),
        (),
    ),
    "an unknown record is left": (CORDONED, False, None, ()),
    "a pod without a Kubernetes node is left": (None, False, record("IDLE"), ()),
    "a pod-cordon alone drains": (
        NODE,
        True,
        record("IDLE"),
        (drain("slurm-operator: Pod (slurm/worker-0) was cordoned"),),
    ),
    "an uncordoned node undrains": (NODE, False, record("IDLE", "DRAIN", reason=OURS), (UNCORDONED,)),
    "an undrain under way is not asked again": (NODE, False, record("IDLE", "DRAIN", "UNDRAIN"), ()),
    "uncordon does not end DOWN": (
        NODE,
        False,
        record("DOWN", reason="slurm-operator: Pod is terminating"),
        (),
    ),
}


@pytest.mark.parametrize("case", CORDON.values(), ids=CORDON.keys())
def test_cordon(
    case: tuple[KubeNode | None, bool, SlurmNode | None, tuple[plan.Action, ...]],
) -> None:
    node, cordoned, found, expected = case
    assert plan.cordon(replace(POD, cordoned=cordoned), node, found) == expected


def test_cordon_reason_annotation_is_used_and_prefixed() -> None:
    node = replace(CORDONED, cordon_reason="remediator: 7\nXID 79\x07 ")
    assert drain("slurm-operator: remediator: 7 XID 79") in plan.cordon(POD, node, record("IDLE"))


def test_empty_cordon_reason_annotation_becomes_unknown() -> None:
    node = replace(CORDONED, cordon_reason=" \n")
    assert drain("slurm-operator: unknown") in plan.cordon(POD, node, record("IDLE"))


def test_propagated_conditions_are_the_reason() -> None:
    node = replace(CORDONED, conditions=(("GpuGone", "Xid", "79"), ("Ready", "r", "m"), ("Hot", "T", "95")))
    done = plan.cordon(POD, node, record("IDLE"), propagated=("GpuGone", "Hot"))
    assert drain("slurm-operator: (Xid: 79); (T: 95)") in done


def test_annotation_goes_before_propagated_conditions() -> None:
    node = replace(CORDONED, cordon_reason="mine", conditions=(("GpuGone", "Xid", "79"),))
    assert drain("slurm-operator: mine") in plan.cordon(POD, node, record("IDLE"), propagated=("GpuGone",))


KEEP = {
    "cordoned node": (CORDONED, record("IDLE", "DRAIN", reason=OURS), ()),
    "foreign reason": (NODE, record("IDLE", "DRAIN", reason=FOREIGN), ()),
    "own drain": (
        NODE,
        record("IDLE", "DRAIN", reason=OURS),
        (REMOVED, SetSlurm("worker-0", state="UNDRAIN", reason="")),
    ),
    "no drain": (NODE, record("IDLE"), (REMOVED,)),
    "unknown record": (NODE, None, (REMOVED,)),
}


@pytest.mark.parametrize("case", KEEP.values(), ids=KEEP.keys())
def test_keep(case: tuple[KubeNode, SlurmNode | None, tuple[plan.Action, ...]]) -> None:
    node, found, expected = case
    assert plan.keep(replace(POD, cordoned=True), node, found) == expected


def test_scale_in_drains_over_any_reason_then_waits_then_deletes() -> None:
    text = "slurm-operator: Pod (slurm/worker-0) is pending termination for scale-in"
    assert plan.condemn(POD, record("ALLOCATED", reason=FOREIGN)) == (SET, drain(text))
    cordoned = replace(POD, cordoned=True)
    assert plan.condemn(cordoned, record("ALLOCATED", "DRAIN", reason=text)) == ()
    assert plan.condemn(cordoned, record("IDLE", "COMPLETING", "DRAIN", reason=text)) == ()
    assert plan.condemn(cordoned, record("IDLE", "DRAIN", reason=text)) == (DeletePod(cordoned, "scale-in"),)


def test_scale_in_deletes_at_once_what_slurm_does_not_know() -> None:
    assert plan.condemn(POD, None) == (DeletePod(POD, "scale-in"),)


def test_scale_in_leaves_a_terminating_pod() -> None:
    assert plan.condemn(replace(POD, terminating=True), record("IDLE", "DRAIN")) == ()


def nodeset(name: str = "worker") -> NodeSet:
    return NodeSet("slurm", name, "nu", "slurm", 4, True, raw={})


HERE = '{"namespace":"slurm","podName":"worker-0","node":"gpu-0","nodeSetName":"worker","nodeSetUID":"nu"}'
ELSEWHERE = HERE.replace("gpu-0", "gpu-4")
WRITE = SetSlurm("worker-0", comment=HERE)
WAKE = SetSlurm("worker-0", state="IDLE")
ADOPT = {
    "the first pod is written down and the state left": (POD, "", (WRITE,)),
    "the same pod on the same node stays as it is": (POD, HERE, ()),
    "a pod that moved makes the node idle": (POD, ELSEWHERE, (WRITE, WAKE)),
    "a comment of somebody else's is overwritten": (POD, "gpu health: ok", (WRITE,)),
    "a comment that is JSON of another shape too": (POD, "[1]", (WRITE,)),
    "a pod that is not ready is not written": (replace(POD, ready_since=None), ELSEWHERE, ()),
    "nor one that is terminating": (replace(POD, terminating=True), ELSEWHERE, ()),
    "nor one that is pending": (replace(POD, phase="Pending"), ELSEWHERE, ()),
}


@pytest.mark.parametrize("case", ADOPT.values(), ids=ADOPT.keys())
def test_adopt(case: tuple[WorkerPod, str, tuple[plan.Action, ...]]) -> None:
    pod, comment, expected = case
    found = SlurmNode("worker-0", frozenset({"DOWN", "DRAIN"}), FOREIGN, comment)
    assert plan.adopt(nodeset(), pod, found) == expected


def test_adopt_leaves_an_unknown_record() -> None:
    assert plan.adopt(nodeset(), POD, None) == ()


def test_ready_pod_without_a_record_is_deleted_after_the_grace() -> None:
    assert plan.unregistered(POD, None, now=102.9, grace=3.0) == ()
    assert [type(a) for a in plan.unregistered(POD, None, now=103.0, grace=3.0)] == [DeletePod]


def test_pod_without_a_record_that_is_not_ready_is_left() -> None:
    assert plan.unregistered(replace(POD, ready_since=None), None, now=900.0, grace=3.0) == ()
    assert plan.unregistered(replace(POD, terminating=True), None, now=900.0, grace=3.0) == ()
    assert plan.unregistered(POD, record("IDLE"), now=900.0, grace=3.0) == ()


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_ended_pod_is_deleted_once(phase: str) -> None:
    ended = replace(POD, phase=phase)
    assert plan.tidy(ended) == (DeletePod(ended, "pod has ended"),)
    assert plan.tidy(replace(ended, terminating=True)) == ()
    assert plan.tidy(POD) == ()


def test_conditions_show_one_base_state_and_every_flag() -> None:
    found = record("DOWN", "DRAIN", "NOT_RESPONDING", "DYNAMIC_NORM", "INVALID_REG", reason="why")
    assert plan.conditions(found) == {
        "SlurmNodeStateDown": "why",
        "SlurmNodeStateDrain": "why",
        "SlurmNodeStateInvalidReg": "why",
        "SlurmNodeStateNotResponding": "why",
    }
    assert plan.conditions(None) == {}


@pytest.mark.parametrize(
    ("state", "busy"),
    [("ALLOCATED", True), ("MIXED", True), ("COMPLETING", True), ("IDLE", False), ("DOWN", False)],
)
def test_protection_follows_what_the_pod_shows(state: str, busy: bool) -> None:
    found = record(state, "DRAIN")
    assert plan.is_busy(found) == busy
    assert plan.shows_busy(plan.conditions(found)) == busy


def pods(*ordinals: int) -> list[WorkerPod]:
    return [replace(POD, name=f"worker-{n}", hostname=f"worker-{n}", uid=f"u{n}") for n in ordinals]


def test_lowest_free_ordinals_are_made() -> None:
    assert plan.missing_ordinals(pods(0, 2), 4) == [1, 3]
    assert plan.missing_ordinals(pods(0, 1), 2) == []
    assert plan.missing_ordinals([], 2) == [0, 1]
    assert plan.missing_ordinals(pods(5), 2) == [0]


def test_terminating_pod_keeps_its_ordinal() -> None:
    there = [*pods(0), replace(pods(1)[0], terminating=True)]
    assert plan.missing_ordinals(there, 2) == []


def test_scale_in_takes_pending_then_cheap_then_the_highest_ordinal() -> None:
    four = pods(0, 1, 2, 3)
    assert [p.name for p in plan.condemned(four, 3)] == ["worker-3"]
    four[1] = replace(four[1], deletion_cost=-1000)
    assert [p.name for p in plan.condemned(four, 2)] == ["worker-1", "worker-3"]
    four[0] = replace(four[0], node="", phase="Pending", ready_since=None)
    assert [p.name for p in plan.condemned(four, 3)] == ["worker-0"]
