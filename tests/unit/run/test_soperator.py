"""A cluster that Soperator runs is understood, recorded, and never written.

The data is what Soperator's sources say it writes; no running Soperator was asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remediator.clock import ManualClock
from remediator.errors import Blocked, Retry
from remediator.guard import open_guard
from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import PodView, parse_pod, slurm_node
from remediator.kube.soperator import CONDITIONS, is_marked
from remediator.model.machine import TIERS, Machine
from remediator.model.signal import Signal
from remediator.run.inventory import CachedInventory
from remediator.run.soperator import Soperator
from remediator.settings import Pool
from remediator.store import signals
from slurm_bridge.model import SlurmNode
from slurm_bridge.rest import decode
from tests.fakes.river import River
from tests.fakes.slurm import FakeSlurm
from tests.unit.run.deciding import Deciding

DATA = Path(__file__).parents[2] / "data/soperator"
HOST = "computeinstance-e00"
POOLS = {"gpu": Pool(node_selector={"pool": "gpu"}, stage="full")}


def items(name: str, key: str = "items") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / f"{name}.json").read_text())[key]
    return found


NODES = tuple(view for raw in items("nodes") if (view := parse_node(raw)) is not None)
PODS = tuple(pod for raw in items("pods") if (pod := parse_pod(raw)) is not None)
SLURM = tuple(map(decode.node, items("slurm_nodes", "nodes")))
UNMARKED = tuple(replace(node, reports=()) for node in NODES)


def inventory(
    nodes: Sequence[NodeView] = NODES, pods: Sequence[PodView] = PODS, pools: dict[str, Pool] = POOLS
) -> CachedInventory:
    named = {node.name: node for node in nodes}
    return CachedInventory(named.get, lambda: nodes, lambda: pods, pools)


def machine(here: CachedInventory, letter: str) -> Machine:
    found = here.machine(HOST + letter)
    assert found is not None
    return found


def test_a_worker_is_the_slurm_node_of_its_pods_name_and_other_pods_are_none() -> None:
    assert [slurm_node(pod) for pod in PODS] == ["worker-0", "worker-1", None]
    assert machine(inventory(), "a").slurm_nodes == ("worker-0",)
    assert inventory().node_of("worker-1") == f"{HOST}b"


def test_instance_id_names_the_same_node_as_the_pod() -> None:
    on = {node.name: node.instance_id for node in SLURM}
    assert {slurm_node(pod): pod.node for pod in PODS[:2]}.items() <= on.items()


def test_a_node_without_power_is_no_silent_one() -> None:
    shown = {node.name: (node.state, node.is_drain, node.is_powering, node.is_silent) for node in SLURM}
    assert shown == {
        "worker-0": ("IDLE", True, False, False),
        "worker-1": ("MIXED", False, False, False),
        "worker-2": ("IDLE", False, True, False),
        "worker-3": ("ALLOCATED", True, True, False),
    }


def test_the_conditions_of_a_node_are_read_with_their_status_and_time() -> None:
    found = {report.kind: report for report in NODES[0].reports}
    assert [report.is_true for report in found.values()] == [True, True, True]
    drain = found["SlurmNodeDrain"]
    assert (drain.reason, drain.message, drain.since) == ("NodeNeedDrain", "Node is draining", 1795939200.0)
    assert [report.is_true for report in NODES[1].reports] == [False, False]
    assert NODES[2].reports == ()


@pytest.mark.parametrize("kind", CONDITIONS)
def test_only_what_nobody_else_writes_tells_that_soperator_runs_a_node(kind: str) -> None:
    """The cloud's own conditions are on clusters of other operators too."""
    raw = {"type": kind, "status": "False", "lastTransitionTime": "yesterday"}
    node = parse_node({**items("nodes")[2], "status": {"conditions": [raw]}})
    assert node is not None
    assert is_marked(node.reports) == kind.startswith(("Slurm", "Soperator"))
    assert node.reports[0].since is None


SEEN = {"by its workers": (UNMARKED, PODS), "by its conditions": (NODES, ()), "by both": (NODES, PODS)}


@pytest.mark.parametrize(("nodes", "pods"), SEEN.values(), ids=SEEN)
def test_every_node_of_its_pool_is_only_observed(
    nodes: tuple[NodeView, ...], pods: tuple[PodView, ...]
) -> None:
    """Also one that has no worker at present, such as an ephemeral node."""
    here = inventory(nodes, pods)
    for letter in "abc":
        found = machine(here, letter)
        assert {found.stage_for(tier) for tier in TIERS} == {"observe"}
        assert not here.holds(found.name)


def test_a_pool_of_another_operator_beside_it_keeps_its_stage() -> None:
    pools = {**POOLS, "other": Pool(node_selector={"pool": "system"}, stage="full")}
    here = inventory(pools=pools)
    assert machine(here, "s").stage_for("T0") == "full"
    assert here.holds(f"{HOST}s")


