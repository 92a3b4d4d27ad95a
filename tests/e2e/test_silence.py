"""A frozen host: neither witness hears it, and its job goes on elsewhere only when its copy there is gone."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import NODES, SLURM_NAMESPACE
from tests.e2e.helpers import Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

AGENTS = sum(spec.gpus > 0 for spec in NODES)
SCRIPT = """#!/bin/bash
#SBATCH -N2 --ntasks-per-node=1 --requeue --output=/dev/null
srun sh -c 'while sleep 0.2; do
  echo "${SLURM_RESTART_COUNT:-0} $SLURMD_NODENAME $(date +%s.%N)" >> /shared/copies-$SLURM_JOB_ID
done'
"""


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab, "full") as found:
        yield found


def written(site: Site, job: str) -> list[tuple[int, str, float]]:
    """What every copy of the job has written: its restart, its node, when."""
    path = site.lab.layout.shared / f"copies-{job}"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [line.split() for line in lines]
    return [(int(one[0]), one[1], float(one[2])) for one in found if len(one) == 3]


def test_a_frozen_host_never_leaves_two_copies_of_its_job(site: Site) -> None:
    servers = Servers(site.lab)
    job, sick = started(site)
    node = site.node_of(sick)
    all_are_heard(site)
    site.lab.inject.freeze(node, True)
    try:
        wait_for("the incident", lambda: bool(site.controller.incidents(node)), 240, every=2.0)
        assert site.controller.incidents(node)[0]["rule"] == "silent-node"
        wait_for("Slurm's requeue", lambda: job.record()["restart_cnt"] == 1, 150, every=0.5)
        assert "PENDING" in job.record()["job_state"]
        time.sleep(8)
        assert not [one for one in written(site, job.address) if one[0] == 1]
        assert servers.requeue_writes() == 0
    finally:
        site.lab.inject.power(node, False)
        site.lab.inject.power(node, True)
    site.lab.slurm("scontrol", "update", f"jobid={job.address}", "starttime=now")  # else 2 minutes after it
    assert_copies_follow(site, job)
    assert sick not in runs(site, job, 1) or site.node_of(sick) != node


@pytest.mark.slow
def test_a_host_that_thaws_after_the_requeue_never_leaves_two_copies(site: Site) -> None:
    """Its job writes on when it thaws: only the end of the worker's pod proves that it is gone."""
    job, sick = started(site)
    node = site.node_of(sick)
    all_are_heard(site)
    site.lab.inject.freeze(node, True)
    try:
        wait_for("Slurm's requeue", lambda: job.record()["restart_cnt"] == 1, 240, every=0.5)
        wait_for("the DOWN of ours", lambda: site.controller.incidents(node), 60, every=2.0)
    finally:
        site.lab.inject.freeze(node, False)
    assert_copies_follow(site, job)


@pytest.mark.slow
def test_a_frozen_slurmd_under_an_agent_that_is_heard_never_leaves_two_copies(lab: Lab) -> None:
    """Slurm itself sets the node DOWN and requeues the job; we hold it, page, and touch no node."""
    with in_order(lab) as site, holding(site):
        servers = Servers(lab)
        job, _ = started(site)
        sick = job.workers()[0]  # the batch script and its srun live there
        node = site.node_of(sick)
        lab.inject.slurmd(node, signal.SIGSTOP)
        wait_for("Slurm's requeue", lambda: job.record()["restart_cnt"] == 1, 240, every=0.5)
        wait_for("our hold", lambda: job.record()["hold"], 90, every=0.5)
        (incident,) = site.controller.incidents(node)
        assert incident["plan"] == "hold-job"
        begins = job.record()["eligible_time"]["number"]
        wait_for("the end of Slurm's delay", lambda: time.time() > begins + 10, 180, every=1.0)
        assert runs(site, job, 1) == set()
        with site.explained():
            wait_for("a page about the job", lambda: paged(site, incident["id"], job), 60, every=2.0)
        assert (servers.fence_writes(), servers.node_writes(sick), servers.requeue_writes()) == (0, 0, 0)
        lab.kubectl("-n", SLURM_NAMESPACE, "delete", "pod", sick, "--wait=false")
        assert_copies_follow(site, job)
        assert site.closes(node)["id"] == incident["id"]


def paged(site: Site, incident: str, job: Training) -> bool:
    return any(job.address in text for text in site.controller.told(incident, "operators"))


@contextlib.contextmanager
def holding(site: Site) -> Iterator[None]:
    """The pool asks for jobs to be held until there is proof; looks are short of a third of SlurmdTimeout."""
    setting, often = "REMEDIATOR_POOLS__TRAINING__HOLD_UNTIL_FENCED", "REMEDIATOR_SLURM__POLL_IDLE_S"
    site.controller.change("set", "env", "deployment/remediator", f"{setting}=true", f"{often}=8")
    try:
        yield
    finally:
        site.controller.change("set", "env", "deployment/remediator", f"{setting}-", f"{often}-")


def all_are_heard(site: Site) -> None:
    """Wait until every agent has been heard by a controller that may just have started."""
    heard = "remediator_agents_heard"
    wait_for("the heartbeats", lambda: site.controller.metric(heard) == AGENTS, 120, every=1.0)


def started(site: Site) -> tuple[Training, str]:
    """A job that writes from both its nodes, and the second of them."""
    job = Training(site.lab, site.lab.slurm("sbatch", "--parsable", stdin=SCRIPT).strip())
    wait_for("both copies", lambda: len(runs(site, job, 0)) == 2, 150, every=0.2)
    return job, job.workers()[-1]


def assert_copies_follow(site: Site, job: Training) -> None:
    """The next run writes from both its nodes, and the first has written nothing since it began."""
    with site.explained():
        wait_for("the next copies", lambda: len(runs(site, job, 1)) == 2, 240, every=0.2)
    time.sleep(10)
    first = min(one[2] for one in written(site, job.address) if one[0] == 1)
    assert max(one[2] for one in written(site, job.address) if one[0] == 0) < first
    assert site.controller.audit()["ok"]


def runs(site: Site, job: Training, restart: int) -> set[str]:
    """The nodes that this run of the job writes from."""
    return {one[1] for one in written(site, job.address) if one[0] == restart}
