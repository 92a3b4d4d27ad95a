"""Each signal is judged once, and only evidence about a known machine as it runs now opens anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from remediator.errors import Retry
from remediator.incidents.correlate import BOOT_LAG_S
from remediator.model.incident import GIVE_BACK, Incident
from remediator.model.machine import Machine
from remediator.run.core import ALL_S
from remediator.run.share import MOST
from remediator.run.triage import CATCH_UP_S
from remediator.store import incidents
from remediator.workflow.engine import Engine
from tests.unit.run.deciding import TWO_AT_ONCE, Deciding


@pytest.fixture
def here(tmp_path: Path) -> Deciding:
    return Deciding(tmp_path)


@pytest.fixture
def tight(tmp_path: Path) -> Deciding:
    return Deciding(tmp_path, TWO_AT_ONCE)


def test_a_fatal_signal_opens_an_incident_with_its_plan(here: Deciding) -> None:
    here.signal("gpu-0")
    turn = here.turn()
    (incident,) = here.incidents()
    assert (incident.node, incident.state, incident.plan) == ("gpu-0", "open", "replace")
    assert incident.slurm_nodes == ("w-gpu-0",)
    assert [row.name for row in here.steps(incident.id)][:2] == ["admit", "drain-slurm"]
    assert turn.open_incidents == 1
    assert here.verdicts() == [(incident.sentence, incident.id)]
    assert turn.sentences == (incident.sentence,)
    assert here.actions() == ["decision", "incident-opened", "outcome", "intent", "intent"]


def test_two_signals_of_one_node_in_one_turn_are_one_incident(here: Deciding) -> None:
    here.signal("gpu-0", 79)
    here.signal("gpu-0", 64)
    here.turn()
    (incident,) = here.incidents()
    assert [found for _, found in here.verdicts()] == [incident.id, incident.id]


def test_a_later_signal_folds_into_the_open_incident(here: Deciding) -> None:
    here.signal("gpu-0")
    here.turn()
    here.signal("gpu-0", 45)
    (sentence,) = here.turn().sentences
    (incident,) = here.incidents()
    assert "folds into" in sentence
    assert here.verdicts()[1] == (sentence, incident.id)


def test_a_signal_without_a_code_is_named_by_its_kind(here: Deciding) -> None:
    here.signal("gpu-0")
    here.turn()
    here.signal("gpu-0", None, kind="alert")
    (sentence,) = here.turn().sentences
    assert sentence.startswith("alert on gpu-0 folds into")


def test_a_signal_is_judged_once(here: Deciding) -> None:
    here.signal("gpu-0", 45)
    assert len(here.turn().sentences) == 1
    assert here.turn().sentences == ()


def test_the_same_machine_under_another_name_is_the_same_incident(here: Deciding) -> None:
    here.add("gpu-0", provider_id="aws:///i-1")
    here.add("gpu-1", provider_id="aws:///i-1")
    here.signal("gpu-0")
    here.signal("gpu-1")
    here.turn()
    assert len(here.incidents()) == 1


def test_another_machine_under_the_same_name_is_another_incident(here: Deciding) -> None:
    here.signal("gpu-0")
    here.turn()
    here.add("gpu-0", uid="uid-new", boot_id="boot-new")
    here.signal("gpu-0")
    here.turn()
    assert [incident.node_uid for incident in here.incidents()] == ["uid-gpu-0", "uid-new"]


@pytest.mark.parametrize("code", [45, 43, 99999])
def test_what_is_only_recorded_opens_nothing(here: Deciding, code: int) -> None:
    here.signal("gpu-0", code)
    here.turn()
    assert here.incidents() == []
    assert "recorded" in str(here.verdicts()[0][0])


def test_an_unknown_node_is_recorded(here: Deciding) -> None:
    here.signal("gpu-9", boot="boot-x")
    here.turn()
    assert here.incidents() == []
    assert "not an exact name" in str(here.verdicts()[0][0])


def test_a_mismatched_boot_waits_and_then_is_recorded(here: Deciding) -> None:
    here.signal("gpu-0", boot="boot-other")
    assert here.turn().sentences == ()
    here.clock.advance(BOOT_LAG_S - 0.1)
    assert here.turn().sentences == ()
    assert here.verdicts() == [(None, None)]
    here.clock.advance(0.1)
    (sentence,) = here.turn().sentences
    assert "older boot" in sentence
    assert here.incidents() == []


def test_a_boot_that_settles_acts(here: Deciding) -> None:
    here.signal("gpu-0", boot="boot-after")
    here.turn()
    here.add("gpu-0", boot_id="boot-after")
    here.turn()
    assert [incident.boot_id for incident in here.incidents()] == ["boot-after"]


@pytest.mark.parametrize("boot", ["", "boot-of-yesterday"])
def test_a_node_whose_boot_is_unknown_never_acts(here: Deciding, boot: str) -> None:
    here.add("gpu-0", boot_id="")
    here.signal("gpu-0", boot=boot or "boot-gpu-0")
    here.turn()
    here.clock.advance(BOOT_LAG_S + 1)
    here.turn()
    assert here.incidents() == []


def test_signals_that_wait_stand_before_nobody(here: Deciding) -> None:
    """A rebooting node that floods the store must not delay another node's fault."""
    here.signal("gpu-0", boot="boot-after", times=510)
    here.signal("gpu-1")
    here.turn()
    assert [incident.node for incident in here.incidents()] == ["gpu-1"]


