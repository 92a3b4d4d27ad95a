"""Faults that come together are decided together; what waits is a row, and folding only escalates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remediator.audit import chain
from remediator.incidents.companions import COMPANIONS_S
from remediator.model.incident import Incident
from remediator.policy import rules
from remediator.store import signals
from tests.fakes.river import NODES, River


@pytest.fixture
def river(tmp_path: Path) -> River:
    return River(tmp_path, spares=2)


def waiting(river: River) -> int:
    with river.store.read() as connection:
        return signals.waiting(connection)[0]


def turns(river: River, seconds: float) -> None:
    until = river.clock.now() + seconds
    while river.clock.now() < until:
        river.turn()


def decided(river: River) -> list[Incident]:
    """Oldest first."""
    return list(reversed(river.all_incidents()))


@pytest.mark.parametrize("first", [48, 95])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_root_is_decided_and_names_what_came_with_it(river: River, first: int, restarts: bool) -> None:
    for seq, code in enumerate((first, 48 + 95 - first)):
        river.xid("gpu-0", code, seq=seq)
        turns(river, 20.0)
    assert (river.all_incidents(), waiting(river), river.slurm.writes) == ([], 2, [])
    if restarts:
        river.begin()
    turns(river, COMPANIONS_S)
    (incident,) = decided(river)
    assert (incident.rule, incident.plan) == ("memory-uncontained", "replace")
    assert "xid 48 came with it" in incident.sentence
    with river.store.read() as connection:
        (decision,) = (one for one in chain.read(connection) if one["action"] == "decision")
    assert len(decision["detail"]["followed_by"]) == 1
    assert waiting(river) == 0


def test_final_evidence_waits_for_nothing(river: River) -> None:
    river.xid("gpu-0", 48, seq=1)
    river.turn()
    river.xid("gpu-0", 64, seq=2)
    river.turn()
    (incident,) = decided(river)
    assert (incident.rule, incident.tier) == ("row-remap-failed", "T0")
    assert "xid 48 came with it" in incident.sentence


def test_an_error_contained_in_its_program_takes_no_node(river: River) -> None:
    river.xid("gpu-0", 48, seq=1)
    river.xid("gpu-0", 94, seq=2)
    turns(river, COMPANIONS_S + 10)
    assert (river.all_incidents(), waiting(river), river.slurm.writes) == ([], 0, [])


@pytest.mark.parametrize("root", [63, 94, 95, 140, 171, 172])
def test_an_uncorrectable_error_goes_into_no_record_with_a_root_that_a_site_only_records(
    root: int, tmp_path: Path
) -> None:
    overlay = tmp_path / "site.yaml"
    beside = sorted(name for name, _ in rules.load().about("xid", root))
    words = {"cause": "seen", "why": "no matter here", "source": "site", "over": beside}
    quiet = {"kinds": ["xid"], "codes": [root], "tier": "T1", "plan": "record", **words}
    overlay.write_text(json.dumps({"version": 1, "rules": {"quiet": quiet}}))
    river = River(tmp_path, spares=2, policy=rules.load(overlay=overlay))
    river.xid("gpu-0", 48, seq=1)
    river.xid("gpu-0", root, seq=2)
    turns(river, COMPANIONS_S + 10)
    assert (decided(river)[0].rule, decided(river)[0].plan) == ("double-bit-error", "validate")


def test_a_crash_that_leaves_45_on_every_node_and_one_lost_gpu_takes_one_node(river: River) -> None:
    river.xid("gpu-1", 79, seq=0)
    for seq in range(1, 6):
        for node in NODES:
            river.xid(node, 45, seq=seq)
        river.turn()
    turns(river, COMPANIONS_S + 10)
    assert [incident.node for incident in decided(river)] == ["gpu-1"]


MOMENTS = [f"{step}:{moment}" for step in ("drain-slurm", "fence-node") for moment in ("intent", "accepted")]


@pytest.mark.parametrize("moment", ["", *MOMENTS])
def test_a_graver_fault_raises_the_plan_at_any_moment_and_a_lesser_one_never_lowers_it(
    river: River, moment: str
) -> None:
    river.submit_job(width=1)
    river.xid("gpu-0", 48, seq=1)
    river.crash_at(moment)
    for _ in range(80):
        river.run_through_crashes(1.0)
    (tested,) = decided(river)
    assert (tested.tier, tested.plan) == ("T1", "validate")
    river.xid("gpu-0", 79, seq=2)
    river.xid("gpu-0", 63, seq=3)
    river.run_through_crashes(5.0)
    (raised,) = decided(river)
    assert (raised.tier, raised.plan, raised.rule) == ("T0", "replace", "gpu-off-the-bus")
    river.xid("gpu-0", 48, seq=4)
    river.run_through_crashes(400.0)
    (ended,) = decided(river)
    assert (ended.tier, ended.plan, ended.state) == ("T0", "replace", "closed")
    assert river.slurm.count("drain", "w-gpu-0") == 1
    assert river.slurm.count("requeue", "1") == 1
