"""What a pool only observes stands in nobody's way: no suspicion's, final fault's, budget's or breaker's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remediator.incidents.companions import COMPANIONS_S
from remediator.settings import BreakerSettings, Budgets, GuardSettings, Limit
from remediator.settings.tree import KnownBad
from remediator.store import breakers
from tests.crash.test_suspects import crashes, settle, watched
from tests.fakes.river import NODES, River

OBSERVED = 95
"""An XID of T1."""

STAGES = {"T0": "full", "T1": "observe", "T2": "full", "T3": "full"}
ONE = Limit(at_least=1, percent=0, per_hour=None)
TIGHT = Budgets(
    drain_t0=KnownBad(at_least=2, percent=0), drain=ONE, release=ONE, evict=ONE, replace=ONE,
    breaker=BreakerSettings(at_least=2, percent=0), guard=GuardSettings(at_least=9, percent=100),
)  # fmt: skip


def observing(folder: Path, *nodes: str, **changes: Any) -> River:
    """The pool only observes T1, and these nodes show it."""
    river = watched(River(folder, **changes), stage=STAGES)
    for node in nodes:
        river.xid(node, OBSERVED)
    settle(river, COMPANIONS_S + 30.0)
    assert {(one.node, one.state, one.observed) for one in river.all_incidents()} == {
        (node, "held", True) for node in nodes
    }
    return river


def test_crashes_make_an_observed_machine_suspect_all_the_same(tmp_path: Path) -> None:
    river = observing(tmp_path, "gpu-0")
    crashes(river, "one")
    crashes(river, "two")
    settle(river)
    assert [(one.plan, one.state) for one in river.all_incidents()] == [
        ("give-back", "closed"),
        ("validate", "closed"),
    ]
    assert river.slurm.count("drain", "w-gpu-0") == river.slurm.count("resume", "w-gpu-0") == 1


def test_a_final_fault_of_an_observed_machine_is_a_new_one(tmp_path: Path) -> None:
    river = observing(tmp_path, "gpu-0")
    job = river.submit_job(width=1)
    river.clock.advance(3600.0)
    river.xid("gpu-0", 79, seq=2)
    began = river.clock.now()
    settle(river, 200.0)
    (incident,) = river.all_incidents()
    assert (incident.plan, incident.state, incident.tier) == ("replace", "closed", "T0")
    assert incident.fault_at == pytest.approx(began, abs=5.0)
    assert (river.job(job).state, river.job(job).restart_count) == ("RUNNING", 1)


@pytest.mark.parametrize("ahead", [0, 3])
def test_observed_machines_take_no_place_and_open_no_breaker(tmp_path: Path, ahead: int) -> None:
    river = observing(tmp_path, *NODES[:ahead], budgets=TIGHT)
    river.xid("gpu-3", 79, seq=9)
    settle(river, 200.0)
    with river.store.read() as connection:
        row = breakers.get(connection, "training")
    assert row is None or row.state == "closed"
    assert [one.state for one in river.all_incidents() if one.node == "gpu-3"] == ["closed"]
    assert river.admitted() == ["spare-0"]


def test_observed_machines_that_die_after_all_count_for_the_breaker(tmp_path: Path) -> None:
    river = observing(tmp_path, *NODES[:3], budgets=TIGHT)
    river.clock.advance(3600.0)
    for node in NODES[:3]:
        river.xid(node, 79, seq=9)
    settle(river, 30.0)
    with river.store.read() as connection:
        row = breakers.get(connection, "training")
    assert row is not None
    assert row.state == "open"
