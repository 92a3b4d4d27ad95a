"""A pool at stage `full`: the sick node leaves, a spare comes in, and the job's place is kept meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import WORKERS
from remediator.kube.fence import FENCED
from remediator.kube.spare import RETIRED
from tests.e2e.full import KEYS, nodes, spares, taints
from tests.e2e.helpers import Servers, Site, in_order, wait_for
from tests.e2e.times import asked_to_leave_at, requeued_at

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
VETO = "remediator.dev/no-replace"


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found


def test_a_spare_comes_in_and_the_victim_starts_before_an_older_competitor(site: Site) -> None:
    servers = Servers(site.lab)
    (spare,) = spares(site)
    rival = site.train("--begin=now+3600")  # older than the victim's restart, released below
    victim = site.train()
    other = site.train()
    site.trains(victim, other)
    site.lab.slurm("scontrol", "update", f"jobid={rival.address}", "starttime=now")
    sick = victim.workers()[0]
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)

    site.moves(victim)
    assert site.closes(node)["plan"] == "replace"
    assert rival.record()["job_state"] == ["PENDING"]
    assert other.is_running(0)
    assert servers.requeues(victim.address) == 1
    assert servers.drains(sick) == 1
    assert requeued_at(servers, victim.address) <= min(asked_to_leave_at(servers, sick))
    assert site.node_of(sick) == spare
    found = nodes(site)
    assert {FENCED, RETIRED} <= taints(found[node])
    assert KEYS.worker not in taints(found[node])
    assert found[node]["spec"]["unschedulable"]
    assert taints(found[spare]) == {KEYS.worker}
    assert "No reservations" in site.lab.slurm("scontrol", "show", "reservation")
    assert site.controller.audit()["ok"]


def test_a_no_replace_pod_keeps_its_node_until_the_label_goes(site: Site) -> None:
    victim = site.train("-N1")
    site.trains(victim)
    (sick,) = victim.workers()
    node = site.node_of(sick)
    keep(site, node)
    try:
        site.lab.inject.xid(node, 79)
        site.moves(victim)
        wait_for("the hold", lambda: site.controller.incidents(node)[0]["state"] == "held", 120, every=0.5)
        held = site.controller.incidents(node)[0]
        story = json.dumps(site.controller.story(held["id"]))
        assert "pod slurm/keeper" in story
        shown = nodes(site)[node]
        assert FENCED in taints(shown)
        assert not shown["spec"].get("unschedulable")
        assert site.node_of(sick) == node
        site.lab.kubectl("-n", "slurm", "label", "pod", "keeper", f"{VETO}-")
        closed = site.closes(node, 150)
        assert closed["id"] == held["id"]
        assert nodes(site)[node]["spec"]["unschedulable"]
    finally:
        site.lab.kubectl("-n", "slurm", "delete", "pod", "keeper", "--ignore-not-found", "--now")


def keep(site: Site, node: str) -> None:
    """A pod that must not lose its node."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "keeper", "namespace": "slurm", "labels": {VETO: "true"}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "localhost/pause:1", "imagePullPolicy": "Never"}],
        },
    }
    site.lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    path = "/api/v1/namespaces/slurm/pods/keeper"
    wait_for("the keeper", lambda: site.lab.api.get(path)["status"].get("phase") == "Running", 90, every=0.2)


def test_the_pool_has_all_its_workers_again(site: Site) -> None:
    """What the tests above gave back is whole: four workers and one spare."""
    assert len(spares(site)) == 1
    pods = site.lab.api.get("/api/v1/namespaces/slurm/pods")["items"]
    running = [p for p in pods if p["metadata"]["name"].startswith("worker-") and p["spec"].get("nodeName")]
    assert len(running) == WORKERS
