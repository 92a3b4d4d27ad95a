"""What other tools write on a node of a real API server reaches the look through the watch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from remediator.clock import SystemClock
from remediator.kube import paths
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.reflector import Reflector
from remediator.model.signal import Signal
from remediator.observe.metrics import Metrics
from remediator.run.conditions import NodeConditions
from remediator.signals.reporters import load
from tests.servers.kube import KubeServer
from tests.servers.slurm import wait_for


class OnePool:
    """Every node is in a pool."""

    def in_pool(self, _node: NodeView) -> bool:
        return True


@pytest.mark.kube
def test_a_fault_that_a_reporter_writes_and_takes_back_is_one_signal(
    kube_server: KubeServer, name: str
) -> None:
    admin = kube_server.session("admin")
    kube_server.add_node(name)
    watch = Reflector(
        kube_server.session("remediator"), paths.NODES, parse_node, clock=SystemClock(), random=Random(1)
    )
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    told: list[Signal] = []

    def submit(found: Sequence[Signal]) -> None:
        told.extend(one for one in found if one.node == name)

    look = NodeConditions(
        load(), OnePool(), watch.objects, lambda: (), lambda: 0.0, Metrics(), submit, SystemClock()
    )

    def write(status: str, at: str, message: str) -> None:
        found: dict[str, Any] = {
            "type": "SysLogsXIDError", "status": status, "reason": "SysLogsXIDErrorIsNotHealthy",
            "message": message, "lastHeartbeatTime": at, "lastTransitionTime": at,
        }  # fmt: skip
        admin.patch(f"{paths.node(name)}/status", {"status": {"conditions": [found]}}, deadline=5.0)
        wait_for("the watch", lambda: any(one.since for one in _of(watch, name) if one.status == status))
        look.look()

    try:
        watch.synced.wait(30.0)
        look.look()
        write("True", "2026-11-30T00:00:00Z", "ErrorCode:79 PCI:0000:18:00 GPU_UUID:G x;")
        write("False", "2026-11-30T00:01:00Z", "No Health Failures")
        write("True", "2026-11-30T00:02:00Z", "ErrorCode:79 PCI:0000:18:00 GPU_UUID:G x;")
    finally:
        watch.stop()
        thread.join(10.0)
    assert {(one.kind, one.code, one.pci) for one in told} == {("xid", 79, "0000:18:00")}
    assert len({one.dedupe for one in told}) == 1


def _of(watch: Reflector[NodeView], name: str) -> Sequence[Any]:
    view = watch.named(name)
    return view.conditions if view else ()