def test_a_worker_that_has_ended_marks_nothing() -> None:
    ended = [replace(pod, phase="Succeeded") for pod in PODS]
    assert machine(inventory(UNMARKED, ended), "a").stage_for("T0") == "full"


@pytest.mark.parametrize("worker", ["worker-0", "worker-1"])
def test_the_last_door_refuses_a_write(worker: str) -> None:
    """Whatever decided so: the pool may have become Soperator's in the middle of an incident."""
    guard = open_guard(ManualClock(), inventory())
    with pytest.raises(Blocked, match="Soperator's: never written"):
        guard.write(f"drain {worker}", workers=[worker])
    with pytest.raises(Blocked, match="Soperator's: never written"):
        guard.write("fence", node=f"{HOST}c")


def test_a_fault_is_held_with_a_sentence_and_what_soperator_says(tmp_path: Path) -> None:
    here = Deciding(tmp_path)
    reports = machine(inventory(), "a").reports
    here.add("gpu-0", of_soperator=True, reports=reports)
    here.signal("gpu-0")
    here.turn()
    (incident,) = here.incidents()
    assert incident.state == "held"
    assert incident.sentence == (
        "XID 79 GPU fell off the bus: pool training is only observed, Soperator treats its nodes itself"
    )
    assert here.actions() == ["decision"]
    assert len(reports) == 3


def test_nothing_is_written_anywhere_for_a_fault_on_a_node_of_its_pool(tmp_path: Path) -> None:
    river = River(tmp_path)
    job = river.submit_job()
    river.kube.add_pod("soperator", "worker-0", "gpu-3", labels={"slurm.nebius.ai/worker": "true"})
    before = {name: river.kube.view(name) for name in river.names}
    river.xid("gpu-0")
    river.run(60.0)
    assert [incident.state for incident in river.all_incidents()] == ["held"]
    assert river.slurm.writes == []
    assert {name: river.kube.view(name) for name in river.names} == before
    assert river.job(job).state == "RUNNING"


class Recorder:
    """The recording loop over the data, and what it hands in."""

    def __init__(self, nodes: Sequence[NodeView] = NODES, pods: Sequence[PodView] = PODS) -> None:
        self.slurm = FakeSlurm(ManualClock(1795939400.0), nodes=())
        self.slurm._nodes = {node.name: node for node in SLURM}
        self.found: list[Signal] = []
        self.loop = Soperator(
            self.slurm, inventory(nodes, pods), lambda: nodes, self.found.extend, self.slurm.clock, 30.0
        )

    def look(self) -> list[Signal]:
        """What one more look brings."""
        self.found.clear()
        self.loop.look()
        return list(self.found)


def test_conditions_that_are_true_and_drains_with_its_words_are_recorded_once() -> None:
    here = Recorder()
    found = here.look()
    assert [(one.kind, one.node, one.detail.get("type", one.detail.get("worker"))) for one in found] == [
        ("soperator-condition", f"{HOST}a", "HardwareIssuesSuspected"),
        ("soperator-condition", f"{HOST}a", "SoperatorChecksNodeMaintenance"),
        ("soperator-condition", f"{HOST}a", "SlurmNodeDrain"),
        ("soperator-drain", f"{HOST}a", "worker-0"),
        ("soperator-drain", "", "worker-3"),
    ]
    assert "unknown node 'computeinstance-gone'" in found[-1].detail["says"]
    assert here.look() == []


def test_what_kubernetes_says_is_recorded_while_slurm_is_silent() -> None:
    here = Recorder()
    here.slurm.is_up = False
    assert len(here.look()) == 3
    here.slurm.is_up = True
    assert [one.kind for one in here.look()] == ["soperator-drain"] * 2


def test_without_soperator_slurm_is_not_asked() -> None:
    here = Recorder(UNMARKED, ())

    def refuse(op: str, _target: str) -> None:
        raise AssertionError(f"{op} was asked")

    here.slurm.before = refuse
    assert here.look() == []


def test_a_look_that_cannot_be_stored_is_handed_in_again() -> None:
    here = Recorder()
    submit, here.loop._submit = here.loop._submit, _refuse
    assert here.look() == []
    here.loop._submit = submit
    assert len(here.look()) == 5


def _refuse(_found: Sequence[Signal]) -> None:
    raise Retry("the store is busy")


def test_a_record_opens_no_incident(tmp_path: Path) -> None:
    here = Deciding(tmp_path)
    with here.store.write() as connection:
        signals.insert_new(connection, Recorder().look())
    here.turn()
    assert here.incidents() == []
    assert all(str(said).endswith("recorded, that is Soperator's to act on") for said, _ in here.verdicts())


def test_slurm_nodes_of_a_cluster_without_instance_ids_have_none() -> None:
    raw = {key: value for key, value in items("slurm_nodes", "nodes")[0].items() if key != "instance_id"}
    assert decode.node(raw) == replace(SLURM[0], instance_id="")
    assert SlurmNode("n", "IDLE").instance_id == ""
