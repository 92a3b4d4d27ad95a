"""DaemonSet mode, pinToNode and rolling updates, step by step as slurm-operator v1.2.1 takes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deploy.lab.slinky import placing, plan, pods
from deploy.lab.slinky.model import HOSTNAME_OVERRIDE, Json, KubeNode, NodeSet, SlurmNode, WorkerPod
from tests.unit.slinky.memory import CONTROLLER, NODESET, MemoryKube, MemorySlurm, node, pod
from tests.unit.slinky.test_pass import run

SPEC: Json = {"nodeSelector": {"pool": "t"}, "tolerations": [{"key": "worker", "operator": "Exists"}]}
NODE = KubeNode("gpu-0.rack", labels={"pool": "t"}, taints=({"key": "worker", "effect": "NoSchedule"},))
CORDONED = replace(NODE, taints=({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},))
EVICTING = replace(NODE, taints=({"key": "x", "effect": "NoExecute"},))
POD = WorkerPod("slurm", "d-x", uid="d", node=NODE.name, hostname="gpu-0", phase="Running", ready_since=1.0)


def daemons(**spec: Any) -> Json:
    return {**NODESET, "spec": {**NODESET["spec"], "scalingMode": "DaemonSet", **spec}}


@pytest.mark.parametrize(
    ("where", "starts", "stays"),
    [
        (NODE, True, True),
        (CORDONED, False, True),
        (EVICTING, False, False),
        (replace(NODE, labels={}), False, False),
    ],
)
def test_taints_and_labels_say_where_a_worker_starts_and_stays(
    where: KubeNode, starts: bool, stays: bool
) -> None:
    assert placing.fits(SPEC, where) == (starts, stays)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "x", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "x", "value": ""}, True),
        ({"key": "x", "value": "other"}, False),
        ({}, False),
    ],
)
def test_a_toleration_counts_as_in_kubernetes(toleration: Json, tolerates: bool) -> None:
    found = placing.fits({**SPEC, "tolerations": [toleration]}, EVICTING)
    assert found == (tolerates, tolerates)


def test_each_node_that_fits_gets_one_worker_and_a_cordoned_one_keeps_its_own() -> None:
    assert placing.daemons(SPEC, [NODE, CORDONED], []) == ([NODE], [])
    assert placing.daemons(SPEC, [CORDONED], [POD]) == ([], [])
    assert placing.daemons(SPEC, [EVICTING], [POD]) == ([], [POD])


def test_a_worker_that_is_leaving_holds_its_node_until_it_is_gone() -> None:
    assert placing.daemons(SPEC, [NODE], [replace(POD, terminating=True)]) == ([], [])
    ended = replace(POD, terminating=True, phase="Failed")
    assert placing.daemons(SPEC, [NODE], [ended]) == ([NODE], [])


def test_a_worker_that_ended_is_misnamed_or_the_second_one_goes() -> None:
    second = replace(POD, name="d-y", uid="e", ready_since=2.0)
    for wrong in (replace(POD, phase="Failed"), replace(POD, hostname="old"), second):
        others = [POD] if wrong is second else []
        assert placing.daemons(SPEC, [NODE], [*others, wrong]) == ([], [wrong])


def test_a_worker_is_named_after_its_node_or_its_override() -> None:
    assert placing.hostname(NODE) == "gpu-0"
    raw = {"metadata": {"name": "gpu-1", "annotations": {HOSTNAME_OVERRIDE: "gpu-0"}}}
    assert placing.hostname(KubeNode.from_json(raw)) == "gpu-0"


def test_a_daemon_pod_runs_on_its_node_alone_and_bears_its_name() -> None:
    made = pods.daemon_pod(NodeSet.from_json(daemons()), CONTROLLER, "gpu-0", "gpu-0")
    assert made["metadata"]["generateName"] == "worker-"
    assert "name" not in made["metadata"]
    assert made["metadata"]["labels"]["nodeset.slinky.slurm.net/scaling-mode"] == "DaemonSet"
    found = WorkerPod.from_json({**made, "metadata": {**made["metadata"], "name": "worker-x"}})
    assert (found.target, found.node, found.slurm_name) == ("gpu-0", "", "gpu-0")
    assert "podAntiAffinity" in made["spec"]["affinity"]


def test_in_daemonset_mode_a_pass_makes_a_worker_for_each_node_and_counts_the_nodes() -> None:
    kube = MemoryKube([], [node()])
    assert run(kube, MemorySlurm(), nodeset=daemons())
    assert kube.pods_made() == ["gpu-0"]
    (status,) = [body["status"] for path, body in kube.patches if path.endswith("/status")]
    assert status["desired"] == 1


def test_a_pin_holds_while_the_template_fits_its_node() -> None:
    pinned = NodeSet.from_json(
        {
            **NODESET,
            "spec": {**NODESET["spec"], "pinToNode": True},
            "status": {"ordinalToNode": {"0": NODE.name, "1": "gone"}},
        }
    )
    assert placing.pins(pinned, SPEC, {NODE.name: NODE}, []) == {"0": NODE.name}
    assert placing.pins(pinned, SPEC, {NODE.name: CORDONED}, []) == {}
    assert placing.pins(NodeSet.from_json(NODESET), SPEC, {NODE.name: NODE}, []) is None
    worker = replace(POD, name="worker-3")
    assert placing.pins(pinned, SPEC, {NODE.name: NODE}, [worker]) == {"0": NODE.name, "3": NODE.name}


def test_a_pinned_worker_is_made_again_for_its_node_only() -> None:
    nodeset = {
        **NODESET,
        "spec": {**NODESET["spec"], "pinToNode": True},
        "status": {"ordinalToNode": {"0": "gpu-0"}},
    }
    kube = MemoryKube([], [node()])
    assert run(kube, MemorySlurm(), nodeset=nodeset)
    (made,) = [body for path, body in kube.created if path.endswith("/pods")]
    assert made["spec"]["affinity"]["nodeAffinity"] != {}


def old(name: str, **fields: Any) -> WorkerPod:
    base = WorkerPod("slurm", name, uid=name, node="n", phase="Running", ready_since=1.0, revision="old")
    return replace(base, **fields)


def test_a_rolling_update_takes_a_quarter_at_a_time_and_the_unhealthy_at_once() -> None:
    four = [old(f"worker-{n}") for n in range(4)]
    assert plan.outdated(four, "new", 4, 0) == [four[3]]
    assert plan.outdated(four[:3], "new", 4, 1) == []
    coming = old("worker-3", revision="new", ready_since=None)
    assert plan.outdated([*four[:3], coming], "new", 4, 0) == []
    sick = old("worker-0", ready_since=None)
    assert plan.outdated([sick, *four[1:]], "new", 4, 0) == [sick, four[3]]
    assert plan.outdated(four, "old", 4, 0) == []


def test_a_rolling_update_drains_over_any_reason_and_deletes_once_drained() -> None:
    stale = pod(labels={"controller.kubernetes.io/hash": "old"})
    busy = MemorySlurm(SlurmNode("worker-0", frozenset({"ALLOCATED", "DRAIN"}), "remediator: 7 XID 79"))
    kube = MemoryKube([stale], [node()])
    assert run(kube, busy)
    (drain,) = [update for update in busy.updates if update.state]
    assert drain.reason == "slurm-operator: Pod (slurm/worker-0) is pending termination for scale-in"
    assert kube.deleted == []
    drained = MemoryKube([stale], [node()])
    assert run(drained, MemorySlurm(SlurmNode("worker-0", frozenset({"IDLE", "DRAIN"}), "x")))
    assert drained.deleted == ["/api/v1/namespaces/slurm/pods/worker-0"]
