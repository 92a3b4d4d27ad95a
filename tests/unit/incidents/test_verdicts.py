"""Of what the driver asks for on one GPU the newest stands, whatever the clock and the other GPUs say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.incidents.verdicts import asks_for, is_lowered, successor
from remediator.model.signal import Signal
from remediator.store import signals
from tests.unit.run.deciding import Deciding

ACTIONS = st.integers(0, 9)


def verdict(before: Any, now: Any, at: float = 100.0, **changes: Any) -> Signal:
    base: dict[str, Any] = {
        "source": "agent", "node": "gpu-0", "boot_id": "boot-gpu-0", "kind": "xid", "code": 154,
        "pci": "0000:18:00", "seen_at": at, "received_at": at, "dedupe": f"{before}>{now}@{at}{changes}",
        "detail": {"extra": {"recovery_from": before, "recovery_to": now}},
    }  # fmt: skip
    return Signal(**(base | changes))


NVML = {"kind": "gpu-recovery-action", "code": None}


@given(first=ACTIONS, second=ACTIONS, third=ACTIONS, nvml=st.booleans())
def test_a_verdict_is_replaced_by_one_that_names_it_and_by_no_other(
    first: int, second: int, third: int, nvml: bool
) -> None:
    old, new = verdict(first, second), verdict(second, third, 101.0, **(NVML if nvml else {}))
    assert successor(old, [old, new]) == (new if second != third else None)
    assert successor(new, [old, new]) is None


@pytest.mark.parametrize(
    "other",
    [
        verdict(1, 0, 101.0),  # of another verdict: a clock set back between may have dated it so
        verdict(2, 0, 99.0),
        verdict(2, 0, 101.0, pci="0000:19:00"),
        verdict(2, 0, 101.0, boot_id="boot-before"),
        verdict(2, 0, 101.0, node="gpu-1"),
        verdict(2, 0, 101.0, source="webhook"),
        verdict(2, 0, 101.0, code=79),
        verdict(None, 0, 101.0),
        verdict(2, None, 101.0),
        verdict(2, True, 101.0),
        verdict(2, 0, 101.0, detail={"extra": "2>0"}),
    ],
)
def test_what_is_no_later_word_about_the_same_gpu_replaces_no_verdict(other: Signal) -> None:
    assert successor(verdict(0, 2), [other]) is None


@pytest.mark.parametrize(
    ("before", "now", "lowered"),
    [(2, 0, True), (2, 1, True), (4, 1, True), (1, 4, False), (1, 6, False), (0, 2, False), (2, 9, False)],
)
def test_less_is_told_from_more(before: int, now: int, lowered: bool) -> None:
    assert is_lowered(verdict(before, now)) is lowered
    assert asks_for(verdict(before, now))


@pytest.fixture
def here(tmp_path: Path) -> Deciding:
    return Deciding(tmp_path)


def see(here: Deciding, *seen: Signal) -> Sequence[str]:
    with here.store.write() as connection:
        signals.insert_new(connection, seen)
    return here.turn().sentences


def test_a_drain_that_is_taken_back_within_the_minute_is_none(here: Deciding) -> None:
    at = here.clock.now()
    see(here, verdict(0, 4, at), verdict(4, 0, at + 20, **NVML))
    here.clock.advance(61)
    (sentence,) = here.turn().sentences
    assert "the driver has asked for nothing since" in sentence
    assert here.incidents() == []


def test_a_reboot_that_has_been_taken_back_before_it_is_heard_of_is_none(here: Deciding) -> None:
    at = here.clock.now()
    see(here, verdict(0, 2, at - 30), verdict(2, 1, at - 10))
    assert here.incidents() == []
    here.clock.advance(61)
    here.turn()
    (incident,) = here.incidents()
    assert (incident.rule, incident.plan) == ("driver-verdict-reset", "validate")


@pytest.mark.parametrize(("lowered", "state"), [(False, "open"), (True, "held")])
def test_what_waits_at_the_door_is_not_let_in_by_a_verdict_of_the_past(
    here: Deciding, lowered: bool, state: str
) -> None:
    here.add("gpu-0", stage="observe")
    at = here.clock.now()
    see(here, verdict(0, 2, at))
    if lowered:
        see(here, verdict(2, 0, at + 5))
    here.add("gpu-0", stage="full")
    here.turn()
    assert [one.state for one in here.incidents()] == [state]


def test_a_verdict_that_is_lowered_later_is_told_and_ends_nothing(here: Deciding) -> None:
    at = here.clock.now()
    see(here, verdict(0, 2, at))
    (sentence,) = see(here, verdict(2, 0, at + 5))
    (incident,) = here.incidents()
    assert sentence.endswith("the driver only asks for nothing now, it goes on")
    assert (incident.state, incident.plan) == ("open", "replace")
