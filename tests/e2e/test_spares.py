"""Spares that are missing, fail, or are wanted by two incidents at once, on real nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import SLURM_NAMESPACE
from deploy.lab.sysfs import IDLE_CELSIUS
from remediator.kube.acceptance import PROOF
from remediator.kube.spare import CLAIM, RETIRED
from tests.e2e.full import KEYS, nodes, spares, taints
from tests.e2e.helpers import Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]
POLICY = "REMEDIATOR_SPARES__WHEN_NONE"


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found
        restore(found)


def patch(site: Site, node: str, taint: str, label: str | None) -> None:
    """What a person does to make a spare of a node, or a worker of a spare."""
    taint_row = {"key": taint, "value": KEYS.value, "effect": "NoSchedule"}
    body = {
        "metadata": {"labels": {KEYS.spare: label}},
        "spec": {"taints": [taint_row], "unschedulable": None},
    }
    site.lab.kubectl("patch", "node", node, "--type=merge", "-p", json.dumps(body))


def make_spare(site: Site, node: str) -> None:
    """An idle worker's node becomes a second spare; its worker waits for a node."""
    (worker,) = (name for name in workers(site) if site.node_of(name) == node)
    patch(site, node, KEYS.spare, KEYS.value)
    site.lab.kubectl("-n", SLURM_NAMESPACE, "delete", "pod", worker)


def workers(site: Site) -> list[str]:
    """Workers on a node; one that has ended and is about to be deleted is none any more."""
    pods = site.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/pods")["items"]
    living = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    names = [pod["metadata"]["name"] for pod in living if pod["spec"].get("nodeName")]
    return [name for name in names if name.startswith("worker-")]


def restore(site: Site) -> None:
    """Four worker nodes and one spare, all cool, and the settings of before."""
    for name, node in nodes(site).items():
        if KEYS.spare in taints(node) and node["spec"].get("unschedulable"):
            site.lab.kubectl("uncordon", name)
    site.refill()
    for name in spares(site):
        site.lab.inject.heat(name, 3, IDLE_CELSIUS)
    for name in spares(site)[1:]:
        patch(site, name, KEYS.worker, None)
    site.controller.change("set", "env", "deployment/remediator", f"{POLICY}-")


def policy(site: Site, name: str) -> None:
    site.controller.change("set", "env", "deployment/remediator", f"{POLICY}={name}")


def fault(site: Site) -> tuple[Training, str]:
    """A training job on one node, and an XID 79 there; the job, and the node."""
    victim = site.train("-N1")
    site.trains(victim)
    node = site.node_of(victim.workers()[0])
    site.lab.inject.xid(node, 79)
    return victim, node


def said(site: Site, node: str, step: str) -> str:
    """What the step of the node's newest incident says."""
    found = site.controller.incidents(node)
    rows: list[Any] = site.controller.story(found[0]["id"])["steps"] if found else []
    return next((str(row["sentence"]) for row in rows if row["name"] == step), "")


def says(site: Site, node: str, step: str, text: str) -> None:
    """Wait until the step says it."""
    wait_for(f"{step} to say {text!r}", lambda: text in said(site, node, step), 150, every=1.0)


def state(site: Site, node: str) -> str:
    return str(site.controller.incidents(node)[0]["state"])


@pytest.mark.parametrize(("choice", "expected"), [("wait", "open"), ("page", "held")])
def test_without_a_spare_the_job_moves_and_the_node_waits_for_one(
    site: Site, choice: str, expected: str
) -> None:
    policy(site, choice)
    (spare,) = spares(site)
    site.lab.kubectl("cordon", spare)
    victim, node = fault(site)
    site.moves(victim)
    says(site, node, "claim-spare", f"{spare} is cordoned")
    assert state(site, node) == expected
    assert any(site.node_of(worker) == node for worker in workers(site))  # it is not emptied for nothing
    site.lab.kubectl("uncordon", spare)
    assert site.closes(node, 120)["plan"] == "replace"
    assert KEYS.worker in taints(nodes(site)[spare])


def test_a_pool_that_goes_on_without_a_spare_loses_the_node(site: Site) -> None:
    policy(site, "go-on")
    (spare,) = spares(site)
    site.lab.kubectl("cordon", spare)
    victim, node = fault(site)
    site.moves(victim)
    site.closes(node, 120)
    found = nodes(site)
    assert RETIRED in taints(found[node])
    assert KEYS.spare in taints(found[spare])
    assert CLAIM not in found[spare]["metadata"].get("annotations", {})
    assert len(workers(site)) == 3


