"""Slurm and Kubernetes answer late, wrongly or not at all, or die once they have acknowledged.

The controller reaches both through proxies, which change their kind of wrong answer while it runs.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import API_PORT, CONTROL_PLANE, SLURMRESTD_PORT
from tests.e2e.helpers import ONE_OF_EACH, Servers, Site, Training, in_order, save_state, wait_for
from tests.servers import faulty
from tests.servers.faulty import Asked, Choose, Passed, Proxy

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SLURM_DARK = ("dropped", "nonsense", "with_errors", "cut", "silent")
"""Wrong answers to every question to Slurm, the node's state among them."""
JOBS_DARK = ("emptied", "short", "broken", "slow")
"""Wrong answers to the question which jobs there are."""
KUBE_DARK = {"failed": "gone", "short": "garbled", "broken": "hanging", "silent": "dropped"}
"""Wrong answers to reads of nodes and pods, and to their watches at the same time."""

WATCHED = {"/api/v1/nodes", "/api/v1/pods"}


@dataclass
class Doors:
    """The two proxies."""

    slurm: Proxy
    kube: Proxy

    def open(self) -> None:
        """Every answer passes as it is, and nobody listens."""
        for proxy in (self.slurm, self.kube):
            proxy.choose, proxy.told = faulty.nobody, faulty.untold
            proxy.hang_up()

    def close_kube(self, kind: str) -> None:
        """Nodes and pods are answered for wrongly, and so are their watches, which begin anew."""
        self.kube.choose = about_machines(kind, KUBE_DARK[kind])
        self.kube.hang_up()

    def settings(self) -> dict[str, str]:
        """How the controller comes to use them."""
        return {
            "REMEDIATOR_SLURM__URL": f"http://{CONTROL_PLANE}:{self.slurm.port}",
            "KUBERNETES_SERVICE_HOST": CONTROL_PLANE,
            "KUBERNETES_SERVICE_PORT": str(self.kube.port),
        }


@pytest.fixture(scope="module")
def doors(lab: Lab) -> Iterator[Doors]:
    """The controller speaks to both servers through the proxies."""
    pki, controller = lab.layout.pki, Site(lab).controller
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki / "server.crt", pki / "server.key")
    authority = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    slurm = Proxy(faulty.plain(CONTROL_PLANE, SLURMRESTD_PORT), faulty.SLURM)
    kube = Proxy(faulty.secure(CONTROL_PLANE, API_PORT, authority), faulty.KUBE)
    with (
        lab.visit_network(),
        faulty.listening(slurm, CONTROL_PLANE),
        faulty.listening(kube, CONTROL_PLANE, tls),
    ):
        found = Doors(slurm, kube)
        settings = found.settings()
        controller.change("set", "env", "deployment/remediator", *map("=".join, settings.items()))
        try:
            yield found
        finally:
            controller.change("set", "env", "deployment/remediator", *(f"{name}-" for name in settings))


@pytest.fixture
def site(lab: Lab, doors: Doors) -> Iterator[Site]:
    doors.open()
    with in_order(lab) as found:
        # After wrong answers it comes back within half a minute; until then it knows the nodes of before.
        wait_for("the watches of nodes and pods", lambda: doors.kube.watched() >= WATCHED, 150, every=0.2)
        try:
            yield found
        finally:
            doors.open()


def sick_place(site: Site, job: Training) -> tuple[str, str]:
    """Once the job trains: its first worker, and that worker's node."""
    site.trains(job)
    worker = job.workers()[0]
    return worker, site.node_of(worker)


def assert_no_traceback(site: Site) -> None:
    assert [line for line in site.controller.lines() if '"exception"' in line or "Traceback" in line] == []


def is_longer(found: list[str], number: int) -> bool:
    return len(found) > number


def always(kind: str) -> Choose:
    return lambda _: kind


def about_jobs(kind: str) -> Choose:
    """To the list of all jobs."""
    return lambda asked: kind if asked.path.endswith("/jobs/") else None


