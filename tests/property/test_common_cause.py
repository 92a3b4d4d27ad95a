"""A group of sick nodes is found whatever the order, and no time ends it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from remediator.policy.breaker import NEAREST_FIRST, PLACES, Shared, common_cause, ended_by
from remediator.settings import GuardLimits, GuardSettings

shared: Any = st.builds(
    Shared,
    st.sampled_from(NEAREST_FIRST),
    st.sampled_from(["a", "b"]),
    st.integers(0, 50),
    st.integers(1, 200),
)
crowds = st.lists(shared, max_size=6, unique_by=lambda one: (one.kind, one.name))
limits = st.builds(
    GuardLimits, percent=st.floats(0, 100), at_least=st.integers(1, 9), behind_one=st.integers(1, 9)
)


@given(crowd=crowds, by=limits, data=st.data())
def test_the_order_changes_no_cause(crowd: list[Shared], by: GuardLimits, data: st.DataObject) -> None:
    assert common_cause(crowd, by) == common_cause(data.draw(st.permutations(crowd)), by)


@given(crowd=crowds, by=limits)
def test_one_more_sick_node_ends_no_group(crowd: list[Shared], by: GuardLimits) -> None:
    worse = [Shared(one.kind, one.name, one.sick + 1, one.of) for one in crowd]
    assert common_cause(crowd, by) is None or common_cause(worse, by) is not None


@given(crowd=crowds)
def test_the_design_s_numbers(crowd: list[Shared]) -> None:
    """More than a fifth and at least three; more than three behind one leaf or in one rack."""
    found = common_cause(crowd, GuardLimits())
    for one in crowd:
        many = one.sick > 3 if one.kind in PLACES else one.sick >= 3 and one.sick * 5 > one.of
        assert not many or found is not None
    if found is not None:
        nearer = [one for one in crowd if NEAREST_FIRST.index(one.kind) < NEAREST_FIRST.index(found.kind)]
        assert all(common_cause([one], GuardLimits()) is None for one in nearer)


@given(released=st.just("") | st.just("ann"), standing=st.booleans())
def test_a_group_ends_by_a_person_or_when_nothing_of_it_stands(released: str, standing: bool) -> None:
    assert (ended_by(released, standing=standing) is None) == (not released and standing)


def test_rules_of_a_class_are_one_cause() -> None:
    guard = GuardSettings()
    assert guard.cause_of("thermal-hard") == guard.cause_of("thermal-policy") == "thermal"
    assert guard.cause_of("thermally") == "thermally"
    assert guard.limits_of("ib-down") is guard
