"""O07: one cause that looks like many sick nodes."""

from __future__ import annotations

from pathlib import Path

from remediator.run.replay import play
from remediator.run.trace import HostRow, LineRow, NodeRow, Row
from remediator.settings import BreakerSettings, Budgets, Limit
from remediator.settings.tree import KnownBad
from remediator.store import breakers
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
