"""A frozen host: neither witness hears it, and its job goes on elsewhere only when its copy there is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from tests.e2e.helpers import Servers, Site, Training, in_order
from tests.servers.slurm import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(420)]

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
    job = Training(site.lab, site.lab.slurm("sbatch", "--parsable", stdin=SCRIPT).strip())
    wait_for("both copies", lambda: len({one[1] for one in written(site, job.address)}) == 2, 60, every=0.2)
    sick = job.workers()[-1]
    node = site.node_of(sick)
    time.sleep(35)  # every agent has been heard by a controller that may just have started
    site.lab.inject.freeze(node, True)
    try:
        wait_for("the incident", lambda: bool(site.controller.incidents(node)), 150, every=2.0)
        assert site.controller.incidents(node)[0]["rule"] == "silent-node"
        wait_for("Slurm's requeue", lambda: job.record()["restart_cnt"] == 1, 60, every=0.5)
        assert "PENDING" in job.record()["job_state"]
        time.sleep(8)
        assert not [one for one in written(site, job.address) if one[0] == 1]
        assert servers.requeue_writes() == 0
    finally:
        site.lab.inject.power(node, False)
        site.lab.inject.power(node, True)
    site.moves(job)
    wait_for("the next copies", lambda: len(runs(site, job, 1)) == 2, 60, every=0.2)
    time.sleep(10)
    first = min(one[2] for one in written(site, job.address) if one[0] == 1)
    assert max(one[2] for one in written(site, job.address) if one[0] == 0) < first
    assert sick not in runs(site, job, 1) or site.node_of(sick) != node
    assert site.controller.audit()["ok"]


def runs(site: Site, job: Training, restart: int) -> set[str]:
    """The nodes that this run of the job writes from."""
    return {one[1] for one in written(site, job.address) if one[0] == restart}
