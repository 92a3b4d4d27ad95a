"""Whatever falls ill and whatever becomes of canaries: not closed, it lets one through or none."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from remediator.policy.breaker import Breaker, Fate, State, admits, chosen, moved

NOW = 1000.0
names = st.sampled_from(["i1", "i2", "i3"])
fates: Any = st.sampled_from(get_args(Fate))
breakers: Any = st.builds(
    Breaker,
    state=st.sampled_from(get_args(State)),
    since=st.floats(0, NOW),
    canary=st.just("") | names,
)
sick, limits = st.integers(0, 20), st.integers(1, 10)


@given(before=breakers, sick=sick, limit=limits, fate=fates)
def test_too_many_newly_sick_nodes_open_it_and_only_they_do(
    before: Breaker, sick: int, limit: int, fate: Fate
) -> None:
    after = moved(before, sick, limit, fate, NOW)
    assert (after.state == "open") == (sick > limit)


@given(before=breakers, sick=sick, limit=limits, fate=fates)
def test_it_closes_only_after_a_canary_that_was_closed(
    before: Breaker, sick: int, limit: int, fate: Fate
) -> None:
    after = moved(before, sick, limit, fate, NOW)
    if after.state == "closed" and before.state != "closed":
        assert (before.state, fate) == ("half-open", "closed")
        assert before.canary
    if before.state == "open":
        assert after.state != "closed"


@given(before=breakers, sick=sick, limit=limits, fate=fates)
def test_moving_twice_is_moving_once(before: Breaker, sick: int, limit: int, fate: Fate) -> None:
    once = moved(before, sick, limit, fate, NOW)
    settled: Fate = fate if once.canary else "treated"
    assert moved(once, sick, limit, settled, NOW) == once or once.state == "open"
    assert (once.since == before.since) == (once.state == before.state or before.since == NOW)


@given(before=breakers, one=names, other=names)
def test_half_open_lets_one_through_and_open_none(before: Breaker, one: str, other: str) -> None:
    if not admits(before, one):
        assert before.state == "open" or (before.state == "half-open" and before.canary not in {"", one})
        return
    after = chosen(before, one)
    assert admits(after, one)
    if before.state == "half-open":
        assert admits(after, other) == (one == other)


@given(
    limit=limits,
    story=st.lists(st.tuples(sick, names, fates), max_size=30),
)
def test_it_comes_back_once_it_is_quiet_and_a_canary_gets_through(
    limit: int, story: list[tuple[int, str, Fate]]
) -> None:
    now, breaker = 0.0, Breaker()
    for count, name, fate in story:
        now += 1.0
        breaker = moved(breaker, count, limit, fate, now)
        if admits(breaker, name):
            breaker = chosen(breaker, name)
    for fate in ("given up", "treated"):
        breaker = moved(breaker, 0, limit, fate, now)
    assert breaker.state != "open"
    if breaker.state == "half-open":
        name = breaker.canary or "next"
        assert admits(breaker, name)
        breaker = moved(chosen(breaker, name), 0, limit, "closed", now)
    assert breaker.state == "closed"
    assert all(admits(breaker, name) for name in ("i1", "i2"))
