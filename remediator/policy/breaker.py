"""The breaker of a pool: too many nodes newly sick at once, and only what is surely right goes on. Pure.

closed -> open -> half-open with one canary -> closed; whatever it is, too many newly sick nodes open it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

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
