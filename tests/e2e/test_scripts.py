"""A dead GPU under a two-node job, for each kind of script: what is saved, and that nobody else notices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.lab.api import Lab
from tests.e2e.full import has_whole_pool, spares, was_replaced
from tests.e2e.helpers import Follower, Json, Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = 180
FAULT_AFTER = 60
PERIODIC = 50
"""The last checkpoint that the job saved by itself before the fault."""
HEAD = """#!/bin/bash
#SBATCH --job-name=train -N2 --ntasks-per-node=1 --gres=gpu:8 --output=/shared/job/train-%j.out
export STEP_SECONDS=0.1
"""
TRAIN = "python3 /shared/job/train.py"
SUCCESSOR = "sbatch --output=/dev/null --wrap 'date +%s.%N >> /shared/after-'$SLURM_JOB_ID"


@dataclass(frozen=True)
class Script:
    """The line that trains, how many ranks that makes, whether SIGTERM lets them save, and what follows."""

    trains: str
    ranks: int
    saves: bool = True
    then: str = ""


ONE_RANK = "export SLURM_NTASKS=1\n"
SCRIPTS = {
    "srun": Script(f"srun {TRAIN}", 2),
    "exec": Script(f"{ONE_RANK}exec {TRAIN}", 1),
    "shell-child": Script(f"{ONE_RANK}{TRAIN}", 1, saves=False),
    "trap": Script(f"{ONE_RANK}trap : TERM\n{TRAIN} || exit", 1),
    "chained-sbatch": Script(f"srun {TRAIN}", 2, then=SUCCESSOR),
}
KINDS = ("afterok", "afternotok", "afterany")


@pytest.fixture(scope="module")
def pool(lab: Lab) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found


@pytest.fixture
def site(pool: Site) -> Iterator[Site]:
    yield pool
    pool.mend()
    pool.refill()
    assert has_whole_pool(pool)


def submit(site: Site, script: Script) -> Training:
    text = f"{HEAD}export STEPS={STEPS}\n{script.trains}\n{script.then}\n"
    return Training(site.lab, site.lab.slurm("sbatch", "--parsable", stdin=text).strip())


class Neighbours:
    """Everybody who must not notice: an older job in the queue, an array, an salloc, a Requeue=0 job."""

    def __init__(self, site: Site) -> None:
        self.rival = site.train("--begin=now+3600")  # the oldest; `wait_in_line` lets it go
        self._lab = site.lab
        self._site = site

    def move_in(self) -> None:
        """Take the two workers that the victim has left."""
        site = self._site
        self.array = site.train("--array=7", "-N1")
        site.trains(self.array)
        self.once = site.train("-N1", "--gres=gpu:4", "--no-requeue")
        self.shell = site.allocate("-N1", "--gres=gpu:4")
        site.trains(self.once, self.shell)

    def wait_in_line(self) -> None:
        """The rival would start as soon as two nodes are free."""
        self._lab.slurm("scontrol", "update", f"jobid={self.rival.address}", "starttime=now")

    def untouched(self) -> bool:
        return all(job.is_untouched() for job in (self.array, self.once, self.shell))


@pytest.mark.parametrize("kind", SCRIPTS)
def test_the_job_moves_once_and_nobody_else_notices(site: Site, kind: str) -> None:
    script, servers = SCRIPTS[kind], Servers(site.lab)
    (spare,) = spares(site)
    neighbours = Neighbours(site)
    victim = submit(site, script)
    followers = {when: Follower(site.lab, when, victim.address) for when in KINDS}
    site.trains(victim)
    neighbours.move_in()
    neighbours.wait_in_line()
    site.trains(victim, step=FAULT_AFTER)
    sick, survivor = victim.workers()
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79, gpu=3)

    site.moves(victim)
    assert survivor in victim.workers()
    assert site.node_of(sick) == spare
    assert neighbours.rival.record()["job_state"] == ["PENDING"]
    assert {follower.why_pending() for follower in followers.values()} == {"Dependency"}
    wait_for("the result", (victim.folder / "result.json").exists, 180, every=0.2)
    assert_resumed(site, victim, script)
    assert site.closes(node, 120)["plan"] == "replace"
    assert was_replaced(site, node, sick, spare)
    assert (servers.drains(sick), servers.requeues(victim.address), servers.requeue_writes()) == (1, 1, 1)
    assert neighbours.untouched()
    assert_followed(victim, neighbours.rival, followers)
    assert_successors(site, victim, script)
    assert "No reservations" in site.lab.slurm("scontrol", "show", "reservation")
    assert site.controller.audit()["ok"]


def assert_resumed(site: Site, victim: Training, script: Script) -> None:
    """From the step where its ranks stopped, when they could save; bit for bit the same result either way."""
    result: Json = json.loads((victim.folder / "result.json").read_text())
    resumed = {int(event["step"]) for event in victim.events("START", 1)}
    stopped = [int(event["step"]) for event in victim.events("END", 0)]
    assert len(victim.events("START", 1)) == script.ranks
    assert (result["restarts"], result["starts"]) == (1, 2)
    if script.saves:
        assert (resumed, len(stopped), result["steps_recomputed"]) == (set(stopped), script.ranks, 0)
        assert set(victim.terms().values()) == {1}
    else:
        assert (resumed, stopped) == ({PERIODIC}, [])
        assert result["steps_recomputed"] >= FAULT_AFTER - PERIODIC
    assert result["sha256"] == site.reference(STEPS, script.ranks)


def assert_followed(victim: Training, rival: Training, followers: dict[str, Follower]) -> None:
    """What waited for the victim's end begins after it; what waited for its failure never does."""
    ranks = len(victim.events("START", 1))
    wait_for("the end of its ranks", lambda: len(victim.events("END", 1)) == ranks, 60, every=0.2)
    ended = max(float(event["time"]) for event in victim.events("END", 1))
    for when in ("afterok", "afterany"):
        wait_for(f"the {when} job", followers[when].started, 60, every=0.2)
        assert (followers[when].started() or 0.0) > ended
    never = followers["afternotok"]
    wait_for("Slurm to give up", lambda: never.why_pending() in {"", "DependencyNeverSatisfied"}, 60)
    assert never.started() is None
    wait_for("the older job to start", lambda: rival.is_running(0), 60, every=0.2)
    assert rival.record()["start_time"]["number"] >= int(ended)


def assert_successors(site: Site, victim: Training, script: Script) -> None:
    """A script that submits the next one does so once, when its training is through."""
    if script.then:
        stamps = site.lab.layout.shared / f"after-{victim.address}"
        wait_for("the successor", stamps.exists, 60, every=0.2)
        (stamp,) = stamps.read_text().split()
        assert float(stamp) > max(float(event["time"]) for event in victim.events("END", 1))
