"""`remediator return NODE` on the lab: a mended machine takes jobs again, by one RESUME and one PATCH."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from remediator.kube.fence import CORDON_REASON, DID, FENCED, INCIDENT
from remediator.kube.spare import SpareKeys
from tests.e2e.helpers import Json, Servers, Site, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


@pytest.fixture
def armed(site: Site) -> Iterator[Site]:
    """The controller dies once, right after slurmctld took the RESUME."""
    site.controller.arm("resume-slurm:accepted")
    yield site
    site.controller.arm(None)


def out_of_service(site: Site) -> tuple[str, str]:
    """A node that was drained and fenced, and its worker."""
    job = site.train("-N1")
    site.trains(job)
    (sick,) = job.workers()
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)
    site.moves(job)
    site.closes(node)
    return node, sick


def shown(site: Site, node: str) -> Json:
    found: Json = site.lab.api.get(f"/api/v1/nodes/{node}")
    return found


def returned(site: Site, node: str) -> Json:
    """Wait until the newest incident of the node, which is its return, is closed."""
    found = site.closes(node)
    assert found["plan"] == "give-back"
    assert "back in service" in json.dumps(site.controller.story(found["id"])["timeline"][-1])
    return found


def assert_in_service(site: Site, node: str, worker: str) -> None:
    found = shown(site, node)
    assert not found["spec"].get("unschedulable")
    assert FENCED not in str(found["spec"])
    assert not {INCIDENT, DID, CORDON_REASON} & set(found["metadata"]["annotations"])
    assert "DRAIN" not in site.lab.slurm("sinfo", "-h", "-n", worker, "-o", "%T").upper()
    assert site.controller.audit()["ok"]


def test_evidence_of_the_present_boot_is_refused_and_a_reboot_settles_it(site: Site) -> None:
    node, worker = out_of_service(site)
    before = Servers(site.lab)
    refused = site.lab.remediator("return", node, check=False)
    assert "in its present boot" in refused
    assert before.writes() == 0
    site.lab.inject.new_boot(node)
    boot = shown(site, node)["status"]["nodeInfo"]["bootID"]
    wait_for("the new boot", lambda: accepts(site, node), 150, every=2.0)
    returned(site, node)
    assert_in_service(site, node, worker)
    assert shown(site, node)["status"]["nodeInfo"]["bootID"] != boot
    plans = [one["plan"] for one in site.controller.incidents()]
    assert plans == ["give-back", "move-jobs"], "what our own repair causes is no second fault"


def accepts(site: Site, node: str) -> bool:
    return "is being returned" in site.lab.remediator("return", node, check=False)


@pytest.mark.slow  # the drill of `make crash` kills it at this moment and at the others of a return
def test_a_controller_killed_after_the_resume_repeats_nothing(armed: Site) -> None:
    node, worker = out_of_service(armed)
    before = Servers(armed.lab)
    # The command runs in the container that dies, maybe before it has printed: it may have no answer.
    armed.lab.remediator("return", node, "--even-so", check=False)
    wait_for("its death", lambda: armed.controller.container().get("restartCount") == 1, 120, every=0.2)
    found = returned(armed, node)
    assert_in_service(armed, node, worker)
    assert before.node_writes(worker) == 1  # the one change of the node that reached slurmrestd: RESUME
    assert before.fences(node) == 1
    job = armed.train("-N1", f"--nodelist={worker}")
    armed.trains(job)
    story = armed.controller.story(found["id"])
    assert [step["state"] for step in story["steps"]] == ["done"] * len(story["steps"])


@pytest.fixture
def replacing(lab: Lab) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found


def test_a_replaced_node_is_planned_for_replaced_and_returned_as_the_next_spare(replacing: Site) -> None:
    site, key = replacing, SpareKeys().spare
    job = site.train()
    site.trains(job)
    node = site.node_of(job.workers()[0])
    before = Servers(site.lab)
    plan = json.loads(site.controller.run("plan", node, "--json"))
    assert before.writes() == 0
    assert (plan["action"], plan["plan"], plan["unknown"], plan["vetoes"]) == ("act", "replace", [], [])
    (seen,) = plan["jobs"]
    assert (seen["address"], seen["released"], seen["gpus"]) == (job.address, True, 16)

    site.lab.inject.xid(node, 79)
    site.moves(job)
    assert site.closes(node)["plan"] == "replace"
    assert key not in str(shown(site, plan["spare"])["spec"])  # the very spare that was promised
    site.controller.run("return", node, "--even-so", "--as-spare")
    returned(site, node)
    found = shown(site, node)
    assert [taint["key"] for taint in found["spec"]["taints"]] == [key]
    assert found["metadata"]["labels"][key] == "true"
    assert not found["spec"].get("unschedulable")
    assert spares_ready(site) == [node]


def spares_ready(site: Site) -> list[str]:
    """What the doctor, to whom only the lab's short grace is an error, says of the pool's spares."""
    found = json.loads(site.lab.remediator("doctor", "--json", check=False))
    assert [one["check"] for one in found if one["level"] == "error"] == ["KillWait"]
    (says,) = [one["says"] for one in found if one["check"] == "spares of training"]
    return re.findall(r"(\S+) \(t", str(says))
