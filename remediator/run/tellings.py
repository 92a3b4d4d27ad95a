"""What is only recorded and people shall hear of all the same: once an hour for each kind, code and pool."""

from __future__ import annotations

import sqlalchemy as sa

from remediator.model.decision import Decision
from remediator.model.signal import Signal
from remediator.signals.saves import SLOW
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


def tell(connection: sa.Connection, signal: Signal, now: float, *, dry_run: bool) -> str:
    """People are told of what is no evidence against a machine, but wants somebody to look; the sentence."""
    if signal.kind == SLOW:
        return _tell_of_slow_save(connection, signal, now, dry_run=dry_run)
    says = str(signal.detail.get("says"))
    outbox.put(connection, "", [notices.look(says)], now)
    return f"{says}: people are told, nothing is written"


def _tell_of_slow_save(connection: sa.Connection, signal: Signal, now: float, *, dry_run: bool) -> str:
    """The job's owner hears of it, operators once an hour for each pool; the sentence for the record."""
    says, user = str(signal.detail.get("says")), str(signal.detail.get("user"))
    beginning = says.partition(":")[0]
    if not outbox.told_since(connection, f"{beginning}:", now - HOUR_S):
        more = "`remediator doctor` names every such job: runbooks/checkpoints.md"
        outbox.put(connection, "", [notices.look(f"{says}; {more}")], now)
    if user and not dry_run:
        outbox.put(connection, "", [notices.slow_save(user, str(signal.detail.get("why")))], now)
    return f"{says}: people are told, nothing is written"