def about_machines(kind: str, watched: str) -> Choose:
    """To reads of nodes and pods, and to watches of them."""

    def choose(asked: Asked) -> str | None:
        if asked.method != "GET" or not asked.path.startswith(("/api/v1/nodes", "/api/v1/pods")):
            return None
        return watched if asked.watch else kind

    return choose


def test_nothing_is_written_on_a_wrong_answer_and_all_is_done_on_right_ones(site: Site, doors: Doors) -> None:
    job = site.train()
    worker, node = sick_place(site, job)
    servers = Servers(site.lab)
    told: list[str] = []

    def met(proxy: Proxy, kind: str, path: str) -> None:
        """The step under way got this wrong answer, and no change came of those before."""
        with site.explained():
            wait_for(f"{kind} at {path}", lambda: proxy.count(kind, path) >= 1, 120, every=0.2)
        assert servers.changes() == told, kind

    def done() -> None:
        """All that may be written by now is."""
        with site.explained():
            wait_for(told[-1], lambda: servers.changes() == told, 120, every=0.2)

    doors.slurm.choose = always(SLURM_DARK[0])
    site.lab.inject.xid(node, 79)
    for kind in SLURM_DARK:
        doors.slurm.choose = always(kind)
        met(doors.slurm, kind, f"/node/{worker}")
    assert servers.writes() == 0
    assert job.is_untouched()

    told = [f"POST /slurm/v0.0.45/node/{worker}"]  # the DRAIN: Slurm is known again, Kubernetes is not
    doors.close_kube("failed")
    doors.slurm.choose = faulty.nobody
    done()
    for kind in KUBE_DARK:
        doors.close_kube(kind)
        met(doors.kube, kind, f"/nodes/{node}")
    assert job.is_untouched()

    told = [*told, f"patch nodes/{node}"]  # the fence; which jobs run there is not known
    doors.slurm.choose = about_jobs(JOBS_DARK[0])
    doors.kube.choose = faulty.nobody
    done()
    for kind in JOBS_DARK:
        doors.slurm.choose = about_jobs(kind)
        met(doors.slurm, kind, "/jobs/")
    assert job.is_untouched()

    doors.open()
    site.moves(job)
    site.closes(node)
    assert servers.counts(worker, node, job.address) == ONE_OF_EACH
    assert job.terms() == {"0": 1, "1": 1}
    assert site.controller.audit()["ok"]
    assert_no_traceback(site)


def test_servers_that_die_as_they_acknowledge_are_asked_once_more_and_the_job_moves_once(
    site: Site, doors: Doors
) -> None:
    """slurmctld may forget a DRAIN and a requeue that it took seconds before, the API server nothing."""
    job = site.train()
    worker, node = sick_place(site, job)
    save_state(site.lab, job.address)  # slurmctld writes its state every 5 s: it shall know the job
    died: list[str] = []
    fatal = {
        ("POST", f"/slurm/v0.0.45/node/{worker}"): "slurmctld",
        ("PATCH", f"/api/v1/nodes/{node}"): "apiserver",
        ("POST", "/slurm/v0.0.45/jobs/requeue"): "slurmctld",
    }

    def told(asked: Asked, passed: Passed) -> None:
        if passed.status == 200 and (part := fatal.pop((asked.method, asked.path), None)) is not None:
            site.lab.inject.kill(part)
            died.append(part)

    doors.slurm.told = doors.kube.told = told
    deaths = len(fatal)
    site.lab.inject.xid(node, 79)
    for number in range(deaths):
        with site.explained():
            wait_for(f"one of {fatal} to die", partial(is_longer, died, number), 150, every=0.1)
        site.lab.inject.start(died[number])
    site.moves(job)
    site.closes(node)
    assert fatal == {}
    assert worker not in job.workers()
    assert [len(job.events("START", restart)) for restart in (0, 1, 2)] == [2, 2, 0]
    assert site.controller.audit()["ok"]
    assert_no_traceback(site)
