"""What a crashed job's nodes did counts against the one that stands out: tested, and never just replaced."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.run.forensics import Forensics
from remediator.run.job_ends import JobEnds
from remediator.store import outbox, strikes
from tests.crash.test_suspects import lose_gpu, plans, watched
from tests.fakes.prometheus import FakePrometheus
from tests.fakes.river import River

RUNS_S = 300.0
SCRAPE_S = 15


class Site:
    """A pool that restarts failed jobs, and a Prometheus that reads a port of each node every 15 s."""

    def __init__(self, folder: Path, nodes: int = 4) -> None:
        self.nodes = [f"gpu-{number}" for number in range(nodes)]
        self.river = watched(River(folder, nodes=self.nodes), restart_failed_jobs=True)
        self.prometheus = FakePrometheus()
        inventory, clock = self.river.inventory(), self.river.own
        self.forensics = Forensics(self.prometheus, inventory, self.river.policy, self.river._submit, clock)
        self.ends = JobEnds(self.river.slurm, self.forensics.submit, clock, 30.0)
        self.ends.look()
        self.downs: dict[str, list[float]] = defaultdict(list)

    def scrape(self) -> None:
        """Twenty-five minutes until now."""
        self.prometheus.series.clear()
        now = int(self.river.clock.now())
        times = [float(at) for at in range(now - 1500, now + 1, SCRAPE_S)]
        for number, node in enumerate([*self.nodes, "spare-0"]):
            where = {"job": "agents", "instance": f"10.0.0.{number}:9465"}
            count = [(at, 3.0 + sum(down < at for down in self.downs[node])) for at in times]
            about = where | {"node": node, "boot_id": f"boot-{node}"}
            self.prometheus.put("remediator_agent_info", about, [(at, 1.0) for at in times])
            port = where | {"device": "mlx5_2", "port": "1"}
            self.prometheus.put("remediator_ib_link_downed_total", port, count)

    def settle(self, seconds: float) -> None:
        """So much time passes, with a look at jobs and readings every ten seconds."""
        until = self.river.clock.now() + seconds
        while self.river.clock.now() < until:
            self.ends.look()
            self.scrape()
            self.forensics.look()
            look_at = self.river.clock.now() + 10.0
            while self.river.clock.now() < look_at:
                self.river.turn()

    def crash(self, job: int, *bad: str) -> None:
        """It computes for a while; then it fails, as the links of these nodes go down."""
        self.river.clock.advance(RUNS_S)
        for node in bad:
            self.downs[node].append(self.river.clock.now() - 40.0)
        self.river.slurm.fail(job)
        self.settle(130.0)

    def pages(self) -> list[str]:
        with self.river.store.read() as connection:
            due = outbox.due(connection, self.river.clock.now() + 1)
            return [one.message.text for one in due if one.message.urgency == "page"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("nodes", [2, 6])
def test_a_lone_job_over_all_machines_is_off_the_bad_one_within_three_restarts(
    tmp_path: Path, nodes: int
) -> None:
    """No kernel line says anything, nothing else runs: its machines' readings tell which it is."""
    site = Site(tmp_path, nodes)
    lose_gpu(site.river, "gpu-1")
    job = site.river.submit_job(width=nodes)
    for _ in range(4):
        if not site.river.admitted():
            site.crash(job, "gpu-1")
    assert site.river.admitted() == ["spare-0"]
    assert site.river.kube.view("gpu-1").unschedulable
    assert site.river.slurm.count("drain", "w-gpu-1") == 1
    seen = site.river.job(job)
    assert (seen.state, "w-gpu-1" in seen.nodes) == ("RUNNING", True)  # the worker is on the spare by now
    assert site.river.worker_node("w-gpu-1") == "spare-0"
    assert seen.restart_count <= 3
    assert {one.node for one in site.river.all_incidents() if one.plan == "replace"} == {"gpu-1"}
    with site.river.store.read() as connection:
        assert chain.verify(connection).ok


def test_a_machine_that_passes_its_test_is_given_back_and_never_replaced(site: Site) -> None:
    job = site.river.submit_job(width=4)
    for _ in range(3):
        site.crash(job, "gpu-1")
    assert ("validate", "closed") in plans(site.river)
    assert "replace" not in dict(plans(site.river))
    assert site.river.admitted() == []
    assert not site.river.kube.view("gpu-1").unschedulable


def test_one_crash_is_chance(site: Site) -> None:
    job = site.river.submit_job(width=4)
    site.crash(job, "gpu-1")
    assert plans(site.river) == [("restart-job", "closed")]
    with site.river.store.read() as connection:
        counted = strikes.rows_of_job(connection, str(job), 0.0)
    assert [one.node for one in counted if one.is_examined] == ["gpu-1"]
    assert len(counted) == 4


@pytest.mark.parametrize(
    "bad",
    [
        [("gpu-0",), ("gpu-1",), ("gpu-2",)],
        [("gpu-0", "gpu-1")] * 3,
        [("gpu-0", "gpu-1", "gpu-2", "gpu-3")] * 3,
    ],
    ids=["another each time", "two that may be two ends", "all of them"],
)
def test_readings_that_point_to_nobody_make_nobody_suspect(site: Site, bad: list[tuple[str, ...]]) -> None:
    job = site.river.submit_job(width=4)
    for nodes in bad:
        site.crash(job, *nodes)
    assert set(plans(site.river)) == {("restart-job", "closed")}


def test_what_ended_an_earlier_run_counts_for_no_later_one(site: Site) -> None:
    """The same fall of the link is in the twenty minutes before each of these crashes."""
    job = site.river.submit_job(width=4)
    site.crash(job, "gpu-1")
    site.crash(job)
    site.crash(job)
    assert set(plans(site.river)) == {("restart-job", "closed")}


def test_without_evidence_a_job_that_always_runs_everywhere_is_left_and_people_are_told_why(
    site: Site,
) -> None:
    job = site.river.submit_job(width=4)
    for _ in range(4):
        site.crash(job)
    assert (site.river.job(job).state, site.river.job(job).restart_count) == ("FAILED", 3)
    assert site.river.kube.writes == []
    assert set(plans(site.river)) == {("restart-job", "closed")}
    (page,) = [text for text in site.pages() if "cannot be told" in text]
    assert f"job {job}" in page
    assert "always on the same 4 nodes, and nothing tells these apart" in page


def test_a_controller_that_restarts_meanwhile_counts_nothing_twice(site: Site) -> None:
    job = site.river.submit_job(width=4)
    for _ in range(2):
        site.crash(job, "gpu-1")
        site.river.begin()
        site.settle(20.0)
    assert [plan for plan, _ in plans(site.river)].count("validate") == 1
    assert site.river.slurm.count("drain", "w-gpu-1") == 1
