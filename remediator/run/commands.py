"""Carries out what people ask for by the command line, on the record and in the core's transaction."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from remediator.errors import BadInput
from remediator.model.incident import COMMON_CAUSE, Incident, State
from remediator.policy.breaker import ended_by
from remediator.run.giveback import GiveBack
from remediator.store import commands, incidents
from remediator.store.commands import Command
from remediator.workflow.ending import end
from remediator.workflow.journal import Journal


class Commands:
    """One method per verb; each returns the sentence that answers it, or raises BadInput."""

    def __init__(self, journal: Journal, give_back: GiveBack) -> None:
        self._journal = journal
        self._verbs: dict[str, Callable[[sa.Connection, Command, float], str]] = {
            "pause": self._pause,
            "resume": self._resume,
            "hold": self._hold,
            "release": self._release,
            "return": give_back.begin,
        }

    def carry_out(self, connection: sa.Connection, now: float) -> list[str]:
        """Answer everything that was asked; returns the sentences."""
        return [self._one(connection, asked, now) for asked in commands.unanswered(connection)]

    def _one(self, connection: sa.Connection, asked: Command, now: float) -> str:
        try:
            sentence, done = self._verbs[asked.verb](connection, asked, now), True
        except BadInput as error:
            sentence, done = error.problem, False
        except KeyError:
            sentence, done = f"{asked.verb}: this controller knows no such command", False
        commands.answer(connection, asked, now, sentence, done=done)
        target = incidents.get(connection, asked.argument) if asked.argument else None
        why = f"{asked.actor} asked: {asked.verb} {asked.argument}".rstrip()
        outcome = "done" if done else "refused"
        self._journal.record(
            connection, "command", target, now, why=why, outcome=outcome, detail={"answer": sentence}
        )
        return sentence

    def _pause(self, connection: sa.Connection, asked: Command, _now: float) -> str:
        commands.set_paused(connection, asked.actor)
        return "paused: nothing is written to Slurm or Kubernetes until `remediator resume`"

    def _resume(self, connection: sa.Connection, _asked: Command, _now: float) -> str:
        was = commands.paused_by(connection)
        commands.set_paused(connection, "")
        return f"resumed (paused by {was})" if was else "was not paused"

    def _hold(self, connection: sa.Connection, asked: Command, _now: float) -> str:
        incident = self._open(connection, asked.argument)
        incidents.update(connection, incident.id, held_by=asked.actor, state=_state(incident, "held"))
        return f"incident {incident.id} on {incident.node} is held until `remediator release {incident.id}`"

    def _release(self, connection: sa.Connection, asked: Command, now: float) -> str:
        incident = self._open(connection, asked.argument)
        if incident.plan == COMMON_CAUSE:
            end(connection, self._journal, incident, ended_by(asked.actor, standing=True) or "", now)
            return f"group {incident.id} is released: what is still sick of it goes on"
        if not incident.held_by:
            return f"incident {incident.id} was not held by a person"
        incidents.update(connection, incident.id, held_by="", state=_state(incident, "open"))
        return f"incident {incident.id} goes on (held by {incident.held_by})"

    def _open(self, connection: sa.Connection, incident_id: str) -> Incident:
        incident = incidents.get(connection, incident_id)
        if incident is None:
            raise BadInput(
                "incident", f"there is no incident {incident_id!r}; see `remediator incidents list`"
            )
        if incident.state in {"closed", "overridden"}:
            raise BadInput("incident", f"{incident_id} is {incident.state} already")
        return incident


def _state(incident: Incident, wanted: State) -> State:
    """An incident that yields to a person goes on yielding, held or not."""
    return "yielding" if incident.state == "yielding" else wanted
