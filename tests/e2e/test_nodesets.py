"""NodeSets in every way Slinky has them, each on a fresh lab: DaemonSet mode, pins, rollouts, two a node."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.lab.api import Lab
from deploy.lab.layout import REPO
from deploy.lab.spec import SLURM_NAMESPACE
from tests.e2e.conftest import KILL_WAIT
from tests.e2e.full import KEYS, nodes, spares, taints
from tests.e2e.helpers import Json, Servers, Site, Training, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]
CUSTOM = f"/apis/slinky.slurm.net/v1beta1/namespaces/{SLURM_NAMESPACE}"


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A fresh lab: what these tests do to Slurm's records and to the NodeSet is not undone."""
    found = Lab(f"nodesets-{os.getpid()}")
    found.up(kill_wait=KILL_WAIT, gpu_alerts=False)
    try:
        yield found
    finally:
        found.down()


@pytest.fixture
def site(lab: Lab) -> Site:
    found = Site(lab)
    found.controller.wait()
    in_service(found, 4)
    return found


def change(site: Site, **spec: Any) -> None:
    """Somebody edits the NodeSet."""
    body = json.dumps({"spec": spec})
    site.lab.kubectl("-n", SLURM_NAMESPACE, "patch", "nodeset", "worker", "--type=merge", "-p", body)


def workers(site: Site) -> dict[str, str]:
    """The node of each Slurm node that has a pod on one."""
    query = "labelSelector=app.kubernetes.io%2Fcomponent%3Dworker"
    pods = site.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods?{query}")["items"]
    living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return {pod["spec"]["hostname"]: pod["spec"].get("nodeName", "") for pod in living}


def state(site: Site, name: str) -> set[str]:
    shown = json.loads(site.lab.slurm("scontrol", "show", "node", name, "--json", check=False) or "{}")
    return {word for node in shown.get("nodes", []) for word in node["state"]}


def in_service(site: Site, count: int) -> None:
    """Wait until so many Slurm nodes have a worker and take jobs."""

    def ready() -> bool:
        there = [name for name, node in workers(site).items() if node]
        usable = [name for name in there if state(site, name) - {"DYNAMIC_NORM"} == {"IDLE"}]
        return len(usable) == len(there) == count

    wait_for(f"{count} workers in service", ready, 180, every=1.0)


def fault(site: Site, *options: str) -> tuple[Training, str, str]:
    """A training job, and an XID 79 under its first worker: the job, the Slurm node, the Kubernetes node."""
    victim = site.train(*options)
    site.trains(victim)
    sick = victim.workers()[0]
    node = workers(site)[sick]
    site.lab.inject.xid(node, 79)
    return victim, sick, node


def says(site: Site, node: str, text: str) -> None:
    """Wait until a step of the node's incident says it."""

    def said() -> bool:
        found = site.controller.incidents(node)
        steps = site.controller.story(found[0]["id"])["steps"] if found else []
        return any(text in str(step["sentence"]) for step in steps)

    with site.explained():
        wait_for(f"{text!r}", said, 150, every=1.0)


def test_in_daemonset_mode_the_spares_own_worker_takes_the_place(site: Site) -> None:
    change(site, scalingMode="DaemonSet")
    wait_for("workers named after nodes", lambda: set(workers(site)) <= set(nodes(site)), 180, every=1.0)
    in_service(site, 4)
    (spare,) = spares(site)
    victim, sick, node = fault(site, "-N4")
    assert sick == node
    site.moves(victim)
    site.closes(node, 150)
    assert workers(site)[spare] == spare
    assert spare in victim.workers()
    assert sick not in workers(site)
    assert state(site, sick) >= {"DOWN", "DRAIN"}
    says(site, node, f"{spare} takes jobs again on {spare} in place of {sick}")
    assert "No reservations" in site.lab.slurm("scontrol", "show", "reservation")


