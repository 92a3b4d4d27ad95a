"""The way to the API server is gone for all nodes at once: everything stands still, and then goes on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from deploy.lab.api import Lab
from deploy.lab.spec import NODES
from tests.e2e.helpers import HOME, Servers, Site, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(900)]
FROZEN = "nothing is written until that has been over"


@contextlib.contextmanager
def unreachable(site: Site) -> Iterator[None]:
    """No GPU node reaches the API server; jobs, agents and slurmds are well."""
    nodes = [spec.name for spec in NODES if spec.name != HOME]
    for name in nodes:
        site.lab.inject.api_partition(name, True)
    try:
        wait_for("the freeze", lambda: site.controller.metric("remediator_frozen"), 180, every=0.5)
        yield
    finally:
        for name in nodes:
            site.lab.inject.api_partition(name, False)


def test_while_all_kubelets_are_lost_nothing_is_written_for_open_incidents_either(lab: Lab) -> None:
    with in_order(lab) as site:
        stays, moves = site.train("--no-requeue"), site.train()
        site.trains(stays, moves)
        old, new = site.node_of(stays.workers()[0]), site.node_of(moves.workers()[0])
        lab.inject.xid(old, 79)
        wait_for("the first incident's hold", lambda: is_held(site, old), 150, every=0.5)
        with unreachable(site):
            time.sleep(5)  # what had left before
            servers = Servers(lab)
            lab.slurm("scancel", stays.address)
            lab.inject.xid(new, 79)
            wait_for("the second incident", lambda: site.controller.incidents(new), 150, every=1.0)
            time.sleep(15)
            assert servers.changes() == []
            assert moves.is_untouched()
            story = site.controller.story(site.controller.incidents(new)[0]["id"])
            assert any(FROZEN in step["sentence"] for step in story["steps"])
            assert "nothing is written" in site.controller.log()
        site.closes(old, 180)
        site.moves(moves)
        site.closes(new)
        assert site.controller.metric("remediator_frozen") == 0


def is_held(site: Site, node: str) -> bool:
    """Whether the node's incident waits for its job."""
    return [one["state"] for one in site.controller.incidents(node)] == ["held"]
