"""How long a step has been held: a hold is visible, ages and reminds; it never expires into an act."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from remediator.model.plan import StepRow

REMIND_S = 3600.0
HELD_SINCE, REMIND_AT = "held_since", "remind_at"


def aging(facts: dict[str, Any], now: float) -> dict[str, Any]:
    """The facts of a step that is held now: its age counts from the first hold on."""
    return {HELD_SINCE: now, **facts}


def ageless(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a step that is not held any more."""
    return {name: value for name, value in facts.items() if name not in {HELD_SINCE, REMIND_AT}}


def reminder(row: StepRow, now: float) -> StepRow | None:
    """The row with its next reminder, once people are to be told again: at an hour, then at twice the age."""
    since = row.facts.get(HELD_SINCE)
    if row.state != "held" or since is None or now < row.facts.get(REMIND_AT, since + REMIND_S):
        return None
    return replace(row, facts=row.facts | {REMIND_AT: now + (now - since)})


def oldest(rows: Iterable[StepRow]) -> float | None:
    """Since when the longest held of these steps has been held."""
    return min(
        (row.facts[HELD_SINCE] for row in rows if row.state == "held" and HELD_SINCE in row.facts),
        default=None,
    )
