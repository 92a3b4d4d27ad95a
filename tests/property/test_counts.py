"""Whatever counters, exporters and replicas say: only what surely was counted is, and lately."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.signals.counts import BLANK, Window, count, falls
from remediator.signals.samples import Answer, Series

NOW = 10_000.0
EVERY = 15.0
TEN_MINUTES = Window(600.0)
BLANKS = (math.nan, math.inf, -1.0, 9.2e18, 9223372036854775794.0, 2147483632.0, 4294967290.0)

Samples = list[tuple[float, float]]


def each(*values: float, newest: float = NOW - 5) -> Samples:
    return [(newest - EVERY * (len(values) - 1 - index), value) for index, value in enumerate(values)]


def told(*views: Samples, window: Window = TEN_MINUTES, counters: int = 1) -> Answer:
    """As replicas of one counter, or of as many that are added up."""
    series = [Series({"replica": str(index)}, tuple(one)) for index, one in enumerate(views)]
    return count([series] * counters, window, NOW)


moves = st.lists(st.integers(0, 3), min_size=20, max_size=40)
wild = st.lists(
    st.tuples(st.floats(NOW - 900, NOW + 900), st.floats() | st.sampled_from(BLANKS)), max_size=30
)


@given(by=moves, first=st.integers(0, 2**30), least=st.integers(1, 60))
def test_what_was_counted_is_the_sum_of_its_moves(by: list[int], first: int, least: int) -> None:
    values = [float(value) for value in accumulate(by, initial=first)]
    answer = told(each(*values), window=Window(700.0, least))
    assert (answer.outcome == "holds") == (sum(by) >= least)
    assert answer.value == sum(by)


@given(by=moves, at=st.integers(1, 18), before=st.integers(1_000, 2_000_000))
def test_a_reset_adds_nothing_and_hides_nothing_else(by: list[int], at: int, before: int) -> None:
    values = [float(value) for value in accumulate(by, initial=before)]
    reset = [float(value) for value in accumulate(by[at:], initial=0)]
    answer = told(each(*values[: at + 1], *reset), window=Window(2_000.0, 1_000_000))
    assert (answer.outcome, answer.value) == ("passed", sum(by))


@given(by=moves, at=st.integers(1, 18), glitch=st.floats(0.0, 0.99))
def test_a_counter_that_goes_backwards_and_returns_is_nothing(by: list[int], at: int, glitch: float) -> None:
    """Prometheus' own `increase` makes the whole counter of it."""
    values = [float(value) for value in accumulate(by, initial=900)]
    wrong = [*values[:at], math.floor(values[at] * glitch), *values[at + 1 :]]
    answer = told(each(*wrong))
    assert (answer.outcome, answer.reason) == ("unknown", "backwards")


@given(by=moves, at=st.integers(0, 19), blank=st.sampled_from(BLANKS))
def test_one_impossible_sample_counts_nothing(by: list[int], at: int, blank: float) -> None:
    values = [float(value) for value in accumulate(by, initial=5)]
    answer = told(each(*values[:at], blank, *values[at + 1 :]), window=Window(700.0, sum(by) + 1))
    assert (answer.outcome, answer.implausible) == ("passed", 1)


@given(
    views=st.lists(wild.map(sorted), max_size=3), window=st.sampled_from([TEN_MINUTES, Window(300, 3, 60, 3)])
)
def test_nothing_raises_and_what_holds_was_told_lately_and_plausibly(
    views: list[Samples], window: Window
) -> None:
    answer = told(*views, window=window)
    if answer.outcome != "holds":
        assert (answer.reason != "") == (answer.outcome == "unknown")
        return
    seen = [at for one in views for at, value in one if 0 <= value < BLANK]
    assert max(seen) >= NOW - 60
    assert answer.value is not None
    assert answer.value >= window.least


def test_of_replicas_the_one_that_saw_least_counts_and_a_stale_one_does_not() -> None:
    moved, still = each(*[3.0] * 10, *[5.0] * 10), each(*[5.0] * 20)
    assert told(moved, moved).value == 2.0
    assert told(moved, still).outcome == "passed"
    assert told(moved, each(*[5.0] * 20, newest=NOW - 100)).value == 2.0
    assert told(each(*[3.0] * 10, *[5.0] * 10, newest=NOW - 100)).reason == "stale"


@pytest.mark.parametrize(
    ("values", "window", "expected"),
    [
        ([], TEN_MINUTES, "absent"),
        ([7.0] * 20, TEN_MINUTES, "passed"),
        ([7.0, 8.0], TEN_MINUTES, "few"),
        ([math.nan] * 20, TEN_MINUTES, "implausible"),
        ([7.0] * 10 + [8.0] * 60, TEN_MINUTES, "passed"),  # longer ago than the window
        ([5000.0 * n for n in range(20)], Window(120, 100, per_s=True), "holds"),
        ([1400.0 * n for n in range(20)], Window(120, 100, per_s=True), "passed"),
        ([5000.0 * n for n in range(4)], Window(120, 100, per_s=True), "short"),
        ([0.0] * 10 + [50.0] * 10, Window(300, 3, 60, 3), "passed"),  # all in one minute
        ([float(n // 4) for n in range(20)], Window(300, 3, 60, 3), "holds"),
    ],
    ids=range(10),
)
def test_each_way_to_know_and_not_to_know(values: list[float], window: Window, expected: str) -> None:
    answer = told(each(*values), window=window)
    assert (answer.reason or answer.outcome) == expected


def test_links_of_one_gpu_are_added_up() -> None:
    one = each(*[7.0] * 10, *[8.0] * 10)
    assert told(one, window=Window(600, 4), counters=3).outcome == "passed"
    assert told(one, window=Window(600, 4), counters=4).value == 4.0


@given(states=st.lists(st.sampled_from([0.0, 1.0, math.nan]), max_size=40))
def test_a_state_falls_only_from_one_to_nought(states: list[float]) -> None:
    """What was not read is no fall."""
    found = falls(each(*states))
    assert [at for at, _ in found] == [at for at, _ in each(*states)]
    assert (found[-1][1] if found else 0) == sum(pair == (1.0, 0.0) for pair in pairwise(states))
