"""What a machine's past changes: never for less care, and the same whatever order it is told in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from remediator.incidents.ladder import PLANS, TIERS, Course
from remediator.incidents.memory import DAY_S, HEALS, HOUR_S, TESTS, Past, Recalled, is_test, recall, returned
from remediator.settings import MachineLimits

NOW = 100 * DAY_S
LIMITS = MachineLimits()
RULES = st.sampled_from(["ecc", "thermal-hard", "strikes"])
ACTING = PLANS[2:]


def past(
    rule: str = "ecc", *, days: float = 1.0, plan: str = "reset", tier: Any = "T1", hours: float = 1.0
) -> Past:
    """An incident that began so long ago and took so many hours."""
    began = NOW - days * DAY_S
    return Past(rule, tier, plan, began, began + hours * HOUR_S)


pasts: Any = st.builds(
    past, RULES, days=st.floats(0.1, 40), plan=st.sampled_from(ACTING), tier=st.sampled_from(TIERS)
)
courses = st.builds(Course, st.sampled_from(TIERS), st.sampled_from(ACTING))
backs = st.just(0.0) | st.floats(0, 40).map(lambda days: NOW - days * DAY_S)


@given(known=st.lists(pasts, max_size=8), rule=RULES, course=courses, back=backs, data=st.data())
def test_the_order_in_which_the_past_is_told_changes_nothing(
    known: list[Past], rule: str, course: Course, back: float, data: st.DataObject
) -> None:
    other = data.draw(st.permutations(known))
    assert recall(rule, course, known, back, LIMITS, NOW) == recall(rule, course, other, back, LIMITS, NOW)


@given(known=st.lists(pasts, max_size=8), rule=RULES, course=courses, back=backs)
def test_crashes_alone_are_tested_whatever_the_past_and_nothing_else_is_tested_again(
    known: list[Past], rule: str, course: Course, back: float
) -> None:
    found = recall(rule, course, known, back, LIMITS, NOW)
    if found is None:
        return
    if course.tier == "T3" and course.plan in TESTS:
        assert found.plan == course.plan
        return
    assert found.plan not in {"validate", "validate-only", "reset-when-idle", "reboot"}
    if found.stop:
        assert found.plan in {"drain-only", "move-jobs"}
    assert found.why


@given(known=st.lists(pasts, max_size=8), rule=RULES, course=courses, tests=st.integers(1, 9))
def test_passed_tests_for_crashes_change_nothing_about_a_fault(
    known: list[Past], rule: str, course: Course, tests: int
) -> None:
    assume(course.tier != "T3")
    more = [past("strikes", days=0.5 * number + 0.2, plan="validate", tier="T3") for number in range(tests)]
    found = recall(rule, course, [*known, *more], 0.0, LIMITS, NOW)
    assert found == recall(rule, course, known, 0.0, LIMITS, NOW)


def test_after_five_tests_for_crashes_within_a_week_the_next_is_made_and_a_person_told() -> None:
    known = [past("strikes", days=number, plan="validate", tier="T3") for number in range(1, 6)]
    found = recall("strikes", Course("T3", "validate"), known, NOW - HOUR_S, LIMITS, NOW)
    assert found is not None
    assert (found.plan, found.stop) == ("validate", True)
    assert recall("strikes", Course("T3", "validate"), known[:4], NOW - HOUR_S, LIMITS, NOW) is None


@given(known=st.lists(pasts, max_size=4))
def test_the_fifth_remediation_of_a_week_is_the_last(known: list[Past]) -> None:
    lately = [one for one in known if one.opened_at > NOW - 7 * DAY_S and not is_test(one)]
    more = [past("other", days=2.0)] * (5 - len(lately))
    found = recall("ecc", Course("T0", "replace"), [*known, *more], 0.0, LIMITS, NOW)
    assert found is not None
    assert (found.stop, found.plan) == (True, "move-jobs")
    fewer = recall("ecc", Course("T0", "replace"), [*known, *more][:-1] if more else [], 0.0, LIMITS, NOW)
    assert fewer is None or not fewer.stop


@pytest.mark.parametrize(
    ("course", "known", "back", "plan"),
    [
        (Course("T1", "reset"), [past(days=8)], 0.0, "replace"),
        (Course("T1", "reset-when-idle"), [past(days=20)], 0.0, "reset"),
        (Course("T1", "validate"), [past(days=29)], 0.0, "replace"),
        (Course("T1", "validate-only"), [past(days=29)], 0.0, None),
        (Course("T1", "reset"), [past(days=31)], 0.0, None),
        (Course("T1", "reset"), [past("other", days=8)], 0.0, None),
        (Course("T1", "reset"), [past(days=8, tier="T3")], 0.0, None),
        (Course("T3", "validate"), [past(days=1, plan="validate", tier="T3")], NOW - HOUR_S, None),
        (Course("T3", "validate"), [past(days=3, plan="validate", tier="T3")], NOW - 25 * HOUR_S, None),
        (Course("T3", "validate"), [past("other", days=1)], NOW - HOUR_S, None),
        (Course("T1", "validate-only"), [past(days=1)], NOW - HOUR_S, "drain-only"),
        (Course("T0", "replace"), [past(days=1)], NOW - HOUR_S, None),
        (Course("T1", "reset"), [past(days=1), past("other", days=1)], NOW - HOUR_S, "replace"),
        (Course("T1", "reset"), [past("other", days=1), past(days=1)], NOW - HOUR_S, "replace"),
    ],
)  # fmt: skip
def test_a_fault_that_comes_back(course: Course, known: list[Past], back: float, plan: str | None) -> None:
    found = recall("ecc", course, known, back, LIMITS, NOW)
    assert (found.plan if found else None) == plan


@given(known=st.lists(pasts, max_size=6), back=backs)
def test_what_heals_a_machine_returns_it(known: list[Past], back: float) -> None:
    at = returned(known, back)
    assert at >= back
    assert at in {0.0, back, *(one.closed_at for one in known if one.plan in HEALS)}


def test_limits_can_be_lifted() -> None:
    lifted = MachineLimits(remediations=1000, same_rule_h=0, second_fault_days=0, settle_s=0)
    known = [past(days=0.1 * number) for number in range(1, 20)]
    assert recall("ecc", Course("T1", "reset"), known, NOW - 1.0, lifted, NOW) is None
    assert isinstance(recall("ecc", Course("T1", "reset"), known, NOW - 1.0, LIMITS, NOW), Recalled)
