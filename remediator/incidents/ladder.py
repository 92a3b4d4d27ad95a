"""What is graver than what: tiers of evidence, and plans by how far they go. Pure; nothing here lowers."""

from __future__ import annotations

from typing import NamedTuple

from remediator.model.incident import VALIDATE, VALIDATE_ONLY, Tier

TIERS: tuple[Tier, ...] = ("T3", "T2", "T1", "T0")
PLANS = (
    "record",
    "restart-job",
    VALIDATE_ONLY,
    VALIDATE,
    "reset-when-idle",
    "reset",
    "reboot",
    "drain-only",
    "move-jobs",
    "replace",
)


class Course(NamedTuple):
    """How sure the evidence is, and how far an incident goes."""

    tier: Tier
    plan: str


def graver(present: Course, found: Course) -> Course:
    """The graver tier and the plan that goes further, each by itself: folding never lowers either."""
    return Course(max(present.tier, found.tier, key=TIERS.index), max(present.plan, found.plan, key=_how_far))


def how_grave(course: Course) -> tuple[int, int]:
    """What to order courses by: the surest evidence last, of the same tier the plan that goes furthest."""
    return TIERS.index(course.tier), _how_far(course.plan)


def _how_far(plan: str) -> int:
    """A plan that is not on the ladder, such as a return, is below everything."""
    return PLANS.index(plan) if plan in PLANS else -1
