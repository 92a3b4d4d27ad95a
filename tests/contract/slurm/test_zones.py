"""Times from a slurmctld in another zone than ours are seconds since the epoch: field case O29."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from slurm_bridge.rest.backend import RestSlurm
from tests.contract.slurm.worlds import DEADLINE, RealWorld, Spec, node, queued, running
from tests.servers.slurm import SlurmServer

pytestmark = pytest.mark.slurm

ZURICH = "CET-1CEST,M3.5.0,M10.5.0/3"
KOLKATA = "IST-5:30"
NEAR_S = 2.0
"""Slurm counts whole seconds."""


@pytest.fixture
def abroad(rest_backend: RestSlurm, slurm_server: SlurmServer) -> Iterator[RealWorld]:
    """slurmctld lives in Zurich, we in Kolkata."""
    ours = os.environ.get("TZ")
    set_zones(slurm_server, ZURICH, KOLKATA)
    world = RealWorld(rest_backend, slurm_server)
    try:
        yield world
    finally:
        world.close()
        set_zones(slurm_server, "", ours)


def set_zones(server: SlurmServer, theirs: str, ours: str | None) -> None:
    """A new slurmctld in its zone, and this process in its own (None: the machine's)."""
    if ours is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = ours
    time.tzset()
    server.zone = theirs
    server.restart_ctld()


def test_no_time_of_slurms_depends_on_anybodys_zone(abroad: RealWorld) -> None:
    started_at = abroad.port.config(deadline=DEADLINE).started_at
    before = running(abroad, abroad.submit(Spec()))
    abroad.port.drain("gpu-0", "remediator: inc-1 XID 79", deadline=DEADLINE)
    drained_at = node(abroad, "gpu-0").reason_at
    abroad.port.requeue(before, deadline=DEADLINE)
    after = queued(abroad, before.job_id)
    now = time.time()
    times = (started_at, before.submit_time, before.start_time, drained_at, after.submit_time)
    assert list(times) == [pytest.approx(now, abs=60) for _ in times]
    assert drained_at == pytest.approx(now, abs=10)
    assert after.begin_time is not None
    assert 0 < after.begin_time - after.submit_time - 121 + NEAR_S < 2 * NEAR_S
    assert offset_of_the_log(abroad.server) in {3600, 7200}


def offset_of_the_log(server: SlurmServer) -> int:
    """How far slurmctld's own clock on the wall is ahead of UTC, in whole minutes of seconds."""
    last = re.findall(r"^\[(\S+)\]", server.ctld_log.read_text(), re.MULTILINE)[-1]
    ahead = datetime.fromisoformat(last).replace(tzinfo=UTC).timestamp() - time.time()
    return round(ahead / 60) * 60
