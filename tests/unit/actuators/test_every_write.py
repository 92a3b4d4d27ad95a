"""Every write of every actuator passes the guard: none in a dry run, none on a node that is in no pool."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from remediator.actuators.acceptance import Acceptance
from remediator.actuators.nodes import Nodes
from remediator.actuators.scheduler import Scheduler
from remediator.actuators.spares import Spares
from remediator.clock import ManualClock
from remediator.errors import Blocked, Retry
from remediator.guard import Guard, open_guard
from remediator.kube.nodes import parse_node
from remediator.kube.pods import PodView
from remediator.model.incident import Incident
from remediator.model.spare import Spare
from remediator.workflow.context import Ports
from slurm_bridge.model import SlurmJob

READS = {
    Scheduler: {"node", "job", "jobs", "reservations", "reservation", "config"},
    Nodes: {"node", "pods_on", "worker", "rollout"},
    Spares: {"offers", "is_claimed", "is_admitted", "is_detached"},
    Acceptance: {"look"},
}
OF_A_JOB = {"start_now", "hold_job", "unhold_job", "set_job_reservation", "delete_reservation"}
"""Writes that name a job or a reservation of ours and no node."""
NODE, WORKER = "gpu-0", "w-0"


def public(facade: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(facade, inspect.isfunction) if name[0] != "_"]


WRITES = [(facade, name) for facade, reads in READS.items() for name in public(facade) if name not in reads]
LOOKS = [(facade, name) for facade, reads in READS.items() for name in sorted(reads)]


class Driver:
    """Any port: notes the methods that are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def method(*_args: object, **_named: object) -> object:
            self.calls.append(name)
            return object()

        return method


class Land:
    """One node with one worker, inside or outside."""

    def __init__(self, *, inside: bool, known: bool = True) -> None:
        self.inside = inside
        self.known = known

    def holds(self, node: str) -> bool:
        """The Territory's."""
        return self.inside and node == NODE

    def node_of(self, worker: str) -> str | None:
        """The Territory's."""
        return NODE if self.known and worker == WORKER else None


_SEEN = parse_node({"metadata": {"name": NODE, "uid": "u", "resourceVersion": "1"}})
assert _SEEN is not None
SEEN = _SEEN


def arguments(method: Callable[..., Any]) -> dict[str, Any]:
    """A value for each parameter, by its name; a new name has to be added here."""
    pod = PodView(
        namespace="slurm", name=WORKER, uid="p", resource_version="1", node=NODE, labels={}, annotations={},
        phase="Running", owners=(), finalizers=(), deletion=None, hostname=WORKER, host_network=False,
        gpus=8, claims=0,
    )  # fmt: skip
    incident = Incident(
        id="i1", key="k", node=NODE, node_uid="u", boot_id="b", tier="T0", rule="r", cause="XID 79",
        plan="replace", fault_at=0.0, opened_at=0.0,
    )  # fmt: skip
    known: dict[str, Any] = {
        "name": WORKER, "slurm_node": WORKER, "nodes": [WORKER], "users": ["alice"], "minutes": 15,
        "reason": "remediator: x", "job_id": 7, "job": SlurmJob(7, "RUNNING", nodes=(WORKER,)),
        "incident": incident, "pod": pod, "spare": Spare(node=NODE, uid="u", incident="i1"),
        "pool": {}, "like": {}, "cordon": True, "as_spare": False, "node": NODE, "uid": "u", "tag": "i1",
        "sentence": "passed", "seen": SEEN, "held": False, "pods": [pod],
    }  # fmt: skip
    return {name: known[name] for name in inspect.signature(method).parameters if name != "self"}


def call(facade: type, name: str, guard: Guard) -> list[str]:
    """Call one method of a facade; what reached the driver."""
    driver = Driver()
    method = getattr(facade(driver, guard), name)
    method(**arguments(method))
    return driver.calls


def refused(facade: type, name: str, guard: Guard, why: type[Exception], match: str) -> None:
    """The call is refused, and nothing reached the driver."""
    driver = Driver()
    method = getattr(facade(driver, guard), name)
    with pytest.raises(why, match=match):
        method(**arguments(method))
    assert driver.calls == []


def test_every_door_of_the_workflow_is_tested_here() -> None:
    assert set(get_type_hints(Ports).values()) == set(READS)


@pytest.mark.parametrize(("facade", "name"), WRITES)
def test_nothing_is_written_in_a_dry_run(facade: type, name: str) -> None:
    guard = open_guard(ManualClock(), Land(inside=True), dry_run=True)
    refused(facade, name, guard, Blocked, "dry_run is on: would ")


@pytest.mark.parametrize(("facade", "name"), [write for write in WRITES if write[1] not in OF_A_JOB])
def test_a_node_that_is_in_no_pool_and_no_spare_is_never_written(facade: type, name: str) -> None:
    guard = open_guard(ManualClock(), Land(inside=False))
    refused(facade, name, guard, Blocked, "gpu-0 is in no pool and no spare, or Soperator's: never written")


@pytest.mark.parametrize(("facade", "name"), WRITES)
def test_a_node_of_a_pool_is_written_once(facade: type, name: str) -> None:
    """So that the tests above are not true of a guard that lets nothing through."""
    assert call(facade, name, open_guard(ManualClock(), Land(inside=True))) == [name]


@pytest.mark.parametrize("name", ["drain", "resume", "set_down", "requeue", "reserve"])
def test_a_slurm_node_that_is_on_no_node_at_present_is_tried_again(name: str) -> None:
    guard = open_guard(ManualClock(), Land(inside=True, known=False))
    refused(Scheduler, name, guard, Retry, "w-0 is on no node at present")


@pytest.mark.parametrize(("facade", "name"), LOOKS)
def test_looking_is_free_everywhere_and_writes_nothing(facade: type, name: str) -> None:
    guard = open_guard(ManualClock(), Land(inside=False), dry_run=True)
    assert set(call(facade, name, guard)) <= READS[facade]
