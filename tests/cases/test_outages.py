"""O07: one cause that looks like many sick nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.model.incident import COMMON_CAUSE
from remediator.run.replay import play
from remediator.run.trace import HostRow, JobRow, LineRow, NodeRow, Row, SignalRow
from remediator.settings import BreakerSettings, Budgets, Limit, Pool
from remediator.settings.tree import KnownBad
from remediator.store import breakers, schema
from tests.evidence.generate import START
from tests.evidence.mix import OFF_THE_BUS
from tests.evidence.world import World

NAMES = [f"gpu-{number:02}" for number in range(32)]
NODES: list[Row] = [NodeRow(at=START, type="node", node=name, pool="training") for name in NAMES]
TWO = Limit(at_least=2, percent=0, per_hour=None)
TWO_AT_ONCE = Budgets(
    drain_t0=KnownBad(at_least=2, percent=0), drain=TWO, release=TWO, evict=TWO, replace=TWO,
    breaker=BreakerSettings(at_least=3, percent=0),
)  # fmt: skip


def ours(world: World) -> int:
    return len(world.slurm.writes) + sum(write.actor == "remediator" for write in world.kube.writes)


@pytest.mark.parametrize("apart", [0.0, 2.5])
@pytest.mark.parametrize("shared", [True, False], ids=["jobs behind both leaves", "a job a node"])
def test_a_leaf_with_16_of_32_nodes_is_one_group_and_no_job_hears_of_it(
    tmp_path: Path, apart: float, shared: bool
) -> None:
    """At once or within 40 s: those that were seen first do not go ahead before the others are."""
    nodes: list[Row] = [
        NodeRow(at=START, type="node", node=name, pool="training", leaf=f"leaf-{2 if number < 16 else 1}")
        for number, name in enumerate(NAMES)
    ]
    pairs = zip(NAMES[:16], NAMES[16:], strict=True) if shared else ((name,) for name in NAMES)
    jobs: list[Row] = [
        JobRow(at=START + 1, type="job", id=number + 1, nodes=tuple(names))
        for number, names in enumerate(pairs)
    ]
    downs: list[Row] = [ib_port_down(START + 60 + apart * n, name) for n, name in enumerate(NAMES[:16])]
    world = World(tmp_path, nodes, spares=4)
    world.pools = {"training": Pool(node_selector={"pool": "training"}, stage="full", timing="now")}
    world.begin()
    play([*nodes, *jobs, *downs], world, 600.0)
    (group,) = (one for one in world.all_incidents() if one.plan == COMMON_CAUSE)
    assert "behind leaf leaf-2" in group.cause
    members = [one for one in world.all_incidents() if one.plan != COMMON_CAUSE]
    assert [one.state for one in members] == ["held"] * 16
    assert ours(world) == 0
    with world.store.read() as connection:
        told = list(connection.execute(sa.select(schema.outbox.c.text)).scalars())
    assert len(told) == 1
    assert "leaf-2" in told[0]


def ib_port_down(at: float, name: str) -> SignalRow:
    seen = {"device": "mlx5_0", "port": "1", "what": "down"}
    return SignalRow(at=at, type="signal", node=name, kind="ib-port-down", detail={"extra": seen})


def test_32_silent_kubelets_under_32_answering_slurmds_freeze_everything(tmp_path: Path) -> None:
    """The API's balancer is gone for ten minutes; a GPU dies meanwhile, and is treated once it is over."""
    lost, back = START + 60, START + 660
    rows = [
        *NODES,
        *(HostRow(at=lost + n, type="host", node=name, silent=("kubelet",)) for n, name in enumerate(NAMES)),
        LineRow(at=START + 120, type="line", node="gpu-03", line=OFF_THE_BUS),
        *(HostRow(at=back, type="host", node=name) for name in NAMES),
    ]
    world = World(tmp_path, rows, spares=2)
    play(rows, world, 5.0)
    assert ours(world) == 0
    assert [one.node for one in world.open_incidents()] == ["gpu-03"]
    world.until(back + 900)
    assert {write.target for write in world.slurm.writes if write.op == "drain"} == {"w-gpu-03"}
    assert [one.state for one in world.all_incidents()] == ["closed"]


def test_sixteen_at_once_are_never_more_than_two_under_treatment(tmp_path: Path) -> None:
    """The breaker opens before the fourth is replaced, and what it holds keeps its place in the budget."""
    rows = [
        *NODES,
        *(
            LineRow(at=START + 60 + 2.5 * n, type="line", node=name, line=OFF_THE_BUS)
            for n, name in enumerate(NAMES[:16])
        ),
    ]
    world = World(tmp_path, rows, spares=4, budgets=TWO_AT_ONCE)
    most = 0
    for number, row in enumerate(rows):
        world.until(row.at)
        world.take(row, number)
        most = max(most, len(drained(world)) - closed(world))
    world.until(START + 120)
    assert max(most, len(drained(world)) - closed(world)) == 2
    with world.store.read() as connection:
        breaker = breakers.get(connection, "training")
    assert breaker is not None
    assert breaker.state == "open"
    assert closed(world) <= 3


def drained(world: World) -> set[str]:
    return {write.target for write in world.slurm.writes if write.op == "drain"}


def closed(world: World) -> int:
    return sum(one.state == "closed" for one in world.all_incidents())
