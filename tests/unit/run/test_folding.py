"""One incident a machine: what folds in may only make it graver, in whatever order it comes."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from remediator.incidents.companions import COMPANIONS_S
from tests.unit.run.deciding import Deciding

CODES = (45, 48, 63, 95)


@pytest.fixture
def here(tmp_path: Path) -> Deciding:
    return Deciding(tmp_path)


@pytest.mark.parametrize("apart", [5.0, 70.0], ids=["together", "one after another"])
def test_the_order_of_arrival_changes_no_outcome(here: Deciding, apart: float) -> None:
    orders = list(permutations(CODES))
    for number, _ in enumerate(orders):
        here.add(f"gpu-{number}")
    for place in range(len(CODES)):
        for number, order in enumerate(orders):
            here.signal(f"gpu-{number}", order[place])
        here.turn()
        here.clock.advance(apart)
    for _ in range(3):
        here.clock.advance(COMPANIONS_S)
        here.turn()
    found = {(one.node, one.tier, one.plan) for one in here.incidents()}
    assert found == {(f"gpu-{number}", "T1", "replace") for number, _ in enumerate(orders)}
    assert all(sentence for sentence, _ in here.verdicts())


def test_a_lesser_fault_asks_the_store_for_nothing_and_changes_nothing(here: Deciding) -> None:
    here.signal("gpu-0", 79)
    here.turn()
    before = here.incidents()
    here.signal("gpu-0", 95)
    (sentence,) = here.turn().sentences
    assert sentence == f"xid 95 on gpu-0 folds into incident {before[0].id}"
    assert here.incidents() == before


def test_evidence_of_a_tier_that_is_only_observed_folds_in_and_waits_for_nobody(here: Deciding) -> None:
    here.add("gpu-0", stage={"T1": "observe", "T0": "full"})
    here.signal("gpu-0", 48)
    here.turn()
    here.clock.advance(COMPANIONS_S)
    here.turn()
    assert [one.state for one in here.incidents()] == ["held"]
    here.signal("gpu-0", 95)
    here.clock.advance(COMPANIONS_S)
    (sentence,) = here.turn().sentences
    assert "only observes T1" in sentence
    here.signal("gpu-0", 79)
    here.turn()
    (incident,) = here.incidents()
    assert (incident.tier, incident.plan, incident.state) == ("T0", "replace", "open")
    assert here.steps(incident.id)


def test_what_waits_wakes_the_core_when_it_is_due(here: Deciding) -> None:
    here.signal("gpu-0", 95)
    turn = here.turn()
    assert (turn.waiting, turn.sentences) == (1, ())
    here.clock.advance(COMPANIONS_S - 1.0)
    assert here.turn().wake_at == here.clock.now() + 1.0
    here.core = here.life(1)
    here.clock.advance(1.0)
    turn = here.turn()
    assert (turn.waiting, len(here.incidents())) == (0, 1)


def test_an_alert_from_before_a_machine_bore_its_name_is_recorded(here: Deciding) -> None:
    here.add("gpu-0", created=here.clock.now() + 240.0)
    here.signal("gpu-0", 79, boot="")
    here.clock.advance(300.0)
    (sentence,) = here.turn().sentences
    assert "began before this machine bore that name" in sentence
    assert here.incidents() == []
    here.signal("gpu-0", 79, boot="")
    here.turn()
    assert len(here.incidents()) == 1
