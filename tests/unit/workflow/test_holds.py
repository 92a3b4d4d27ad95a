"""A hold is visible, ages, reminds at growing distances, and never becomes an act."""

from __future__ import annotations

from pathlib import Path

import pytest

from remediator.model.plan import Again, Done, Hold, Outcome, StepRow, Unknown, Wait
from remediator.policy.vetoes import NO_REPLACE
from remediator.store import outbox, steps
from remediator.workflow.holds import REMIND_S, oldest, reminder
from remediator.workflow.journal import settled
from tests.fakes.river import River

NOW = 1_800_000_000.0
ROW = StepRow("i1", "evict-pods", "", "node", 9, "waiting", started_at=NOW)


def test_its_age_counts_from_the_first_hold() -> None:
    first = settled(ROW, Hold("vetoed by a"), NOW)
    again = settled(first, Hold("vetoed by b"), NOW + 50)
    assert oldest([ROW, first]) == oldest([again]) == NOW


@pytest.mark.parametrize("outcome", [Done("x"), Wait("x"), Again("x"), Unknown("x")])
def test_a_later_hold_has_an_age_of_its_own(outcome: Outcome) -> None:
    free = settled(settled(ROW, Hold("vetoed"), NOW), outcome, NOW + 10)
    assert oldest([free]) is None
    assert oldest([settled(free, Hold("vetoed"), NOW + 20)]) == NOW + 20


def test_reminders_come_at_an_hour_and_then_at_twice_the_age() -> None:
    row, told = settled(ROW, Hold("vetoed"), NOW), []
    for minute in range(0, 60 * 24, 5):
        after = reminder(row, NOW + 60 * minute)
        if after is not None:
            told.append(minute)
            row = after
    assert told == [60, 120, 240, 480, 960]


def test_a_step_that_is_not_held_reminds_nobody() -> None:
    assert reminder(ROW, NOW + 10 * REMIND_S) is None


def test_a_day_of_a_veto_ends_in_pages_and_no_eviction(tmp_path: Path) -> None:
    river = River(tmp_path)
    river.kube.add_pod("team", "notebook", "gpu-0", labels={NO_REPLACE: "true"})
    river.xid("gpu-0")
    river.run(30.0)
    for _ in range(24):
        river.clock.advance(3600.0)
        river.run(15.0)
    assert river.kube.pod("team", "notebook") is not None
    assert not river.kube.view("gpu-0").unschedulable
    with river.store.read() as connection:
        (incident,) = river.all_incidents()
        pages = [row.message.text for row in outbox.due(connection, river.clock.now(), 1000)]
        assert oldest(steps.of_incident(connection, incident.id)) is not None
    reminded = [text for text in pages if "has been held for" in text]
    assert incident.state == "held"
    assert len(reminded) == 4  # looked at once an hour here
    assert all("pod team/notebook" in text for text in reminded)
