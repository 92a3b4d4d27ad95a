"""A Slurm with the values that Slinky renders forgets an ended job within a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from remediator.errors import BadInput
from tests.contract.slurm.conftest import rest_of
from tests.contract.slurm.worlds import DEADLINE, RealWorld, Spec, job
from tests.servers.slurm import SlurmServer, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def slinky(slinky_server: SlurmServer) -> Iterator[RealWorld]:
    world = RealWorld(rest_of(slinky_server), slinky_server)
    yield world
    world.close()


def test_a_job_that_is_forgotten_is_none_and_cannot_be_requeued(slinky: RealWorld) -> None:
    job_id = slinky.submit(Spec(fails=True))
    slinky.until("the failure", lambda: job(slinky, job_id).is_over)
    before = job(slinky, job_id)
    wait_for("its end in slurmctld", lambda: slinky.port.job(job_id, deadline=DEADLINE) is None, 120)
    with pytest.raises(BadInput, match="no such job"):
        slinky.port.requeue(before, deadline=DEADLINE)