def test_more_signals_than_one_turn_takes_are_taken_at_once_by_the_next(here: Deciding) -> None:
    here.signal("gpu-0", 45, times=510)
    first = here.turn()
    assert first.wake_at <= here.clock.now()
    second = here.turn()
    assert len(first.sentences) + len(second.sentences) == 510
    assert second.wake_at == here.clock.now() + ALL_S


def test_a_turn_that_has_taken_all_there_is_asks_for_no_other_at_once(here: Deciding) -> None:
    here.signal("gpu-0", 45, times=MOST)
    turn = here.turn()
    assert (len(turn.sentences), turn.more) == (MOST, False)
    assert turn.wake_at > here.clock.now()


def test_over_the_budget_the_incident_is_held_without_steps(tight: Deciding) -> None:
    for number in range(3):
        tight.signal(f"gpu-{number}")
    tight.turn()
    first, second, third = tight.incidents()
    assert (first.state, second.state, third.state) == ("open", "open", "held")
    assert tight.steps(third.id) == []
    assert "budget drain_t0 of pool training is used up: 2 at once" in third.sentence
    assert all(one.id in third.sentence for one in (first, second))


def test_a_held_incident_goes_on_when_the_budget_frees(tight: Deciding) -> None:
    for number in range(3):
        tight.signal(f"gpu-{number}")
    tight.turn()
    assert tight.turn().sentences == ()
    tight.close(tight.incidents()[0].id)
    tight.core = tight.life(1)  # and a restart in between forgets nothing
    (sentence,) = tight.turn().sentences
    third = tight.incidents()[2]
    assert (third.state, third.sentence) == ("open", sentence)
    assert tight.steps(third.id)
    assert tight.actions().count("incident-opened") == 3


def test_a_freed_budget_admits_only_as_many_as_it_has_room_for(tight: Deciding) -> None:
    for number in range(4):
        tight.signal(f"gpu-{number}")
    tight.turn()
    tight.close(tight.incidents()[0].id)
    tight.turn()
    assert [incident.state for incident in tight.incidents()] == ["closed", "open", "open", "held"]


def test_new_evidence_on_a_held_incident_folds_in_and_starts_nothing(tight: Deciding) -> None:
    for number in range(3):
        tight.signal(f"gpu-{number}")
    tight.turn()
    tight.signal("gpu-2", 64)
    tight.turn()
    assert [incident.state for incident in tight.incidents()] == ["open", "open", "held"]


