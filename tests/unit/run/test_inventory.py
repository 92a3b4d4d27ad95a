"""A node is looked up by its exact name, and is in a pool only with all of the pool's labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest

from remediator.incidents.correlate import of_another
from remediator.kube.fence import FENCED
from remediator.kube.nodes import NodeView, Taint
from remediator.kube.pods import SCALING_MODE, WORKER_LABELS, PodView
from remediator.model.machine import Stage
from remediator.model.signal import Signal
from remediator.run.inventory import CachedInventory
from remediator.settings import GuardSettings, Pool

GUARD = GuardSettings()
LABELS = {"pool": "training", "gpu": "h100"}
NODE = NodeView(
    name="gpu-0",
    uid="uid-0",
    resource_version="1",
    provider_id="aws:///i-0",
    boot_id="boot-0",
    labels=LABELS,
    annotations={},
    taints=(),
    unschedulable=False,
    ready=True,
)
WORKER = PodView(
    namespace="slurm",
    name="worker-0",
    uid="p0",
    resource_version="1",
    node="gpu-0",
    labels=WORKER_LABELS,
    annotations={},
    phase="Running",
    owners=(),
    finalizers=(),
    deletion=None,
    hostname="w-0",
    host_network=False,
    gpus=8,
    claims=0,
)


def pool(stage: Stage = "full", **labels: str) -> Pool:
    return Pool(node_selector=labels, stage=stage)


def inventory(
    *, nodes: tuple[NodeView, ...] = (NODE,), pods: tuple[PodView, ...] = (), **pools: Pool
) -> CachedInventory:
    named = {node.name: node for node in nodes}
    known = pools or {"training": Pool(node_selector=LABELS)}
    return CachedInventory(named.get, lambda: nodes, lambda: pods, known)


def machine(here: CachedInventory) -> Any:
    found = here.machine("gpu-0")
    assert found is not None
    return found


@pytest.mark.parametrize(
    "name", ["", "gpu", "GPU-0", "gpu-0 ", "gpu-0,gpu-1", "gpu-[0-1]", "gpu-0.cluster.local"]
)
def test_only_the_exact_name_is_found(name: str) -> None:
    assert inventory().machine(name) is None


def test_a_machine_carries_the_nodes_identity() -> None:
    found = machine(inventory())
    assert (found.name, found.uid, found.provider_id, found.boot_id) == (
        "gpu-0",
        "uid-0",
        "aws:///i-0",
        "boot-0",
    )
    assert found.key == "aws:///i-0"


def test_without_a_provider_id_the_uid_is_the_key() -> None:
    assert machine(inventory(nodes=(replace(NODE, provider_id=""),))).key == "uid-0"


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (LABELS, "training"),
        (LABELS | {"more": "x"}, "training"),
        ({"pool": "training"}, None),
        (LABELS | {"gpu": "a100"}, None),
        ({}, None),
    ],
)
def test_a_pool_wants_all_of_its_labels(labels: dict[str, str], found: str | None) -> None:
    assert machine(inventory(nodes=(replace(NODE, labels=labels),))).pool == found


def test_the_first_pool_that_fits_counts_and_gives_its_stage() -> None:
    found = machine(inventory(a=pool("drain-only", gpu="h100"), b=pool("full", pool="training")))
    assert (found.pool, found.stage) == ("a", "drain-only")


def test_a_node_in_no_pool_only_observes_and_has_no_size() -> None:
    found = machine(inventory(other=pool(pool="serving")))
    assert (found.pool, found.stage, found.pool_size) == (None, "observe", 0)


def test_the_pools_size_counts_its_own_nodes_only() -> None:
    others = [replace(NODE, name=f"gpu-{n}", uid=f"u{n}") for n in (1, 2)]
    foreign = replace(NODE, name="cpu-0", uid="c", labels={})
    assert machine(inventory(nodes=(NODE, *others, foreign))).pool_size == 3


@pytest.mark.parametrize(
    ("pod", "names"),
    [
        (WORKER, ("w-0",)),
        (replace(WORKER, hostname=""), ("worker-0",)),
        (replace(WORKER, host_network=True), ("gpu-0",)),
        (replace(WORKER, labels=WORKER_LABELS | {SCALING_MODE: "DaemonSet"}), ("w-0",)),
        (replace(WORKER, labels=WORKER_LABELS | {SCALING_MODE: "DaemonSet"}, hostname=""), ()),
        (replace(WORKER, labels={}), ()),
        (replace(WORKER, node="gpu-1"), ()),
        (replace(WORKER, phase="Failed"), ()),
        (replace(WORKER, phase="Succeeded"), ()),
        (replace(WORKER, phase="Pending"), ("w-0",)),
        (replace(WORKER, deletion=1_800_000_000.0), ("w-0",)),
    ],
)
def test_the_slurm_workers_of_a_node(pod: PodView, names: tuple[str, ...]) -> None:
    assert machine(inventory(pods=(pod,))).slurm_nodes == names


def test_several_workers_are_all_named_in_order() -> None:
    pods = (replace(WORKER, hostname="w-b"), replace(WORKER, hostname="w-a", uid="p1"))
    assert machine(inventory(pods=pods)).slurm_nodes == ("w-a", "w-b")


def test_our_taint_says_which_incident_fences_the_node() -> None:
    taints = (Taint("other", "x", "NoSchedule", {}), Taint(FENCED, "i7", "NoSchedule", {}))
    assert machine(inventory(nodes=(replace(NODE, taints=taints),))).fenced_by == "i7"
    assert machine(inventory(nodes=(replace(NODE, taints=taints[:1]),))).fenced_by is None


def test_a_change_of_the_caches_is_seen_at_once() -> None:
    """Sums over all nodes and pods are kept: never longer than the collection they were made of."""
    nodes: list[tuple[NodeView, ...]] = [(NODE,)]
    pods: list[tuple[PodView, ...]] = [()]
    here = CachedInventory(
        lambda _name: NODE,
        lambda: nodes[-1],
        lambda: pods[-1],
        {"training": Pool(node_selector=LABELS)},
    )
    assert (machine(here).pool_size, machine(here).slurm_nodes) == (1, ())
    nodes.append((NODE, replace(NODE, name="gpu-1", uid="u1")))
    assert machine(here).pool_size == 2
    pods.append((WORKER,))
    assert machine(here).slurm_nodes == ("w-0",)
    pods.append(())
    assert machine(here).slurm_nodes == ()


def test_a_collection_that_did_not_change_is_summed_up_once() -> None:
    class Counted(tuple[NodeView, ...]):
        read = 0

        def __iter__(self) -> Iterator[NodeView]:
            self.read += 1
            return super().__iter__()

    nodes = Counted((NODE,))
    known = {"training": Pool(node_selector=LABELS)}
    here = CachedInventory(lambda _name: NODE, lambda: nodes, lambda: (), known)
    machine(here)
    once = nodes.read
    for _ in range(3):
        machine(here)
    assert nodes.read == once


def test_the_territory_is_the_pools_and_the_spares() -> None:
    spare = replace(NODE, name="spare-0", labels={"remediator.dev/spare": "true"})
    other = replace(NODE, name="other", labels={"pool": "training"})
    here = inventory(nodes=(NODE, spare, other))
    assert [here.holds(name) for name in ("gpu-0", "spare-0", "other", "nobody")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_slurm_node_is_where_its_pod_is() -> None:
    here = inventory(pods=(WORKER, replace(WORKER, name="worker-1", hostname="w-1", node="")))
    assert [here.node_of(name) for name in ("w-0", "w-1", "w-2")] == ["gpu-0", None, None]


def test_a_machine_knows_what_it_shares_and_with_how_many() -> None:
    """From the nearest to the widest; a label that is missing is nothing to share."""
    labels = {**LABELS, GUARD.leaf_label: "leaf-2", GUARD.driver_label: "580.65"}
    one = replace(NODE, labels=labels, image="Linux 6.8")
    other = replace(one, name="gpu-1", uid="u1", labels={**LABELS, GUARD.leaf_label: "leaf-3"})
    outside = replace(one, name="x", uid="x", labels={GUARD.leaf_label: "leaf-2"})
    here = inventory(nodes=(one, other, outside))
    assert machine(here).shares == (
        ("leaf", "leaf-2"), ("driver", "580.65"), ("image", "Linux 6.8"), ("pool", "training"),
    )  # fmt: skip
    assert [here.share_size(*share) for share in machine(here).shares] == [1, 1, 2, 2]


def test_a_worker_that_is_on_two_nodes_is_on_none_that_anybody_knows() -> None:
    """Two NodeSets of one name, say: no write to Slurm may take the wrong one."""
    twin = replace(WORKER, namespace="other", uid="p1", node="gpu-1")
    assert inventory(pods=(WORKER,)).node_of("w-0") == "gpu-0"
    for pods in ((WORKER, twin), (twin, WORKER)):
        assert inventory(pods=pods).node_of("w-0") is None
    for gone in (replace(twin, deletion=1.0), replace(twin, phase="Failed")):
        assert inventory(pods=(gone, WORKER)).node_of("w-0") == "gpu-0"


@pytest.mark.parametrize("back", [0.0, 600.0])
@pytest.mark.parametrize(
    ("source", "since"), [("webhook", "alerts_from"), ("backfill", "alerts_from"), ("agent", "created")]
)
def test_an_alert_speaks_of_this_machine_once_its_rule_cannot_look_back_behind_it(
    source: Literal["agent", "webhook", "backfill"], since: str, back: float
) -> None:
    node = replace(NODE, created=1000.0)
    found = machine(CachedInventory({"gpu-0": node}.get, lambda: (node,), lambda: (), {}, looks_back_s=back))
    first = {"created": 1000.0, "alerts_from": 1000.0 + back}[since]

    def told(at: float, boot: str = "") -> Signal:
        return Signal(
            dedupe="d", source=source, kind="xid", node="gpu-0", boot_id=boot, seen_at=at, received_at=at
        )

    assert of_another(told(first - 1), found)
    assert not of_another(told(first), found)
    assert not of_another(told(first - 1, "boot"), found)
