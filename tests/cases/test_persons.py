"""What people and other tools have said about a node stays said: O08, O09, O27."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.clock import rfc3339
from remediator.kube.spare import SpareKeys
from remediator.workflow.ownership import TERMINATING
from tests.cases.helpers import alert, deliver, settle, writes
from tests.crash.test_river import assert_moved_once
from tests.fakes.river import River

REASONS = ["DIMM swap ticket 4711", "NHC: check_hw_ib: no link", "remediation by hand, see mail"]


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path)


@pytest.mark.parametrize("reason", REASONS)
def test_a_persons_drain_survives_alert_resolved_and_restart(river: River, reason: str) -> None:
    """O08 (1) to (3), O09 (4)."""
    river.slurm.drain("w-gpu-0", reason, deadline=5.0)
    river.slurm.writes.clear()
    before, began = river.slurm.node("w-gpu-0", deadline=5.0), river.clock.now()
    deliver(river, alert(began))
    settle(river, 15.0)
    deliver(river, alert(began, status="resolved", ends=rfc3339(began + 15)))
    settle(river, 15.0)
    river.begin()
    settle(river, 15.0)
    assert river.slurm.node("w-gpu-0", deadline=5.0) == before
    assert river.slurm.writes == []
    assert [write.op for write in river.kube.writes if write.op != "patch"] == []
    (incident,) = river.all_incidents()
    assert incident.state == "held"
    assert any(reason in row.sentence for row in river.steps(incident.id))


def overwrite(river: River, reason: str) -> None:
    """Somebody writes another reason onto the node; its drain stands."""
    seen = river.slurm._nodes["w-gpu-0"]
    river.slurm._nodes["w-gpu-0"] = replace(seen, reason=reason)


@pytest.mark.parametrize(
    "texts",
    [
        ["Kill task failed", "{ours} : Not responding", TERMINATING],
        ["{ours} : Not responding", "Kill task failed"],
        [TERMINATING],
    ],
    ids=["all three", "another order", "the operator"],
)
def test_a_reason_that_slurm_and_the_operator_overwrite_stays_ours(river: River, texts: list[str]) -> None:
    """O09 (1) to (3): the node is taken back at the end, and its first cause can still be read."""
    job = river.submit_job(save=6.0)
    river.xid("gpu-0")
    river.run(1.0)
    (incident,) = river.open_incidents()
    for number, text in enumerate(texts):
        overwrite(river, text.replace("{ours}", incident.drain_reason))
        river.run(1.0)
        river.xid("gpu-0", 64, seq=number + 2)
    river.run()
    assert_moved_once(river, job)
    node = river.slurm.node("w-gpu-0", deadline=5.0)
    assert node is not None
    assert (node.state, node.is_drain, node.reason) == ("IDLE", False, "")
    with river.store.read() as connection:
        said = [record["why"] for record in chain.read(connection)]
    assert any("XID 79" in why for why in said)


@pytest.mark.parametrize("boot", ["boot-vk", ""])
@pytest.mark.parametrize("ready", ["Unknown", "False", "True"])
def test_a_virtual_node_in_no_pool_is_never_written(river: River, ready: str, boot: str) -> None:
    """O27 (1), (3): its provider's and the lifecycle's taints stay, no spare is taken for it. Few of them
    report a boot.
    """
    taints = ("virtual-kubelet.io/provider", "node.kubernetes.io/network-unavailable")
    river.kube.add_node("vk-ext-1", labels={"type": "virtual-kubelet"}, taints=taints)
    status = {"conditions": [{"type": "Ready", "status": ready}], "nodeInfo": {"bootID": boot}}
    river.kube.outside("vk-ext-1", "lost", {"status": status})
    pods = [river.kube.add_pod("serving", f"infer-{number}", "vk-ext-1") for number in range(4)]
    river.names.append("vk-ext-1")
    before = river.kube.view("vk-ext-1")
    deliver(river, alert(river.clock.now(), alertname="NodeNotReady", node="vk-ext-1", xid=""))
    deliver(river, alert(river.clock.now(), node="vk-ext-1", boot_id=boot))
    settle(river, 180.0)
    assert river.kube.view("vk-ext-1") == before
    kept = [river.kube.pod("serving", f"infer-{number}") for number in range(4)]
    assert [pod.uid if pod else None for pod in kept] == pods
    assert writes(river) == 0
    assert river.all_incidents() == []
    assert SpareKeys().spare in {taint.key for taint in river.kube.view("spare-0").taints}
