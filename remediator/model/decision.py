"""What the policy says about one incident, and the sentence that explains it."""

from __future__ import annotations

from typing import Literal

from remediator.model.base import Ours
from remediator.model.incident import Tier
from remediator.model.timing import Timing

Action = Literal["act", "record", "hold"]
Reason = Literal[
    "rule",
    "no-node",
    "no-pool",
    "no-rule",
    "unknown-code",
    "condition-unknown",
    "rules-contradict",
    "already-out",
    "observed",
    "budget",
    "common-cause",
    "settles",
    "strikes",
]
"""What a decision rests on, as one word for the record and for counting."""

UNKNOWN: frozenset[Reason] = frozenset(
    {"no-node", "no-pool", "unknown-code", "condition-unknown", "rules-contradict"}
)
"""Reasons of those that act on nothing because something is not known."""


class Decision(Ours):
    """`act` starts `plan` at its `timing`, `record` only writes down, `hold` keeps the incident open for a
    person. `tell`: people hear of it once an hour although nothing is done; `page`: one has to look in any
    case.
    """

    action: Action
    plan: str = ""
    tier: Tier = "T3"
    timing: Timing = "now"
    rule: str = ""
    cause: str = ""
    sentence: str
    policy: str = ""
    reason: Reason = "rule"
    tell: bool = False
    page: bool = False
