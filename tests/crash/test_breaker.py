"""Too many nodes sick at once: they are drained, nothing else is touched, and one goes first afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.audit import chain
from remediator.settings import BreakerSettings, Budgets, GuardSettings, Limit
from remediator.settings.tree import KnownBad
from remediator.store import breakers, schema
from remediator.store.commands import Command, ask
from remediator.workflow.ledger import GUARDED
from remediator.workflow.steps import STEPS
from tests.fakes.river import River

MANY = Limit(at_least=4, per_hour=None)
ONE = Limit(percent=0, per_hour=None)
BUDGETS = Budgets(
    drain_t0=KnownBad(at_least=4), release=MANY, evict=MANY, replace=ONE,
    breaker=BreakerSettings(at_least=2, percent=0), guard=GuardSettings(at_least=9),
)  # fmt: skip
SICK = ("gpu-0", "gpu-1", "gpu-2")


@pytest.fixture
def storm(tmp_path: Path) -> River:
    """Three of four nodes fall ill at once, one job on each; more than two open the breaker."""
    river = River(tmp_path, budgets=BUDGETS, spares=3)
    for _ in SICK:
        river.submit_job(width=1)
    river.slurm.writes.clear()
    for node in SICK:
        river.xid(node)
    return river


def stands(river: River) -> str:
    with river.store.read() as connection:
        row = breakers.get(connection, "training")
    return row.state if row else "closed"


def pages(river: River) -> list[str]:
    query = sa.select(schema.outbox.c.text).where(schema.outbox.c.urgency == "page")
    with river.store.read() as connection:
        return [text for text in connection.execute(query).scalars() if text.startswith("breaker")]


def moves(river: River) -> list[str]:
    with river.store.read() as connection:
        actions = [record["action"] for record in chain.read(connection)]
    return [action for action in actions if action.startswith("breaker-")]


def test_an_open_breaker_drains_and_fences_and_touches_no_job(storm: River) -> None:
    storm.run(60.0)
    assert stands(storm) == "open"
    assert {write.op for write in storm.slurm.writes} == {"drain"}
    for node in SICK:
        assert storm.slurm.count("drain", f"w-{node}") == 1
        assert storm.kube.view(node).unschedulable
    assert [incident.state for incident in storm.all_incidents()] == ["held"] * 3
    assert len(pages(storm)) == 1
    assert "3 nodes newly sick within 10 min, more than 2; one node is tried from 20" in pages(storm)[0]


@pytest.mark.parametrize("restarts", [False, True])
def test_when_it_is_quiet_one_goes_first_and_then_the_others(storm: River, restarts: bool) -> None:
    storm.run(30.0)
    storm.clock.advance(600.0)
    if restarts:
        storm.begin()
    released = 0
    for _ in range(600):
        storm.turn()
        if restarts and stands(storm) == "half-open" and storm.lives < 3:
            storm.begin()
        now = sum(write.op == "requeue" for write in storm.slurm.writes)
        if stands(storm) == "half-open":
            released = max(released, now)
    assert released == 1
    assert moves(storm) == ["breaker-open", "breaker-half-open", "breaker-closed"]
    assert [incident.state for incident in storm.all_incidents()] == ["closed"] * 3
    assert storm.slurm.count("requeue", "1") == storm.slurm.count("requeue", "2") == 1
    assert len(pages(storm)) == 1


def test_it_opens_again_when_more_fall_ill_while_the_canary_is_under_way(storm: River) -> None:
    storm.run(30.0)
    storm.clock.advance(600.0)
    while stands(storm) != "half-open":
        storm.turn()
    with storm.store.write() as connection:  # two more, of which the watches of this world know nothing
        for number in (1, 2):
            other = {"id": f"x{number}", "key": f"x{number}", "slurm_nodes": [], "state": "closed"}
            row = storm.open_incidents()[0].model_dump() | other | {"opened_at": storm.clock.now()}
            connection.execute(sa.insert(schema.incident).values(row))
    storm.xid("gpu-3")
    storm.run(20.0)
    assert moves(storm) == ["breaker-open", "breaker-half-open", "breaker-open"]
    assert storm.slurm.count("drain", "w-gpu-3") == 1
    assert len(pages(storm)) == 2


def test_a_quiet_cluster_has_no_breaker(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=BUDGETS, spares=2)
    for node in SICK[:2]:
        river.xid(node)
    river.run(120.0)
    assert (stands(river), moves(river)) == ("closed", [])
    assert [incident.state for incident in river.all_incidents()] == ["closed", "closed"]


def test_an_open_breaker_never_blocks_giving_back(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=BUDGETS, stage="drain-only")
    river.xid("gpu-0")
    river.run(30.0)
    river.kube.reboot("gpu-0", "boot-mended")
    river.clock.advance(1000.0)
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        river.xid(node)
    river.run(30.0)
    assert stands(river) == "open"
    with river.store.write() as connection:
        ask(connection, Command("c1", "return", "gpu-0", "ann", river.clock.now()))
    river.run(120.0)
    assert not river.kube.view("gpu-0").unschedulable
    assert river.slurm.count("resume", "w-gpu-0") == 1


def test_only_what_interrupts_or_removes_waits_for_budgets_and_breaker() -> None:
    """Giving back, freeing a place, starting jobs and looking never do."""
    assert set(GUARDED) <= set(STEPS)
    assert set(GUARDED) == {"hold-place", "release-jobs", "claim-spare", "force-down", "evict-pods"}