def test_budgets_are_per_pool(tight: Deciding) -> None:
    tight.add("gpu-2", pool="other")
    for number in range(3):
        tight.signal(f"gpu-{number}")
    tight.turn()
    assert [incident.state for incident in tight.incidents()] == ["open", "open", "open"]


def test_an_observing_pool_holds_and_goes_on_when_the_stage_is_raised(here: Deciding) -> None:
    here.add("gpu-0", stage="observe")
    here.signal("gpu-0")
    here.turn()
    (incident,) = here.incidents()
    assert (incident.state, here.steps(incident.id)) == ("held", [])
    here.turn()
    assert here.incidents()[0].state == "held"
    here.add("gpu-0", stage="full")
    here.turn()
    assert here.incidents()[0].state == "open"
    assert here.steps(incident.id)


def test_a_stage_may_be_raised_for_one_tier_alone(here: Deciding) -> None:
    here.add("gpu-0", stage={"T0": "observe", "T1": "full"})
    here.signal("gpu-0")
    here.turn()
    (incident,) = here.incidents()
    assert incident.state == "held"
    assert "only observes T0" in incident.sentence
    here.add("gpu-0", stage={"T0": "full", "T1": "observe"})
    here.turn()
    assert here.incidents()[0].state == "open"


def test_a_stage_raised_to_drain_only_only_drains(here: Deciding) -> None:
    here.add("gpu-0", stage="observe")
    here.signal("gpu-0")
    here.turn()
    here.add("gpu-0", stage="drain-only")
    here.turn()
    (incident,) = here.incidents()
    assert incident.plan == "drain-only"
    assert "release-jobs" not in {row.name for row in here.steps(incident.id)}
    assert "survey" not in {row.name for row in here.steps(incident.id)}


def test_a_draining_pool_drains_and_fences_and_moves_no_job(here: Deciding) -> None:
    here.add("gpu-0", stage="drain-only")
    here.signal("gpu-0")
    here.turn()
    (incident,) = here.incidents()
    assert [row.name for row in here.steps(incident.id)] == ["admit", "drain-slurm", "fence-node", "close"]
    assert "jobs stay" in incident.sentence


def test_a_held_incident_never_acts_on_an_older_boot(here: Deciding) -> None:
    here.add("gpu-0", stage="observe")
    here.signal("gpu-0")
    here.turn()
    here.add("gpu-0", stage="full", boot_id="boot-after-repair")
    here.turn()
    assert [incident.state for incident in here.incidents()] == ["held"]


def test_a_held_incident_acts_on_new_evidence_of_the_new_boot(here: Deciding) -> None:
    here.add("gpu-0", stage="observe")
    here.signal("gpu-0")
    here.turn()
    here.add("gpu-0", stage="full", boot_id="boot-after-reboot")
    here.signal("gpu-0", 45)
    here.turn()
    assert [incident.state for incident in here.incidents()] == ["held"]
    here.signal("gpu-0", 64)
    here.turn()
    (incident,) = here.incidents()
    assert (incident.state, incident.boot_id) == ("open", "boot-after-reboot")


def test_a_held_incident_drains_the_workers_that_are_there_when_it_goes_on(here: Deciding) -> None:
    """A worker's name may have moved to a healthy machine while the incident was held."""
    here.add("gpu-0", stage="observe")
    here.signal("gpu-0")
    here.turn()
    here.add("gpu-0", stage="full", slurm_nodes=("w-other",))
    here.turn()
    assert here.incidents()[0].slurm_nodes == ("w-other",)


@pytest.mark.parametrize("changes", [{"uid": "uid-new"}, None], ids=["another machine", "gone"])
def test_a_held_incident_stays_held_without_its_machine(
    here: Deciding, changes: dict[str, str] | None
) -> None:
    here.add("gpu-0", stage="observe")
    here.signal("gpu-0")
    here.turn()
    if changes is None:
        del here.machines["gpu-0"]
    else:
        here.add("gpu-0", stage="full", **changes)
    here.turn()
    assert [incident.state for incident in here.incidents()] == ["held"]


