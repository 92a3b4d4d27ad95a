"""A start or an end of work shows on its pod within the measured span, not before."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.lab.slinky.lag import BusyLag, Span, adopt_delay

START, END = Span(2, 8), Span(24, 27.5)


def make(seed: int = 1) -> BusyLag:
    return BusyLag(START, END, random.Random(seed))


@given(st.integers(), st.booleans())
def test_change_shows_within_its_span(seed: int, busy: bool) -> None:
    lag, span = make(seed), START if busy else END
    lag.observe("w", busy, not busy, 100.0)
    assert 100 + span.low <= lag.next_due() <= 100 + span.high
    assert lag.holds("w", 100 + span.low - 0.01)
    assert not lag.holds("w", 100 + span.high)


def test_looking_again_does_not_move_the_time() -> None:
    lag = make()
    lag.observe("w", True, False, 100.0)
    due = lag.next_due()
    lag.observe("w", True, False, 103.0)
    assert lag.next_due() == due


def test_change_that_shows_or_is_over_is_forgotten() -> None:
    lag = make()
    lag.observe("w", True, False, 100.0)
    lag.observe("w", False, False, 101.0)
    assert lag.next_due() == float("inf")
    assert not lag.holds("w", 101.0)


def test_settled_changes_do_not_wake_the_loop_again() -> None:
    lag = make()
    lag.observe("w", True, False, 100.0)
    lag.settle(120.0)
    assert lag.next_due() == float("inf")


@given(st.text())
def test_adoption_waits_the_same_for_one_pod(uid: str) -> None:
    assert adopt_delay(uid, Span(4, 6)) == adopt_delay(uid, Span(4, 6))
    assert 4 <= adopt_delay(uid, Span(4, 6)) <= 6


def test_span_reads_a_range_or_a_number() -> None:
    assert Span.parse("2.5:9.9") == Span(2.5, 9.9)
    assert Span.parse("3") == Span(3, 3)


@pytest.mark.parametrize("text", ["", "a", "5:2", "-1:2"])
def test_other_spans_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Span.parse(text)