def test_a_spare_that_fails_its_test_is_retired_and_the_next_comes_in(site: Site) -> None:
    (first,) = spares(site)
    second = sorted(site.node_of(worker) for worker in workers(site))[-1]
    make_spare(site, second)
    bad, good = sorted([first, second])
    site.lab.inject.heat(bad, 3, 95.0)
    site.lab.inject.nvml(bad, 3, "margin", 20)  # a minute without any would be a fault of its own
    victim, node = fault(site)
    site.moves(victim)
    site.closes(node, 120)
    found = nodes(site)
    assert found[bad]["metadata"]["annotations"][RETIRED].endswith("8 GPUs, 1 of them too hot")
    assert {KEYS.spare, RETIRED} <= taints(found[bad])
    assert taints(found[good]) == {KEYS.worker}
    assert PROOF not in found[good]["metadata"]["annotations"]
    assert "8 GPUs, 0 of them too hot" in said(site, node, "validate-spare")
    left = site.lab.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/name=remediator-test", "-o", "name")
    assert left.strip() == ""
    assert f"{bad} is retired" in site.controller.log()
    assert site.controller.audit()["ok"]


def test_two_incidents_want_the_last_spare_and_one_waits_for_the_next(site: Site) -> None:
    policy(site, "wait")
    servers = Servers(site.lab)
    (spare,) = spares(site)
    victims = [site.train("-N1") for _ in range(2)]
    site.trains(*victims)
    places = [site.node_of(victim.workers()[0]) for victim in victims]
    for node in places:
        site.lab.inject.xid(node, 79)
    for victim in victims:
        site.moves(victim)

    def served() -> list[str]:
        return [node for node in places if state(site, node) == "closed"]

    wait_for("one of them to be replaced", served, 180, every=1.0)
    (winner,) = served()
    (loser,) = set(places) - {winner}
    ours = site.controller.incidents(winner)[0]["id"]
    assert state(site, loser) == "open"
    says(site, loser, "claim-spare", "waits for a spare")
    assert KEYS.worker in taints(nodes(site)[spare])
    assert [servers.requeues(victim.address) for victim in victims] == [1, 1]
    site.refill()  # the winner's node is mended and comes back as a spare
    assert site.closes(loser, 120)["id"] != ours
    assert KEYS.worker in taints(nodes(site)[winner])
    assert site.controller.audit()["ok"]


def test_two_incidents_on_one_job_requeue_it_once(site: Site) -> None:
    policy(site, "go-on")
    servers = Servers(site.lab)
    victim = site.train()
    site.trains(victim)
    sick = victim.workers()
    places = [site.node_of(worker) for worker in sick]
    for node in places:
        site.lab.inject.xid(node, 79)
    site.moves(victim)
    for node in places:
        site.closes(node, 120)
    assert servers.requeues(victim.address) == 1
    assert [servers.drains(worker) for worker in sick] == [1, 1]
    assert victim.terms() == {"0": 1, "1": 1}
    assert "No reservations" in site.lab.slurm("scontrol", "show", "reservation")


def test_a_controller_killed_while_a_spare_is_tested_starts_no_second_test(site: Site) -> None:
    servers = Servers(site.lab)
    (spare,) = spares(site)
    site.controller.arm("validate-spare:accepted")
    victim, node = fault(site)
    site.moves(victim)
    site.closes(node, 150)
    site.controller.arm(None)
    events = [json.loads(line) for line in servers.audit_text().splitlines() if line.endswith("}")]
    made = [e for e in events if e["verb"] == "create" and e.get("responseStatus", {}).get("code") == 201]
    pods = [e["objectRef"].get("name", "") for e in made if e["objectRef"].get("resource") == "pods"]
    assert len([name for name in pods if name.startswith("remediator-test")]) == 1
    assert taints(nodes(site)[spare]) == {KEYS.worker}
    assert site.controller.audit()["ok"]


def test_a_silent_kubelet_holds_the_incident_and_nothing_is_forced(site: Site) -> None:
    victim = site.train("-N1")
    site.trains(victim)
    worker = victim.workers()[0]
    node = site.node_of(worker)
    site.lab.inject.kubelet_hung(node, on=True)
    try:
        site.lab.inject.xid(node, 79)
        site.moves(victim)
        wait_for("the hold", lambda: "kubelet" in said(site, node, "evict-pods"), 200, every=2.0)
        assert f"the kubelet of {node} is silent" in said(site, node, "evict-pods")
        assert state(site, node) == "held"
        assert site.node_of(worker) == node
    finally:
        site.lab.inject.kubelet_hung(node, on=False)
    assert site.closes(node, 120)["plan"] == "replace"
