"""The breaker of a pool: too many nodes newly sick at once, and only what is surely right goes on. Pure.

closed -> open -> half-open with one canary -> closed; whatever it is, too many newly sick nodes open it.
With one and the same fault on nodes that share something it is stricter: they are one group, and no canary is
tried; the group ends when a person says so, or when its nodes are sick no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from remediator.settings import GuardLimits

State = Literal["closed", "open", "half-open"]
Fate = Literal["treated", "closed", "given up"]


@dataclass(frozen=True, slots=True)
class Breaker:
    """Where it stands, since when, and the one incident that may act while it is half-open."""

    state: State = "closed"
    since: float = 0.0
    canary: str = ""


def moved(breaker: Breaker, sick: int, limit: int, fate: Fate, now: float) -> Breaker:
    """Where it stands now, with `sick` nodes newly sick; `fate` is what became of the canary, if any.

    Only a canary that was closed closes the breaker; after one that a person took over the next is tried.
    """
    if sick > limit:
        return breaker if breaker.state == "open" else Breaker("open", now)
    if breaker.state == "open":
        return Breaker("half-open", now)
    if breaker.state == "half-open" and breaker.canary and fate != "treated":
        return Breaker("closed", now) if fate == "closed" else replace(breaker, canary="")
    return breaker


def admits(breaker: Breaker, incident: str) -> bool:
    """Whether this incident may go on."""
    return breaker.state == "closed" or (breaker.state == "half-open" and breaker.canary in {"", incident})


def chosen(breaker: Breaker, incident: str) -> Breaker:
    """An admitted incident goes on: in a half-open breaker it is the canary."""
    return replace(breaker, canary=incident) if breaker.state == "half-open" else breaker


PLACES = ("leaf", "rack")
NEAREST_FIRST = (*PLACES, "driver", "image", "pool")


@dataclass(frozen=True, slots=True)
class Shared:
    """Something that nodes share (kind and name), how many of them have one fault, and how many there are."""

    kind: str
    name: str
    sick: int
    of: int


def common_cause(shared: Iterable[Shared], limits: GuardLimits) -> Shared | None:
    """What is at fault rather than the nodes: the nearest thing that too many of them share."""
    found = [one for one in shared if _is_too_many(one, limits)]
    return min(found, key=lambda one: (NEAREST_FIRST.index(one.kind), one.name), default=None)


def _is_too_many(shared: Shared, limits: GuardLimits) -> bool:
    if shared.kind in PLACES:
        return shared.sick > limits.behind_one
    if shared.kind == "pool" and limits.in_pool is not None and shared.sick > limits.in_pool:
        return True
    return shared.sick >= limits.at_least and shared.sick > shared.of * limits.percent / 100


def ended_by(released: str, *, standing: bool) -> str | None:
    """Why a group ends: a person has released it, or nothing of it stands any more. No time ends it."""
    if released:
        return f"released by {released}"
    return None if standing else "the cause has passed: no node of it is sick any more"
