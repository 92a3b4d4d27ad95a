"""An adapter that falls off the bus: the agent misses it in sysfs, no line of the kernel log says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from tests.e2e.helpers import ONE_OF_EACH, Servers, Site, in_order

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


def test_an_adapter_that_is_gone_moves_its_job_once(site: Site) -> None:
    servers = Servers(site.lab)
    job = site.train("-N1")
    site.trains(job)
    (sick,) = job.workers()
    node = site.node_of(sick)
    site.lab.inject.hca_gone(node, "mlx5_3")
    try:
        site.moves(job)
        incident = site.closes(node)
    finally:
        site.lab.inject.hca_back(node, "mlx5_3")
    assert (incident["rule"], incident["tier"]) == ("hca-gone", "T0")
    assert servers.counts(sick, node, job.address) == ONE_OF_EACH
    assert site.controller.audit()["ok"]
