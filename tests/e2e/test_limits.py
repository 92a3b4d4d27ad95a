"""What keeps the service from going too far: a dry run, and a budget that is used up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.lab.api import Lab
from tests.e2e.helpers import Servers, Site, in_order, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
DEPLOYMENT = "deployment/remediator"


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with in_order(lab) as found:
        yield found


@contextmanager
def setting(site: Site, variable: str, value: str) -> Iterator[None]:
    """The controller runs with one more variable meanwhile."""
    site.controller.change("set", "env", DEPLOYMENT, f"{variable}={value}")
    try:
        yield
    finally:
        site.controller.change("set", "env", DEPLOYMENT, f"{variable}-")


def test_a_dry_run_tells_the_whole_story_and_writes_nothing(site: Site) -> None:
    victim = site.train()
    site.trains(victim)
    sick = victim.workers()[0]
    node = site.node_of(sick)
    with setting(site, "REMEDIATOR_DRY_RUN", "true"):
        servers = Servers(site.lab)
        site.lab.inject.xid(node, 79)
        found = site.closes(node)
        assert found["dry_run"]
        said = {row["name"]: row["sentence"] for row in site.controller.story(found["id"])["steps"]}
        assert said["drain-slurm"].startswith(f"would set DRAIN on {sick}")
        assert said["release-jobs"].startswith(f"would requeue job {victim.address}")
        assert set(servers.counts(sick, node, victim.address).values()) == {0}
        assert victim.is_running(0)
        assert site.controller.metric("remediator_dry_run") == 1
        assert f"{node}  closed, dry run" in site.controller.run("incidents", "show", found["id"])
    assert site.controller.metric("remediator_dry_run") == 0
    assert site.controller.audit()["ok"]


def test_a_budget_that_is_used_up_holds_the_release_and_never_the_drain(site: Site) -> None:
    site.controller.forget()  # what earlier tests have released counts for an hour
    servers = Servers(site.lab)
    first, second = site.train("-N1"), site.train("-N1")
    site.trains(first, second)
    sick = [job.workers()[0] for job in (first, second)]
    nodes = [site.node_of(worker) for worker in sick]
    with setting(site, "REMEDIATOR_BUDGETS__RELEASE__PER_HOUR", "1"):
        site.lab.inject.xid(nodes[0], 79)
        site.moves(first)
        site.closes(nodes[0])
        site.lab.inject.xid(nodes[1], 79)

        def held() -> bool:
            found = site.controller.incidents(nodes[1])
            return bool(found) and found[0]["state"] == "held"

        wait_for("the second incident to be held", held, 120, every=0.5)
        said = site.controller.run("incidents", "show", site.controller.incidents(nodes[1])[0]["id"])
        assert "budget release of pool training is used up: 1 an hour" in " ".join(said.split())
        assert servers.drains(sick[1]) == 1
        assert second.is_running(0)
    site.moves(second)
    site.closes(nodes[1])
    assert servers.requeues(second.address) == servers.drains(sick[1]) == 1
    assert site.controller.audit()["ok"]
