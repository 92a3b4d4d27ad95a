"""O05: a crashed job's teardown logs XID 45 on all its machines; at the size that was reported."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remediator.run.replay import play
from remediator.run.trace import JobRow, LineRow, NodeRow, Row
from tests.evidence.generate import START
from tests.evidence.mix import LEFT, OFF_THE_BUS
from tests.evidence.world import World
from tests.unit.run.deciding import Deciding

NAMES = [f"gpu-{number:02}" for number in range(77)]
CRASH = START + 600.0


def torn_down(*extra: Row) -> list[Row]:
    """One job over 77 machines fails, one to six lines on each within a minute."""
    rows: list[Row] = [NodeRow(at=START, type="node", node=name, pool="training") for name in NAMES]
    rows.append(JobRow(at=START + 1, type="job", id=880, nodes=tuple(NAMES)))
    for number, name in enumerate(NAMES):
        for line in range(number % 6 + 1):
            rows.append(LineRow(at=CRASH + number * 0.7 + line, type="line", node=name, line=LEFT))
    rows.append(JobRow(at=CRASH, type="job", id=880, state="FAILED", code=1))
    return sorted([*rows, *extra], key=lambda row: row.at)


def after(tmp_path: Path, *extra: Row) -> World:
    world = World(tmp_path, torn_down(*extra), spares=3)
    play(torn_down(*extra), world, 900.0)
    return world


def test_a_torn_down_job_of_77_machines_touches_none_of_them(tmp_path: Path) -> None:
    world = after(tmp_path)
    (finding,) = world.all_incidents()
    assert (finding.plan, finding.state) == ("restart-job", "closed")
    assert "without evidence against a node" in finding.sentence
    assert world.kube.writes == []
    assert {write.op for write in world.slurm.writes} <= {"requeue", "start_now"}
    assert (world.job(1).state, world.job(1).restart_count) == ("RUNNING", 1)


def test_the_one_machine_with_a_fault_of_its_own_is_treated_and_76_are_not(tmp_path: Path) -> None:
    """Variant b: gpu-07 says XID 79 two seconds before."""
    fault = LineRow(at=CRASH - 2, type="line", node="gpu-07", line=OFF_THE_BUS)
    world = after(tmp_path, fault)
    touched = [one.node for one in world.all_incidents() if one.plan != "restart-job"]
    assert touched == ["gpu-07"]
    assert {write.target for write in world.slurm.writes if write.op == "drain"} == {"w-gpu-07"}
    schedulable = [name for name in NAMES if not world.kube.view(name).unschedulable]
    assert len(schedulable) == 76


@pytest.mark.parametrize("codes", [*combinations((13, 31, 43), 1), *combinations((13, 31, 43), 2)], ids=str)
def test_a_programs_codes_replace_nothing(tmp_path: Path, codes: tuple[int, ...]) -> None:
    """Variant c, alone and together on one machine."""
    here = Deciding(tmp_path)
    for code in codes:
        here.signal("gpu-0", code)
    here.turn()
    here.clock.advance(700.0)
    here.turn()
    assert here.incidents() == []


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from([43, 45]), st.floats(0.0, 86_400.0)), min_size=5, max_size=12))
def test_follow_on_codes_never_add_up(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[int, float]]
) -> None:
    """Five times XID 45 in a day on one GPU, and any other number of them, at any distance."""
    here = Deciding(tmp_path_factory.mktemp("follow-on"))
    began = here.clock.now()
    for code, at in sorted(events, key=lambda event: event[1]):
        here.clock.advance(max(began + at - here.clock.now(), 0.0))
        here.signal("gpu-0", code)
        here.turn()
    here.clock.advance(700.0)
    here.turn()
    assert here.incidents() == []
