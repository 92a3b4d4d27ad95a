"""The look at conditions on a real store: told once, never of a virtual node, never twice by a new life."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remediator.kube.nodes import NodeView, parse_node
from remediator.kube.pods import PodView, parse_pod
from remediator.model.signal import Signal
from remediator.observe.metrics import Metrics
from remediator.run.conditions import Began, NodeConditions
from remediator.run.inventory import CachedInventory
from remediator.settings import Pool
from remediator.signals.conditions import WATCH
from remediator.signals.reporters import load
from remediator.store import signals
from tests.unit.run.deciding import Deciding

POOLS = {"training": Pool(node_selector={"pool": "training"}, stage="full")}
OFF_THE_BUS = {"type": "SysLogsGPUFallenOff", "status": "True", "reason": "x", "message": "PCI:0000:18:00 ;"}
COUNT = {"type": "GPUMissing", "status": "True", "reason": "x", "message": "7 of 8"}


class Site:
    """Nodes as the watch shows them, and one core that judges."""

    def __init__(self, folder: Path) -> None:
        self.core = Deciding(folder)
        self.clock = self.core.clock
        self.nodes: dict[str, NodeView] = {}
        self.pods: tuple[PodView, ...] = ()
        self.metrics = Metrics()
        self.writes = 0
        for number in range(4):
            self.write(f"gpu-{number}")
        self.life()

    def life(self) -> None:
        """The controller starts anew."""
        inventory = CachedInventory(
            self.nodes.get, lambda: list(self.nodes.values()), lambda: self.pods, POOLS
        )
        self.look = NodeConditions(
            load(), inventory, lambda: list(self.nodes.values()), lambda: self.pods,
            Began(self.core.store, WATCH), self.metrics, self._submit, self.clock,
        )  # fmt: skip

    def write(self, name: str, *conditions: dict[str, Any], **more: Any) -> None:
        """Somebody writes these conditions now, in place of all others."""
        meta = {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": more.get("labels", {"pool": "training"}),
        }
        status = {"nodeInfo": {"bootID": f"boot-{name}"}, "conditions": list(conditions)}
        view = parse_node({"metadata": meta, "spec": {"taints": more.get("taints", [])}, "status": status})
        assert view is not None
        self.writes += 1
        since = tuple(replace(one, since=self.clock.now()) for one in view.conditions)
        self.nodes[name] = replace(view, conditions=since, resource_version=str(self.writes))

    def _submit(self, found: object) -> None:
        assert isinstance(found, list)
        with self.core.store.write() as connection:
            signals.insert_new(connection, found)

    def turn(self, seconds: float = 5.0) -> None:
        """A look and a turn, then time passes."""
        self.look.look()
        self.core.turn()
        self.clock.advance(seconds)

    def told(self) -> list[Signal]:
        """All that was handed in about nodes."""
        with self.core.store.read() as connection:
            return [one for name in self.nodes for one in signals.of_node(connection, name, 0.0)]

    def counted(self, outcome: str) -> float:
        """The metric of this outcome."""
        return (
            self.metrics.registry.get_sample_value("remediator_node_conditions_total", {"outcome": outcome})
            or 0.0
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = Site(tmp_path)
    found.turn()
    return found


def test_one_condition_with_a_code_is_recorded_and_touches_nothing(site: Site) -> None:
    site.write("gpu-1", OFF_THE_BUS)
    for _ in range(20):
        site.turn()
    assert site.core.incidents() == []
    sentence = site.core.verdicts()[-1][0]
    assert sentence is not None
    assert "seen by their kernel-log only: recorded until a second witness agrees" in sentence


def test_two_that_measure_differently_are_two_witnesses(site: Site) -> None:
    site.write("gpu-1", OFF_THE_BUS, COUNT)
    site.turn()
    site.turn()
    (incident,) = site.core.incidents()
    assert (incident.node, incident.rule, incident.tier) == ("gpu-1", "gpu-off-the-bus", "T0")


def test_what_stood_there_before_the_first_look_of_the_store_never_acts(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write("gpu-1", OFF_THE_BUS, COUNT)
    for _ in range(20):
        site.turn()
    assert site.core.incidents() == []
    assert any("before anybody watched: recorded" in str(verdict) for verdict, _ in site.core.verdicts())
    assert (site.counted("recorded"), site.counted("evidence")) == (2.0, 0.0)


def test_a_new_life_of_the_service_tells_nothing_again(site: Site) -> None:
    site.write("gpu-1", OFF_THE_BUS)
    site.turn(100.0)
    before = site.told()
    site.life()
    for _ in range(5):
        site.turn()
    assert site.told() == before


SKIPPED: dict[str, dict[str, Any]] = {
    "in no pool": {"labels": {"pool": "system"}},
    "a virtual kubelet": {"labels": {"pool": "training", "type": "virtual-kubelet"}},
    "one behind a provider's taint": {
        "taints": [{"key": "virtual-kubelet.io/provider", "effect": "NoSchedule"}]
    },
    "Fargate": {"labels": {"pool": "training", "eks.amazonaws.com/compute-type": "fargate"}},
}


@pytest.mark.parametrize("more", SKIPPED.values(), ids=SKIPPED)
def test_a_node_of_no_pool_and_a_virtual_one_are_not_looked_at(site: Site, more: dict[str, Any]) -> None:
    site.write("gpu-1", OFF_THE_BUS, COUNT, **more)
    site.turn()
    assert site.told() == []


def test_a_type_that_nobody_knows_is_ignored_and_counted_once(site: Site) -> None:
    for minute in range(3):
        site.write(
            "gpu-1", {"type": "OfTheSite", "status": "True"}, {"type": "SlurmNodeDrain", "status": "True"}
        )
        site.turn(60.0 + minute)
    assert site.told() == []
    assert site.counted("unknown-type") == 1.0


def test_what_only_some_software_or_a_plan_is_about_is_recorded(site: Site) -> None:
    site.write(
        "gpu-1", {"type": "KernelDeadlock", "status": "True"}, {"type": "VMEventScheduled", "status": "True"}
    )
    site.turn()
    site.turn()
    assert site.core.incidents() == []
    assert [verdict for verdict, _ in site.core.verdicts() if "gpu-1" in str(verdict)] == [
        "node-problem-detector (GKE too) says of gpu-1: KernelDeadlock True (:): recorded",
        "AKS node-problem-detector says of gpu-1: VMEventScheduled True (:): recorded",
    ]


def test_what_slinky_shows_of_slurm_on_a_worker_is_recorded_with_slurms_reason(site: Site) -> None:
    raw = {
        "metadata": {"name": "w-1", "namespace": "slurm", "uid": "p1", "resourceVersion": "1",
                     "labels": {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}},
        "spec": {"nodeName": "gpu-1"},
        "status": {"conditions": [
            {"type": "SlurmNodeStateIdle", "status": "True"},
            {"type": "SlurmNodeStateDrain", "status": "True", "message": "NHC: check_hw_gpu"},
        ]},
    }  # fmt: skip
    pod = parse_pod(raw)
    assert pod is not None
    site.pods = (pod,)
    site.turn()
    site.turn()
    (told,) = site.told()
    assert told.detail["extra"]["means"] == "slurm-drain"
    assert "NHC: check_hw_gpu" in told.detail["says"]
    assert site.core.incidents() == []
    assert site.counted("unknown-type") == 0.0


def test_a_node_that_has_not_changed_is_not_read_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.turn()
    monkeypatch.setattr("remediator.run.conditions.see", lambda *_: pytest.fail("read again"))
    site.turn()
