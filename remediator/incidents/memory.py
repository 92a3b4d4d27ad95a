"""What is remembered of a machine, and what comes of it: flapping, second faults, lemons. Pure.

Remembered by its key, never by its name: another machine under the same name begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from remediator.incidents.ladder import Course
from remediator.model.incident import VALIDATE, VALIDATE_ONLY, Tier
from remediator.settings import MachineLimits

DAY_S, HOUR_S = 86_400.0, 3600.0
HEALS = frozenset({"reset-when-idle", "reset", "reboot"})
"""Plans that end with the machine back in service."""

_FURTHER = {"reset-when-idle": "reset", "reset": "replace", "reboot": "replace", VALIDATE: "replace"}
TESTS = frozenset({VALIDATE, VALIDATE_ONLY})
_MOVING = frozenset({"replace", "move-jobs"})
_SPARED = {VALIDATE_ONLY: "drain-only"}  # pools that replace nothing


@dataclass(frozen=True, slots=True)
class Past:
    """An incident of the machine that has begun: by which rule, with which plan, from when to when."""

    rule: str
    tier: Tier
    plan: str
    opened_at: float
    closed_at: float | None
    overridden: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """The plan that the past makes of another one, and why; `stop`: a person has to look."""

    plan: str
    why: str
    stop: bool = False


def recall(
    rule: str, course: Course, past: Iterable[Past], returned_at: float, limits: MachineLimits, now: float
) -> Recalled | None:
    """What the machine's past changes about a decision; None when nothing. `returned_at` is when a person or
    a test last gave it back (0.0: never). It never resets what a person has to look at, nor tests it unless
    crashes alone say so: a passed test has answered those, however often they come.
    """
    known = sorted(past, key=lambda one: one.opened_at)
    lately = [one for one in known if one.opened_at > now - limits.remediation_days * DAY_S]
    tests = sum(map(is_test, lately))
    days = f"{limits.remediation_days:g} days"
    if course.tier == "T3" and course.plan in TESTS:
        why = f"it was tested {tests} times within {days}, and jobs go on crashing there"
        return Recalled(course.plan, why, stop=True) if tests >= limits.remediations else None
    times = len(lately) - tests
    if times >= limits.remediations:
        why = f"it was remediated {times} times within {days}: it stays out until a person has looked"
        return Recalled("move-jobs" if course.plan in _MOVING else "drain-only", why, stop=True)
    if _fails_again(rule, known, returned_at, limits, now):
        plan = _without_another_try(course)
        return Recalled(plan, "the same fault came back within a day of its return") if plan else None
    again = [one for one in known if _is_first_of(rule, one, limits, now)]
    further = _FURTHER.get(course.plan) if course.tier == "T1" and again else None
    if further is None:
        return None
    return Recalled(further, f"it is the second such fault within {limits.second_fault_days:g} days")


def is_test(one: Past) -> bool:
    """Whether it was no more than a test for crashes alone: no remediation, there was nothing to mend."""
    return one.tier == "T3" and one.plan in TESTS


def returned(past: Iterable[Past], given_back: float) -> float:
    """When the machine last came back into service by our hand."""
    healed = (one.closed_at or 0.0 for one in past if one.plan in HEALS and not one.overridden)
    return max(given_back, *healed, 0.0)


def _fails_again(rule: str, known: list[Past], returned_at: float, limits: MachineLimits, now: float) -> bool:
    if not returned_at or now - returned_at > limits.same_rule_h * HOUR_S:
        return False
    before = [(one.closed_at, one.rule) for one in known if one.closed_at and one.closed_at <= returned_at]
    return bool(before) and (max(before)[0], rule) in before


def _without_another_try(course: Course) -> str | None:
    if course.plan not in _FURTHER and course.plan not in _SPARED:
        return None
    return _SPARED.get(course.plan, "replace")


def _is_first_of(rule: str, one: Past, limits: MachineLimits, now: float) -> bool:
    recent = one.opened_at > now - limits.second_fault_days * DAY_S
    return one.rule == rule and one.tier == "T1" and recent and not one.overridden
