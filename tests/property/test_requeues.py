"""When a job's requeue is held: machine after machine has failed under it, each soon after its start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.settings import Requeues
from remediator.workflow.requeues import UNCAPPED, Move, why_held

NOW = 1_000_000.0
LIMITS = Requeues()
HERE = Move("m-here", NOW, 90.0)
WALK = [Move(f"m-{number}", NOW - 600 * number, 90.0) for number in range(1, 4)]

moves = st.lists(
    st.builds(
        Move,
        machine=st.sampled_from(["m-here", "m-1", "m-2", "m-3", "m-4"]),
        at=st.floats(NOW - 200_000, NOW),
        ran_s=st.none() | st.floats(0, 8000),
    ),
    max_size=12,
)


def test_the_fourth_machine_within_a_day_is_one_too_many() -> None:
    assert why_held(HERE, WALK[:2], LIMITS) == ""
    assert why_held(HERE, WALK, LIMITS).startswith("3 other machines failed under it within 24 h")


SPARED = {
    "one of them failed more than a day ago": [*WALK[:2], replace(WALK[2], at=NOW - 86_401)],
    "one of them was computed on for hours": [*WALK[:2], replace(WALK[2], ran_s=3600.0)],
    "one of them is the one that fails now": [*WALK[:2], replace(WALK[2], machine="m-here")],
    "it is always the same one": [replace(move, machine="m-1") for move in WALK],
    "nobody knows how long one of them was computed on": [*WALK[:2], replace(WALK[2], ran_s=None)],
}


@pytest.mark.parametrize("before", SPARED.values(), ids=SPARED.keys())
def test_a_job_is_not_held_when(before: list[Move]) -> None:
    assert why_held(HERE, before, LIMITS) == ""


@pytest.mark.parametrize("ran_s", [3600.0, None])
def test_a_job_that_has_computed_for_long_by_now_is_not_held(ran_s: float | None) -> None:
    assert why_held(replace(HERE, ran_s=ran_s), WALK, LIMITS) == ""


def test_without_a_cap_nothing_is_held() -> None:
    assert why_held(HERE, WALK * 5, UNCAPPED) == ""


@given(before=moves)
def test_a_held_job_has_lost_that_many_other_machines_lately_and_soon(before: list[Move]) -> None:
    short = [m for m in before if m.ran_s is not None and m.ran_s < 3600 and m.at >= NOW - 86_400]
    others = {move.machine for move in short} - {"m-here"}
    assert bool(why_held(HERE, before, LIMITS)) == (len(others) >= 3)


@given(before=moves, more=moves)
def test_more_lost_machines_never_let_a_held_job_go(before: list[Move], more: list[Move]) -> None:
    if why_held(HERE, before, LIMITS):
        assert why_held(HERE, before + more, LIMITS)
