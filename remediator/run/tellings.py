"""What is only recorded and people shall hear of all the same: once an hour for each kind and code."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.model.decision import Decision
from remediator.model.signal import Signal
from remediator.store import outbox
from remediator.workflow import notices

HOUR_S = 3600.0


def tell_once(connection: sa.Connection, signal: Signal, decision: Decision, now: float) -> None:
    """Write the message of a decision that wants one, unless it was written within the hour."""
    beginning = f"{signal.what}: "
    if not decision.tell or outbox.told_since(connection, beginning, now - HOUR_S):
        return
    text = f"{beginning}first seen within the hour on {signal.node}; {decision.sentence}"
    outbox.put(connection, "", [notices.look(text)], now)
