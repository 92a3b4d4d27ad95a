"""What the store remembers of a machine, as the decision wants it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from remediator.incidents.ladder import Course
from remediator.incidents.memory import DAY_S, Past, Recalled, recall, returned
from remediator.model.incident import Incident, Tier
from remediator.settings import MachineLimits
from remediator.store import incidents


@dataclass(frozen=True, slots=True)
class Memory:
    """The past of one machine: what began, and when it last came back into service (0.0: never)."""

    past: tuple[Past, ...]
    returned_at: float

    def recall(self, rule: str, tier: Tier, plan: str, limits: MachineLimits, now: float) -> Recalled | None:
        """What it changes about a decision; None when nothing."""
        return recall(rule, Course(tier, plan), self.past, self.returned_at, limits, now)


NO_PAST = Memory((), 0.0)


def remember(connection: sa.Connection, key: str, limits: MachineLimits, now: float) -> Memory:
    """The past of the machine with this key, as far back as anything counts."""
    days = max(limits.remediation_days, limits.second_fault_days, 2 * limits.same_rule_h / 24)
    found = incidents.begun(connection, key, now - days * DAY_S)
    past = tuple(map(_past, found))
    back = incidents.last_return(connection, key)
    return Memory(past, returned(past, (back.closed_at or 0.0) if back else 0.0))


def _past(incident: Incident) -> Past:
    over = incident.state == "overridden"
    return Past(incident.rule, incident.tier, incident.plan, incident.opened_at, incident.closed_at, over)
