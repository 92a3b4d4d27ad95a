"""kill -9 of the controller at the two moments that matter most; `make crash` has all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from tests.e2e.helpers import ONE_OF_EACH, Servers, Site, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

KILLED = 137
MOMENTS = ["drain-slurm:intent", "release-jobs:accepted"]


@pytest.fixture(scope="module")
def disarmed(lab: Lab) -> Iterator[None]:
    """The controller is as it was once all cases are through."""
    yield
    Site(lab).controller.arm(None)


@pytest.fixture
def site(lab: Lab, disarmed: None) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_controller_repeats_nothing_and_finishes(site: Site, moment: str) -> None:
    job = site.train()
    site.controller.arm(moment)
    site.trains(job)
    servers = Servers(site.lab)
    sick = job.workers()[-1]
    node = site.node_of(sick)
    site.lab.inject.xid(node, 79)

    wait_for(f"death at {moment}", lambda: site.controller.container()["restartCount"] == 1, 120, every=0.2)
    site.moves(job)
    site.closes(node)
    assert len(site.controller.incidents(node)) == 1
    container = site.controller.container()
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == KILLED

    assert servers.counts(sick, node, job.address) == ONE_OF_EACH
    assert job.is_running(1)
    assert sick not in job.workers()
    assert job.terms() == {"0": 1, "1": 1}
    assert site.controller.audit()["ok"]
