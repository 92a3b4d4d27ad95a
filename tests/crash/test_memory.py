"""What a machine went through is remembered by its key, across restarts, and changes what is done next."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.model.incident import GIVE_BACK, Incident, Tier
from remediator.settings import BreakerSettings, Budgets, GuardSettings, Limit
from remediator.settings.tree import KnownBad
from remediator.store import incidents, schema, steps
from remediator.workflow.plans import main_rows
from tests.fakes.river import River

ANY = Limit(at_least=9, per_hour=None)
BUDGETS = Budgets(
    drain_t0=KnownBad(at_least=9), drain=ANY, release=ANY, evict=ANY, replace=ANY,
    breaker=BreakerSettings(at_least=9), guard=GuardSettings(at_least=9, behind_one=9),
)  # fmt: skip
HOUR_S = 3600.0
SICK = "gpu-0"


@pytest.fixture
def river(tmp_path: Path) -> River:
    """Watching for an hour already."""
    river = River(tmp_path, budgets=BUDGETS, spares=2)
    river.turn()
    river.clock.advance(HOUR_S)
    return river


def turns(river: River, seconds: float) -> None:
    until = river.clock.now() + seconds
    while river.clock.now() < until:
        river.turn()


def acts(river: River) -> list[tuple[str, str]]:
    """Plans and states, oldest first, without returns."""
    return [(one.plan, one.state) for one in reversed(river.all_incidents()) if one.plan != GIVE_BACK]


def verdicts(river: River) -> list[str]:
    with river.store.read() as connection:
        return list(
            connection.execute(sa.select(schema.signal.c.verdict).order_by(schema.signal.c.id)).scalars()
        )


def remember(river: River, *, times: int, ago_s: float, rule: str = "other", tier: Tier = "T1") -> None:
    """Incidents of gpu-0 that were carried out and closed so long ago."""
    view = river.kube.view(SICK)
    with river.store.write() as connection:
        for number in range(times):
            at = river.clock.now() - ago_s - number
            found = Incident(
                id=f"{rule}{number}", key=view.provider_id, node=SICK, node_uid=view.uid, boot_id="before",
                pool="training", tier=tier, rule=rule, cause="before", plan="validate", state="closed",
                fault_at=at, opened_at=at, closed_at=at + 10,
            )  # fmt: skip
            incidents.insert(connection, found)
            steps.insert(connection, main_rows("drain-only", found.id, at))
            for row in steps.of_incident(connection, found.id):
                steps.update(connection, row, state="done")


def test_own_repair_causes_no_second_alarm_and_the_same_fault_is_not_tested_twice(river: River) -> None:
    river.xid(SICK, 48, seq=1)
    turns(river, 150.0)
    assert acts(river) == [("validate", "closed")]
    assert not river.kube.view(SICK).unschedulable
    river.xid(SICK, 63, seq=2)
    turns(river, 90.0)
    assert "comes within 600 s of its own repair: recorded" in verdicts(river)[-1]
    river.clock.advance(900.0)
    river.begin()
    river.xid(SICK, 48, seq=3)
    turns(river, 300.0)
    assert acts(river) == [("validate", "closed"), ("replace", "closed")]
    assert "came back within a day of its return" in river.all_incidents()[0].sentence


def test_final_evidence_of_the_present_boot_acts_right_after_a_repair(river: River) -> None:
    river.xid(SICK, 48, seq=1)
    turns(river, 150.0)
    river.xid(SICK, 79, seq=2)
    turns(river, 5.0)
    assert acts(river)[-1][0] == "replace"


def test_what_began_before_the_service_watched_is_recorded(tmp_path: Path) -> None:
    river = River(tmp_path, budgets=BUDGETS)
    river.xid(SICK, 95, seq=1)
    river.xid("gpu-1", 79, seq=1)
    river.clock.advance(1.0)
    turns(river, 90.0)
    assert [one.node for one in river.all_incidents()] == ["gpu-1"]
    assert "began before the service first watched: recorded" in verdicts(river)[0]
    river.xid(SICK, 95, seq=2)
    turns(river, 90.0)
    assert {one.node for one in river.all_incidents()} == {"gpu-1", SICK}


@pytest.mark.parametrize(("times", "plan"), [(4, "replace"), (5, "move-jobs")])
def test_a_machine_that_was_remediated_five_times_in_a_week_is_a_persons(
    river: River, times: int, plan: str
) -> None:
    remember(river, times=times, ago_s=48 * HOUR_S)
    river.begin()
    river.xid(SICK, 79)
    river.run(300.0)
    assert acts(river)[-1] == (plan, "closed")
    with river.store.read() as connection:
        query = sa.select(schema.outbox.c.text).where(schema.outbox.c.urgency == "page")
        pages = [text for text in connection.execute(query).scalars() if "remediated 5 times" in text]
    assert len(pages) == (times == 5)


def test_a_second_fault_of_a_month_goes_one_step_further(river: River) -> None:
    remember(river, times=1, ago_s=20 * 24 * HOUR_S, rule="double-bit-error")
    river.xid(SICK, 48)
    turns(river, 70.0)
    assert acts(river)[-1][0] == "replace"
    assert "the second such fault within 30 days" in river.all_incidents()[0].sentence


def test_another_machine_under_the_same_name_begins_anew(river: River) -> None:
    remember(river, times=9, ago_s=HOUR_S, rule="double-bit-error")
    boot = river.kube.view(SICK).boot_id
    river.kube.add_node(SICK, labels={"pool": "training"}, boot_id=boot)
    river.xid(SICK, 48)
    turns(river, 70.0)
    assert acts(river)[-1][0] == "validate"
