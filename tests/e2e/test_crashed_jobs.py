"""Jobs that crash by themselves: restarted without touching a node, and counted against it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from deploy.lab.api import Lab
from remediator.kube.fence import FENCED
from tests.e2e.helpers import Json, Servers, Site, Training, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
SETTINGS = {"REMEDIATOR_POOLS__TRAINING__RESTART_FAILED_JOBS": "true", "REMEDIATOR_SLURM__JOB_ENDS_S": "2"}


@contextmanager
def restarting(lab: Lab, stage: str) -> Iterator[Site]:
    """A pool at this stage that restarts failed jobs, looked at every 2 s."""
    with in_order(lab, stage) as found:
        given = [f"{name}={value}" for name, value in SETTINGS.items()]
        found.controller.change("set", "env", "deployment/remediator", *given)
        try:
            yield found
        finally:
            off = (f"{name}-" for name in SETTINGS)
            found.controller.change("set", "env", "deployment/remediator", *off)


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with restarting(lab, "move-jobs") as found:
        yield found


def submit(site: Site, script: str, *options: str) -> Training:
    """A batch job of one node with this script."""
    job = site.lab.slurm("sbatch", "--parsable", "-N1", *options, f"--wrap={script}")
    return Training(site.lab, job.strip())


def submit_crashing(site: Site, *options: str) -> tuple[Training, Path]:
    """A job of one node, or as sbatch's options say, whose first run crashes once the file is there, and
    whose next one goes on.
    """
    cue = site.lab.layout.shared / f"cue-{time.monotonic_ns()}"
    crash = f"while [ ! -e /shared/{cue.name} ]; do sleep 0.02; done; exit 1"
    job = submit(site, f'[ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ] || {{ {crash}; }}; sleep 600', *options)
    wait_for("the first run", lambda: job.is_running(0), 120, every=0.2)
    return job, cue


def has_failed(job: Training) -> bool:
    return "FAILED" in job.record()["job_state"]


def two_crash(site: Site, worker: str) -> None:
    """Two different jobs end with an error on this worker, and nobody knows of a crash elsewhere: in so small
    a pool one more would make two look like a coincidence.
    """
    site.controller.forget()
    for name in ("one", "two"):
        job = submit(site, "sleep 3; exit 1", "--no-requeue", f"--nodelist={worker}", f"--job-name={name}")
        wait_for(f"the end of {name}", partial(has_failed, job), 120, every=0.2)


def all_closed(site: Site, node: str | None, count: int) -> list[Json]:
    """Wait until this many incidents of a node (None: of all) are closed; oldest first."""

    def closed() -> bool:
        found[:] = site.controller.incidents(node)
        return len(found) == count and all(one["state"] == "closed" for one in found)

    found: list[Json] = []
    wait_for(f"{count} closed incidents of {node or 'all nodes'}", closed, 180, every=1.0)
    return found[::-1]


def test_a_job_that_exits_1_is_restarted_once_and_no_node_is_touched(site: Site) -> None:
    servers = Servers(site.lab)
    job, cue = submit_crashing(site)
    node = site.node_of(job.workers()[0])
    cue.touch()
    site.moves(job)
    (incident,) = all_closed(site, node, 1)
    assert incident["plan"] == "restart-job"
    assert incident["cause"] == f"job {job.address} exited with code 1"
    assert servers.requeues(job.address) == 1
    assert servers.requeue_writes() == 1
    assert servers.fence_writes() == 0
    assert site.controller.audit()["ok"]


def test_a_job_that_crashes_on_a_failing_node_is_restarted_elsewhere(site: Site) -> None:
    """The job is quicker than we are: it has ended by itself when its GPU's loss is told."""
    servers = Servers(site.lab)
    job, cue = submit_crashing(site)
    (sick,) = job.workers()
    node = site.node_of(sick)
    cue.touch()
    wait_for("its crash", partial(has_failed, job), 60, every=0.05)
    site.lab.inject.xid(node, 79)
    site.moves(job)
    assert site.node_of(job.workers()[0]) != node
    assert servers.requeues(job.address) == 1


def test_two_different_jobs_that_crash_on_a_node_have_it_tested_and_given_back(site: Site) -> None:
    servers = Servers(site.lab)
    sick = "worker-0"
    node = site.node_of(sick)
    two_crash(site, sick)
    suspicion, returned = all_closed(site, node, 2)
    assert (suspicion["plan"], returned["plan"]) == ("validate-only", "give-back")
    assert "different jobs crashed on it" in suspicion["cause"]
    assert servers.drains(sick) == 1
    assert servers.fences(node) == 2
    assert servers.requeue_writes() == 0
    shown = next(n for n in site.lab.api.get("/api/v1/nodes")["items"] if n["metadata"]["name"] == node)
    assert FENCED not in str(shown["spec"])
    assert not shown["spec"].get("unschedulable")
    job = submit(site, "sleep 600", f"--nodelist={sick}")
    wait_for("a job on it", lambda: job.is_running(0), 120, every=0.2)


@pytest.mark.slow
def test_a_suspect_node_that_fails_its_test_is_replaced(lab: Lab) -> None:
    """A GPU is gone and no kernel line says so: the crashes lead to it."""
    with restarting(lab, "full") as site:
        sick = "worker-0"
        node = site.node_of(sick)
        site.lab.inject.gpu_unhealthy(node, 3)
        try:
            two_crash(site, sick)
            (incident,) = all_closed(site, node, 1)
        finally:
            site.lab.inject.gpu_found(node, 3)
        assert incident["plan"] == "replace"
        assert "acceptance test failed: 7 of 8 GPUs" in incident["sentence"]
        assert site.node_of(sick) != node