def test_a_node_still_fenced_by_its_last_incident_is_recorded(here: Deciding) -> None:
    here.signal("gpu-0")
    here.turn()
    first = here.incidents()[0].id
    here.close(first)
    here.add("gpu-0", fenced_by=first)
    here.signal("gpu-0")
    here.turn()
    assert len(here.incidents()) == 1
    here.add("gpu-0", fenced_by=None)
    here.signal("gpu-0")
    here.turn()
    assert len(here.incidents()) == 2


def test_a_clock_ahead_of_ours_is_no_fault_in_the_future(here: Deciding) -> None:
    here.clock.jump(3600.0)
    here.signal("gpu-0")
    here.clock.jump(-3600.0)
    here.turn()
    (incident,) = here.incidents()
    assert incident.fault_at == incident.opened_at == here.clock.now()


def test_a_signal_that_breaks_the_judge_stops_no_other(
    here: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.signal("gpu-0")
    here.signal("gpu-1")
    sound = here.machine

    def machine(name: str) -> Machine | None:
        if name == "gpu-0":
            raise KeyError(name)
        return sound(name)

    monkeypatch.setattr(here, "machine", machine)
    here.turn()
    assert [incident.node for incident in here.incidents()] == ["gpu-1"]
    assert "internal error KeyError" in str(here.verdicts()[0][0])


def test_a_store_that_fails_while_judging_settles_nothing(
    here: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk must not turn a fatal fault into a line that says "left alone"."""
    here.signal("gpu-0")

    def full(_connection: sa.Connection, _new: Incident) -> None:
        raise sa.exc.OperationalError("INSERT", None, Exception("database or disk is full"))

    with monkeypatch.context() as patch:
        patch.setattr(incidents, "insert", full)
        with pytest.raises(Retry, match="disk is full"):
            here.turn()
    assert here.verdicts() == [(None, None)]
    here.turn()
    assert [incident.state for incident in here.incidents()] == ["open"]


def test_a_bug_while_opening_takes_back_what_it_wrote(
    here: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.signal("gpu-0")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "start", broken)
        here.turn()
    assert here.incidents() == []
    assert here.actions() == []
    here.signal("gpu-0")
    here.turn()
    assert [incident.state for incident in here.incidents()] == ["open"]


def test_a_fault_of_a_node_whose_return_the_watch_has_yet_to_show_waits_for_that(here: Deciding) -> None:
    """It is in service again: taken for one that is out, its fault would never be acted on."""
    out = came_back(here)
    here.add("gpu-0", fenced_by=out.id)
    here.signal("gpu-0", 64)
    here.turn()
    assert here.verdicts()[-1] == (None, None)
    here.add("gpu-0", fenced_by=None)
    here.turn()
    assert here.incidents()[-1].plan == "replace"
    assert here.verdicts()[-1][1] == here.incidents()[-1].id


def test_a_fence_that_stands_long_after_a_return_is_somebodys_word(here: Deciding) -> None:
    out = came_back(here)
    here.add("gpu-0", fenced_by=out.id)
    here.clock.advance(CATCH_UP_S)
    here.signal("gpu-0", 64)
    here.turn()
    assert "already out of service" in str(here.verdicts()[-1][0])


def came_back(here: Deciding) -> Incident:
    """gpu-0 was out of service, and its return is over; the incident that took it out."""
    here.signal("gpu-0")
    here.turn()
    (out,) = here.incidents()
    here.close(out.id)
    here.clock.advance(1.0)
    back = out.model_copy(update={"id": "back", "plan": GIVE_BACK, "opened_at": here.clock.now()})
    with here.store.write() as connection:
        incidents.insert(connection, back)
    here.close("back")
    here.clock.advance(1.0)
    return out
