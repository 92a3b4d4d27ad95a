"""One fault on many nodes that share something is one incident, whoever restarts, however long it lasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from remediator.model.incident import COMMON_CAUSE, Incident
from remediator.settings import BreakerSettings, Budgets, GuardSettings, Limit
from remediator.settings.tree import KnownBad
from remediator.store import schema
from remediator.store.commands import Command, ask
from tests.fakes.river import NODES, River

ANY = Limit(at_least=9, per_hour=None)
LEAF = "network.topology.nvidia.com/leaf"
RACK = "topology.kubernetes.io/rack"
BEHIND_ONE = {LEAF: "leaf-2"}
DAY_S = 86_400.0


def leafy(folder: Path, labels: dict[str, str] = BEHIND_ONE, **guard: Any) -> River:
    """Four nodes behind one leaf (or with other labels), a job on each, and no other limit in the way."""
    budgets = Budgets(
        drain_t0=KnownBad(at_least=9), drain=ANY, release=ANY, evict=ANY, replace=ANY,
        breaker=BreakerSettings(at_least=9), guard=GuardSettings(**({"percent": 100} | guard)),
    )  # fmt: skip
    river = River(folder, budgets=budgets, spares=4)
    for name in NODES:
        river.kube.outside(name, "leaf", {"metadata": {"labels": labels}}, "admin")
        river.submit_job(width=1)
    river.slurm.writes.clear()
    return river


@pytest.fixture
def river(tmp_path: Path) -> River:
    return leafy(tmp_path)


def turns(river: River, seconds: float, *, restarts: bool = False) -> None:
    until = river.clock.now() + seconds
    while river.clock.now() < until:
        river.turn()
        if restarts and river.lives < 9:
            river.begin()


def fall_ill(river: River, code: int, *, apart: float = 10.0, restarts: bool = False) -> None:
    """All of them."""
    for name in NODES:
        river.xid(name, code)
        turns(river, apart, restarts=restarts)


def group(river: River) -> Incident:
    (found,) = (one for one in river.all_incidents() if one.plan == COMMON_CAUSE)
    return found


def members(river: River) -> list[Incident]:
    return [one for one in river.all_incidents() if one.plan != COMMON_CAUSE]


def pages(river: River) -> list[str]:
    query = sa.select(schema.outbox.c.text).where(schema.outbox.c.urgency == "page")
    with river.store.read() as connection:
        return list(connection.execute(query).scalars())


def say(river: River, verb: str, argument: str) -> None:
    with river.store.write() as connection:
        ask(connection, Command(f"c{river.clock.now()}", verb, argument, "ann", river.clock.now()))
    river.turn()


@pytest.mark.parametrize("restarts", [False, True])
def test_of_many_behind_one_leaf_none_is_touched_and_people_hear_of_it_once(
    river: River, restarts: bool
) -> None:
    fall_ill(river, 95, restarts=restarts)
    turns(river, 120.0, restarts=restarts)
    assert "on 4 nodes behind leaf leaf-2" in group(river).sentence
    assert [one.state for one in members(river)] == ["held"] * 4
    assert (river.slurm.writes, [river.kube.ours(name) for name in NODES]) == ([], [[]] * 4)
    assert len(pages(river)) == 1
    assert f"remediator release {group(river).id}" in pages(river)[0]


@pytest.mark.parametrize("restarts", [False, True])
def test_known_bad_nodes_are_drained_and_fenced_and_no_time_makes_it_more(
    river: River, restarts: bool
) -> None:
    fall_ill(river, 79, apart=0.0)
    turns(river, 60.0, restarts=restarts)
    for _ in range(3):
        river.clock.advance(DAY_S)
        turns(river, 20.0, restarts=restarts)
    assert {write.op for write in river.slurm.writes} == {"drain"}
    for name in NODES:
        assert river.slurm.count("drain", f"w-{name}") == 1
        assert river.kube.view(name).unschedulable
    assert group(river).state == "held"


def test_what_a_person_releases_goes_on_and_is_not_counted_again(river: River) -> None:
    fall_ill(river, 95)
    turns(river, 60.0)
    say(river, "release", group(river).id)
    river.run(600.0)
    assert group(river).state == "closed"
    assert [one.state for one in members(river)] == ["closed"] * 4
    assert all(river.slurm.count("requeue", str(job)) == 1 for job in range(1, 5))


def test_another_fault_of_a_member_is_not_the_group_s(river: River) -> None:
    fall_ill(river, 95)
    turns(river, 60.0)
    river.xid("gpu-0", 79, seq=2)
    turns(river, 120.0)
    (sick,) = (one for one in members(river) if one.node == "gpu-0")
    assert (sick.rule, sick.state) == ("gpu-off-the-bus", "closed")
    assert {write.target for write in river.slurm.writes if write.op == "drain"} == {"w-gpu-0"}


def test_a_cause_that_has_passed_leaves_what_began_to_people(river: River) -> None:
    """They were rebooted: nothing speaks against them any more, and nobody empties them for what was."""
    fall_ill(river, 79, apart=0.0)
    turns(river, 20.0)
    for name in NODES:
        river.kube.reboot(name, f"again-{name}")
    river.clock.advance(650.0)
    turns(river, 20.0)
    assert group(river).state == "closed"
    assert all(one.held_by == f"common cause {group(river).id}" for one in members(river))
    river.clock.advance(DAY_S)
    turns(river, 20.0)
    assert {write.op for write in river.slurm.writes} == {"drain"}


def test_three_behind_a_leaf_are_three_accidents(tmp_path: Path) -> None:
    river = leafy(tmp_path, at_least=4)
    for name in NODES[:3]:
        river.xid(name, 79)
    river.run(600.0)
    assert [one.state for one in river.all_incidents()] == ["closed"] * 3


def test_a_share_of_the_pool_is_a_cause_too(tmp_path: Path) -> None:
    river = leafy(tmp_path, behind_one=9)
    river.budgets = river.budgets.model_copy(update={"guard": GuardSettings(behind_one=9)})
    river.begin()
    fall_ill(river, 95)
    assert "nodes of pool training" in group(river).sentence
    assert "leaf leaf-2" in group(river).sentence


@pytest.mark.parametrize("labels", [{}, {LEAF: ""}, {"leaf": "leaf-2"}], ids=["none", "empty", "another key"])
def test_nodes_whose_leaf_nobody_names_share_none(labels: dict[str, str], tmp_path: Path) -> None:
    river = leafy(tmp_path, labels)
    fall_ill(river, 79, apart=0.0)
    river.run(900.0)
    assert [one.state for one in river.all_incidents()] == ["closed"] * 4


@pytest.mark.parametrize("labels", [{}, {LEAF: ""}], ids=["none", "empty"])
def test_a_fifth_of_a_pool_counts_without_a_leaf_too(labels: dict[str, str], tmp_path: Path) -> None:
    river = leafy(tmp_path, labels, percent=20)
    fall_ill(river, 95)
    assert group(river).cause.endswith("on 3 nodes of pool training")


def test_a_rack_counts_without_a_leaf_too(tmp_path: Path) -> None:
    river = leafy(tmp_path, {RACK: "r1"})
    fall_ill(river, 95)
    assert group(river).cause.endswith("on 4 nodes in rack r1")


@pytest.mark.parametrize("passed", [False, True], ids=["group stands", "group has passed"])
@pytest.mark.parametrize("code", [79, 119], ids=["final", "suspect"])
def test_a_common_cause_shields_no_machine_from_another_fault(river: River, code: int, passed: bool) -> None:
    """Whatever the other fault is, it goes its whole way, and is as old as itself."""
    fall_ill(river, 95)
    turns(river, 120.0)
    if passed:
        for name in NODES:
            river.kube.reboot(name, f"again-{name}")
    river.clock.advance(DAY_S)
    turns(river, 20.0)
    assert group(river).state == ("closed" if passed else "held")
    assert [one.state for one in members(river)] == [group(river).state] * 4
    began = river.clock.now()
    river.xid("gpu-1", code, seq=2)
    turns(river, 300.0)
    (sick,) = (one for one in members(river) if one.opened_at >= began or one.fault_at >= began)
    assert (sick.node, sick.plan, sick.state, sick.fault_at) == ("gpu-1", "replace", "closed", began)
    assert {write.target for write in river.slurm.writes if write.op == "drain"} == {"w-gpu-1"}
