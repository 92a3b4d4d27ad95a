"""A person steps in: what they touched is theirs, by the servers' own logs; the other side is taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.lab.api import Lab
from remediator.kube.fence import CORDON_REASON, DID, FENCED, INCIDENT
from remediator.kube.spare import CLAIM
from tests.e2e.helpers import Json, Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
TICKET = "DIMM swap ticket 4711"


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found
        found.controller.forget()  # what a person overrode does not act again in its boot


@dataclass(frozen=True)
class Sick:
    """A machine under a job that may not be requeued."""

    site: Site
    job: Training
    worker: str
    node: str

    def incident(self) -> Json:
        """Its newest incident; empty when there is none."""
        return next(iter(self.site.controller.incidents(self.node)), {})

    def becomes(self, state: str, seconds: float = 120) -> Json:
        """Wait until the incident is in this state."""
        with self.site.explained():
            wait_for(f"state {state}", lambda: self.incident().get("state") == state, seconds, every=0.5)
        return self.incident()

    def kube(self) -> Json:
        return self.site.lab.api.get(f"/api/v1/nodes/{self.node}")

    def slurm(self) -> Json:
        shown = json.loads(self.site.lab.slurm("scontrol", "show", "node", self.worker, "--json"))
        return dict(shown["nodes"][0])

    def is_fenced(self) -> bool:
        found = self.kube()
        return FENCED in str(found["spec"].get("taints")) and bool(found["spec"].get("unschedulable"))

    def is_in_service(self) -> bool:
        return "DRAIN" not in self.slurm()["state"]

    def claims(self) -> int:
        """Spares that bear a claim."""
        found = self.site.lab.api.get("/api/v1/nodes")["items"]
        return sum(CLAIM in node["metadata"].get("annotations", {}) for node in found)


@pytest.fixture
def sick(site: Site) -> Sick:
    job = site.train("-N1", "--no-requeue")
    site.trains(job)
    (worker,) = job.workers()
    return Sick(site, job, worker, site.node_of(worker))


def stand_fenced(sick: Sick) -> None:
    """Drained, fenced and a spare claimed; the node waits for its job."""
    sick.site.lab.inject.xid(sick.node, 79)
    with sick.site.explained():
        wait_for("the fence and the claim", lambda: sick.is_fenced() and sick.claims() == 1, 120, every=0.3)


def assert_job_untouched(sick: Sick) -> None:
    assert sick.job.is_running(0)
    assert sick.job.events("TERM") == []


def test_a_resume_in_the_middle_is_obeyed_and_our_fence_taken_back(sick: Sick) -> None:
    stand_fenced(sick)
    servers = Servers(sick.site.lab)
    sick.site.lab.slurm("scontrol", "update", f"nodename={sick.worker}", "state=resume")
    incident = sick.becomes("overridden")
    assert servers.node_writes(sick.worker) == 0
    assert servers.fences(sick.node) == 1
    shown = sick.kube()
    assert not shown["spec"].get("unschedulable")
    assert FENCED not in str(shown["spec"].get("taints"))
    assert not {INCIDENT, DID, CORDON_REASON} & set(shown["metadata"].get("annotations", {}))
    assert sick.claims() == 0
    # The operator drains what is cordoned, for the moment between the resume and our uncordon.
    wait_for("the worker in service", sick.is_in_service, 90, every=0.5)
    assert_job_untouched(sick)
    assert_never_again(sick, incident)


def test_an_uncordon_in_the_middle_is_obeyed_and_our_drain_taken_back(sick: Sick) -> None:
    stand_fenced(sick)
    servers = Servers(sick.site.lab)
    sick.site.lab.kubectl("uncordon", sick.node)
    incident = sick.becomes("overridden")
    assert servers.fence_writes(sick.node) == 0
    assert servers.node_writes(sick.worker) == 1
    assert sick.is_in_service()
    assert sick.slurm()["reason"] == ""
    assert sick.claims() == 0
    assert_job_untouched(sick)
    assert_never_again(sick, incident)


def assert_never_again(sick: Sick, incident: Json) -> None:
    """The same fault is told again: it is recorded, and nothing is written anywhere."""
    controller, servers = sick.site.controller, Servers(sick.site.lab)
    sick.site.lab.inject.xid(sick.node, 79)
    said = f"a person has overridden incident {incident['id']}"
    wait_for("the verdict on the new line", lambda: said in controller.log(), 90, every=0.3)
    assert [found["id"] for found in controller.incidents(sick.node)] == [incident["id"]]
    assert (servers.fence_writes(), servers.node_writes(sick.worker), servers.requeue_writes()) == (0, 0, 0)
    assert controller.audit()["ok"]


def test_a_persons_drain_before_ours_stays_and_so_does_its_end(sick: Sick) -> None:
    lab = sick.site.lab
    lab.slurm("scontrol", "update", f"nodename={sick.worker}", "state=drain", f"reason={TICKET}")
    before = sick.slurm()
    servers = Servers(lab)
    lab.inject.xid(sick.node, 79)
    held = sick.becomes("held")
    assert TICKET in json.dumps(sick.site.controller.story(held["id"]))
    after = sick.slurm()
    about = ("state", "reason", "reason_set_by_user", "reason_changed_at")
    assert {name: after[name] for name in about} == {name: before[name] for name in about}
    lab.slurm("scontrol", "update", f"nodename={sick.worker}", "state=resume")
    assert sick.becomes("overridden")["id"] == held["id"]
    assert sick.is_in_service()
    assert (servers.node_writes(sick.worker), servers.fence_writes(), servers.requeue_writes()) == (0, 0, 0)
    assert_job_untouched(sick)


def test_maintenance_keeps_the_node_from_cordon_and_replacement_until_it_is_over(site: Site) -> None:
    job = site.train("-N1")
    site.trains(job)
    (worker,) = job.workers()
    here = Sick(site, job, worker, site.node_of(worker))
    named = ("reservationname=fans", "flags=maint,ignore_jobs", "users=root", f"nodes={worker}")
    site.lab.slurm("scontrol", "create", "reservation", *named, "starttime=now+600", "duration=60")
    try:
        site.lab.inject.xid(here.node, 79)
        site.moves(job)
        held = here.becomes("held")
        assert "maintenance fans begins within" in json.dumps(site.controller.story(held["id"]))
        assert not here.kube()["spec"].get("unschedulable")
        assert FENCED in str(here.kube()["spec"]["taints"])
        assert here.claims() == 0
        assert site.node_of(worker) == here.node
    finally:
        site.lab.slurm("scontrol", "delete", "reservationname=fans")
    assert site.closes(here.node, 150)["id"] == held["id"]
    assert here.is_fenced()
