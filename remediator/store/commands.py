"""Commands of people: written by the command line, answered by the core."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from remediator.store.schema import command, meta

PAUSED = "paused-by"
EVEN_SO = "even-so"
AS_SPARE = "as-spare"
"""Words behind the node in the argument of `return`: a person knows of the evidence against it; the node
becomes a spare.
"""

_UNANSWERED = sa.select(command).where(command.c.answered_at.is_(None)).order_by(command.c.asked_at)
_PAUSED_BY = sa.select(meta.c.value).where(meta.c.key == PAUSED)


@dataclass(frozen=True)
class Command:
    """What somebody asked for; `answer` is the core's sentence once `answered_at` is set."""

    id: str
    verb: str
    argument: str
    actor: str
    asked_at: float
    answered_at: float | None = None
    done: bool = False
    answer: str = ""


def ask(connection: sa.Connection, wanted: Command) -> None:
    """Put a command before the core."""
    connection.execute(sa.insert(command).values(wanted.__dict__))


def get(connection: sa.Connection, command_id: str) -> Command | None:
    """A command with its answer, if it has one."""
    row = connection.execute(sa.select(command).where(command.c.id == command_id)).one_or_none()
    return Command(**row._mapping) if row else None


def unanswered(connection: sa.Connection) -> list[Command]:
    """Commands the core has not answered yet, oldest first."""
    return [Command(**row._mapping) for row in connection.execute(_UNANSWERED)]


def answer(connection: sa.Connection, asked: Command, now: float, sentence: str, *, done: bool) -> None:
    """Answer a command."""
    values = {"answered_at": now, "answer": sentence, "done": done}
    connection.execute(sa.update(command).where(command.c.id == asked.id).values(values))


def paused_by(connection: sa.Connection) -> str:
    """Who paused all writing; empty when nobody did."""
    return connection.execute(_PAUSED_BY).scalar() or ""


def set_paused(connection: sa.Connection, actor: str) -> None:
    """Pause in somebody's name, or go on with an empty one."""
    connection.execute(sa.delete(meta).where(meta.c.key == PAUSED))
    if actor:
        connection.execute(sa.insert(meta).values(key=PAUSED, value=actor))