def test_both_workers_of_a_machine_are_drained_and_come_back(site: Site) -> None:
    change(site, replicas=0)
    wait_for("no worker", lambda: not workers(site), 180, every=1.0)
    slurmd = {"resources": {"limits": {"nvidia.com/gpu": 4}}}
    change(site, replicas=8, oversubscribeNode=True, slurmd=slurmd)
    resume(site, *(f"worker-{number}" for number in range(8)))
    in_service(site, 8)
    servers = Servers(site.lab)
    (spare,) = spares(site)
    victim, _, node = fault(site, "-N1")
    both = sorted(name for name, at in workers(site).items() if at == node)
    assert len(both) == 2
    site.moves(victim)
    site.closes(node, 150)
    assert [servers.drains(name) for name in both] == [1, 1]
    assert servers.requeues(victim.address) == 1
    assert {workers(site)[name] for name in both} == {spare}


def test_a_pin_is_dropped_by_the_cordon_and_the_worker_goes_to_the_spare(site: Site) -> None:
    change(site, pinToNode=True)
    path = f"{CUSTOM}/nodesets/worker"
    wait_for("the pins", lambda: len(site.lab.api.get(path)["status"].get("ordinalToNode", {})) == 4, 150)
    (spare,) = spares(site)
    victim, sick, node = fault(site, "-N1")
    site.moves(victim)
    site.closes(node, 150)
    assert workers(site)[sick] == spare


def test_a_rollout_lets_the_job_go_and_keeps_the_node_until_it_is_over(site: Site) -> None:
    kept = site.allocate("-N1", "--nodelist=worker-0")
    change(site, template={"metadata": {"annotations": {"site": "new"}}})
    wait_for("the rollout to wait for the busy worker", lambda: rolled(site) == 3, 240, every=1.0)
    resume(site, "worker-1", "worker-2", "worker-3")
    victim, sick, node = fault(site, "-N1")
    site.moves(victim)
    says(site, node, "NodeSet slurm/worker is being rolled out")
    assert not nodes(site)[node]["spec"].get("unschedulable")
    assert workers(site)[sick] == node
    site.lab.slurm("scancel", kept.address)
    site.closes(node, 240)
    wait_for("the end of the rollout", lambda: rolled(site) == 4, 180, every=1.0)


def resume(site: Site, *names: str) -> None:
    """A person resumes what a restart on its own node left DOWN, as slurm-operator 1.2 does not."""

    def back() -> bool:
        for name in names:
            if "DOWN" in state(site, name):
                site.lab.slurm("scontrol", "update", f"nodename={name}", "state=resume", check=False)
        return all(state(site, name) - {"DYNAMIC_NORM"} == {"IDLE"} for name in names)

    wait_for(f"{', '.join(names)} in service", back, 180, every=2.0)


def rolled(site: Site) -> int:
    """How many Ready workers are of the newest revision."""
    pods = site.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods")["items"]
    new = [pod for pod in pods if pod["metadata"].get("annotations", {}).get("site") == "new"]
    return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in conditions(pod)) for pod in new)


def conditions(pod: Json) -> list[Json]:
    return list(pod["status"].get("conditions", []))


def test_an_operator_that_is_restarted_in_the_middle_loses_nothing(site: Site) -> None:
    (spare,) = spares(site)
    victim, sick, node = fault(site, "-N2")
    for _ in range(3):
        site.lab.kubectl("-n", "slinky", "delete", "pod", "--all", "--now", "--wait=false")
        time.sleep(3)
    site.moves(victim)
    site.closes(node, 150)
    assert workers(site)[sick] == spare


def test_while_the_restapi_is_deleted_nothing_is_written_and_then_it_goes_on(site: Site) -> None:
    servers = Servers(site.lab)
    site.lab.kubectl("-n", SLURM_NAMESPACE, "delete", "restapi", "slurm")
    site.lab.inject.kill("slurmrestd")
    try:
        victim, sick, node = fault(site, "-N1")
        wait_for("the incident", lambda: bool(site.controller.incidents(node)), 90, every=0.5)
        time.sleep(15)
        assert servers.writes() == 0
        assert workers(site)[sick] == node
    finally:
        site.lab.inject.start("slurmrestd")
        site.lab.kubectl("apply", "-f", str(REPO / "deploy/lab/slinky/cluster.yaml"), "--server-side")
    site.moves(victim)
    site.closes(node, 150)
    assert KEYS.worker not in taints(nodes(site)[node])
