"""The fence before every outside call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.clock import ManualClock
from remediator.errors import Fenced, Retry
from remediator.guard import MARGIN_S, MAX_DEADLINE_S, MIN_DEADLINE_S, Guard, Lease, open_guard


def guard(lease: Lease | None, clock: ManualClock) -> Guard:
    return Guard(3, clock, lambda: lease)


def lease(clock: ManualClock, seconds: float, epoch: int = 3) -> Lease:
    return Lease(epoch, clock.steady() + seconds)


@pytest.mark.parametrize(
    ("left", "asked", "given"),
    [
        (60.0, 5.0, 5.0),
        (60.0, 30.0, 5.0),
        (60.0, 2.0, 2.0),
        (7.0, 5.0, 5.0),
        (6.0, 5.0, 4.0),
        (3.0, 5.0, 1.0),
    ],
)
def test_a_call_is_as_long_as_asked_but_ends_before_the_lease(
    left: float, asked: float, given: float
) -> None:
    clock = ManualClock()
    assert guard(lease(clock, left), clock).call("drain", deadline=asked) == pytest.approx(given)


@pytest.mark.parametrize("epoch", [2, 4])
def test_another_epoch_is_fenced(epoch: int) -> None:
    clock = ManualClock()
    with pytest.raises(Fenced, match="moved on") as caught:
        guard(lease(clock, 60.0, epoch), clock).call("drain w-0")
    assert caught.value.epoch == 3
    assert "drain w-0" in str(caught.value)


def test_no_lease_is_fenced() -> None:
    with pytest.raises(Fenced, match="moved on"):
        guard(None, ManualClock()).call("drain")


@pytest.mark.parametrize("left", [2.99, 2.0, 0.0, -60.0])
def test_a_lease_about_to_end_makes_the_call_wait_for_its_renewal(left: float) -> None:
    clock = ManualClock()
    with pytest.raises(Retry, match="drain w-0"):
        guard(lease(clock, left), clock).call("drain w-0")


def test_the_lease_is_asked_anew_for_every_call() -> None:
    clock = ManualClock()
    held: list[Lease | None] = [lease(clock, 60.0)]
    here = Guard(3, clock, lambda: held[0])
    here.call("drain")
    held[0] = None
    with pytest.raises(Fenced):
        here.call("drain")


def test_a_wall_clock_that_jumps_back_prolongs_nothing() -> None:
    clock = ManualClock()
    here = guard(lease(clock, 10.0), clock)
    clock.advance(9.0)
    clock.jump(-3600.0)
    with pytest.raises(Retry):
        here.call("drain")


@given(left=st.floats(-10, 60), asked=st.floats(0.1, 60))
def test_no_call_may_outlive_its_lease(left: float, asked: float) -> None:
    clock = ManualClock()
    until = clock.steady() + left
    try:
        deadline = Guard(1, clock, lambda: Lease(1, until)).call("x", asked)
    except Retry:
        assert left < MIN_DEADLINE_S + MARGIN_S + 1e-6
        return
    assert 0 < deadline <= min(asked, MAX_DEADLINE_S)
    assert clock.steady() + deadline + MARGIN_S <= until + 1e-6


def test_the_open_guard_never_refuses() -> None:
    clock = ManualClock()
    here = open_guard(clock)
    clock.advance(10_000.0)
    assert here.call("read") == MAX_DEADLINE_S
