"""A dry run on the server's own record: every write was asked for, and none arrived."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remediator.actuators.nodes import Nodes
from remediator.actuators.spares import Spares
from remediator.clock import SystemClock
from remediator.errors import Blocked
from remediator.guard import open_guard
from remediator.kube.spare import SpareKeys
from remediator.model.incident import Incident
from remediator.model.spare import Spare
from tests.contract.kube.conftest import World

KEYS = SpareKeys()


def test_in_a_dry_run_the_server_sees_reads_only(world: World, name: str) -> None:
    uid = world.add_node(name, labels={KEYS.spare: KEYS.value})
    world.add_pod(f"{name}-pod", name)
    pod = world.pod(f"{name}-pod")
    assert pod is not None
    incident = Incident(
        id="i1", key="k", node=name, node_uid=uid, boot_id="b", tier="T0", rule="r", cause="XID 79",
        plan="replace", fault_at=0.0, opened_at=0.0,
    )  # fmt: skip
    spare = Spare(node=name, uid=uid, incident="i1")
    guard = open_guard(SystemClock(), dry_run=True)
    nodes, spares = Nodes(world.cluster, guard), Spares(world.spares, guard)
    writes: list[Callable[[], object]] = [
        lambda: nodes.fence(incident, world.view(name)),
        lambda: nodes.unfence(incident),
        lambda: nodes.evict(pod),
        lambda: spares.claim(spare),
        lambda: spares.admit(spare),
        lambda: spares.retire(spare, "bad"),
        lambda: spares.release(spare),
        lambda: spares.detach(incident),
        lambda: spares.attach(incident),
    ]
    before = world.view(name)
    for write in writes:
        with pytest.raises(Blocked, match="dry_run is on"):
            write()
    assert nodes.node(name) is not None
    assert [pod.key for pod in nodes.pods_on(name)] == [pod.key]
    assert (world.writes(name), world.pod_writes(f"{name}-pod")) == (0, 0)
    assert world.view(name) == before
