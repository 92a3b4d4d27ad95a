"""The loop: what makes it look, how soon, and how long a change in Slurm alone stays hidden."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.lab.slinky.kube import CUSTOM, Doorbell
from deploy.lab.slinky.main import Operator, parse
from deploy.lab.slinky.model import POD_PROTECT, SlurmNode
from deploy.lab.slinky.slurm import SlurmRest
from tests.unit.slinky.memory import CONTROLLER, NOW, MemoryKube, MemorySlurm, node, pod

PROTECT = {"metadata": {"labels": {POD_PROTECT: "true"}}}
RESTAPI = {
    "metadata": {"name": "slurm", "creationTimestamp": "1"},
    "spec": {"controllerRef": {"name": "slurm"}},
}


@dataclass
class World:
    """An operator with its two servers, all in memory."""

    kube: MemoryKube
    slurm: MemorySlurm
    operator: Operator

    def set_state(self, *state: str) -> None:
        self.slurm.records["worker-0"] = SlurmNode("worker-0", frozenset(state))

    def passes(self) -> int:
        return self.slurm.reads


class Serving(Operator):
    """An operator whose client is the memory's."""

    slurm: MemorySlurm

    def _client(self, namespace: str, controller: object) -> SlurmRest | None:
        self._clients = {"memory": self.slurm}
        return self.slurm


def world(*arguments: str) -> World:
    kube, slurm = MemoryKube([pod()], [node()]), MemorySlurm(SlurmNode("worker-0", frozenset({"IDLE"})))
    operator = Serving(kube, Doorbell(kube), parse(["--seed", "1", *arguments]))
    operator.slurm = slurm
    return World(kube, slurm, operator)


def test_first_turn_makes_a_pass() -> None:
    w = world()
    w.operator.turn(NOW)
    assert w.kube.patches


def test_start_of_a_job_shows_after_its_lag_only() -> None:
    w = world("--protect-on", "5:5")
    w.operator.turn(NOW)
    w.set_state("MIXED")
    for second in range(1, 6):
        w.operator.turn(NOW + second)
    assert PROTECT not in [body for _, body in w.kube.patches]
    for second in range(6, 10):
        w.operator.turn(NOW + second)
    assert PROTECT in [body for _, body in w.kube.patches]


def test_resync_does_not_cut_the_lag_short() -> None:
    w = world("--protect-on", "5:5", "--resync", "2")
    w.operator.turn(NOW)
    w.set_state("MIXED")
    for second in range(1, 6):
        w.operator.turn(NOW + second)
    assert PROTECT not in [body for _, body in w.kube.patches]


def test_change_in_kubernetes_shows_what_slurm_says_by_then() -> None:
    w = world("--protect-on", "500:500", "--react", "1")
    w.operator.turn(NOW)
    w.set_state("MIXED")
    w.operator.rush(NOW + 2)
    w.operator.turn(NOW + 2)
    assert PROTECT in [body for _, body in w.kube.patches]


def test_failed_passes_come_again_ever_more_seldom() -> None:
    w = world("--retry", "8", "--slurm-poll", "1000")
    w.slurm.away = True
    tried = []
    for tenth in range(400):
        before = w.passes()
        w.operator.turn(NOW + tenth / 10)
        if w.passes() > before:
            tried.append(tenth / 10)
    assert tried == [0, 1, 3, 7, 15, 23, 31, 39]


def test_pass_that_works_ends_the_patience() -> None:
    w = world("--slurm-poll", "1000")
    w.slurm.away = True
    for second in range(20):
        w.operator.turn(NOW + second)
    w.slurm.away = False
    for second in range(20, 40):
        w.operator.turn(NOW + second)
    assert "SyncFailed" in w.kube.events()
    w.slurm.away = True
    before = w.passes()
    w.operator.rush(NOW + 41)
    for second in range(41, 44):
        w.operator.turn(NOW + second)
    assert w.passes() - before == 2


def test_oldest_restapi_of_the_controller_is_asked() -> None:
    kube = MemoryKube([], [])
    younger = {"metadata": {"name": "b", "creationTimestamp": "2"}, "spec": RESTAPI["spec"]}
    kube.lists = {**kube.lists, f"{CUSTOM}/namespaces/slurm/restapis": [younger, RESTAPI]}
    operator = Operator(kube, Doorbell(kube), parse([]))
    assert operator._client("slurm", CONTROLLER) is not None
    assert list(operator._clients) == ["http://slurm-restapi.slurm:6820"]


def test_without_a_restapi_there_is_no_client() -> None:
    kube = MemoryKube([], [])
    kube.lists = {**kube.lists, f"{CUSTOM}/namespaces/slurm/restapis": []}
    assert Operator(kube, Doorbell(kube), parse([]))._client("slurm", CONTROLLER) is None


def test_slurm_away_is_told_in_an_event_also_when_a_look_finds_out_first() -> None:
    w = world("--slurm-poll", "1")
    w.operator.turn(NOW)
    w.slurm.away = True
    w.operator.turn(NOW + 2)
    assert w.kube.events() == []
    w.operator.rush(NOW + 3)
    w.operator.turn(NOW + 3)
    assert w.kube.events() == ["SyncFailed"]
