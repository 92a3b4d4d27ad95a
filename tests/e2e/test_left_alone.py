"""An salloc and a Requeue=0 job on the sick node: told once, left to run; the node waits for their end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import WORKERS
from remediator.kube.fence import FENCED
from tests.e2e.full import nodes, spares, taints, was_replaced
from tests.e2e.helpers import Json, Servers, Site, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]

SEVERAL_LOOKS_S = 12.0


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found


def test_they_are_told_once_and_their_node_is_held_until_they_have_ended(site: Site) -> None:
    servers, sick = Servers(site.lab), "worker-1"
    (spare,) = spares(site)
    node = site.node_of(sick)
    elsewhere = ",".join(f"worker-{number}" for number in range(WORKERS) if f"worker-{number}" != sick)
    half = ("-N1", "--gres=gpu:4", f"--exclude={elsewhere}")
    once, shell = site.train("--no-requeue", *half), site.allocate(*half)
    site.trains(once, shell)
    site.lab.inject.xid(node, 79)

    def is_held() -> bool:
        found = site.controller.incidents(node)
        return bool(found) and found[0]["state"] == "held"

    wait_for("the hold", is_held, 150, every=0.5)
    incident = site.controller.incidents(node)[0]["id"]
    time.sleep(SEVERAL_LOOKS_S)
    assert_told_once(site, incident, once.address, shell.address)
    assert_held(site, node, sick)
    assert once.is_untouched()
    assert shell.is_untouched()

    site.lab.slurm("scancel", once.address)
    time.sleep(SEVERAL_LOOKS_S)
    assert is_held(), "the salloc is still there"
    assert shell.is_untouched()
    assert_held(site, node, sick)
    site.lab.slurm("scancel", shell.address)
    closed = site.closes(node, 120)
    assert (closed["id"], closed["plan"]) == (incident, "replace")
    assert was_replaced(site, node, sick, spare)
    assert_told_once(site, incident, once.address, shell.address)
    assert (servers.drains(sick), servers.requeue_writes()) == (1, 0)
    assert site.controller.audit()["ok"]


def assert_told_once(site: Site, incident: str, *jobs: str) -> None:
    """One message for each job says that it is left alone, and why; people are called once for the hold."""
    texts = site.controller.told(incident, "user:root")
    assert len(texts) == len(jobs)
    for job in jobs:
        (text,) = (text for text in texts if f"job {job} " in text)
        assert "is left alone because it" in text
    held = [text for text in site.controller.told(incident, "operators") if "is held" in text]
    assert len(held) == 1


def assert_held(site: Site, node: str, worker: str) -> None:
    """Drained by us, fenced, and still with its worker."""
    shown: Json = json.loads(site.lab.slurm("scontrol", "show", "node", worker, "--json"))["nodes"][0]
    assert "DRAIN" in shown["state"]
    assert shown["reason"].startswith("remediator: ")
    assert FENCED in taints(nodes(site)[node])
    assert site.node_of(worker) == node
