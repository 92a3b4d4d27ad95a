"""Calls, answers and turns for tests that need no store."""

from __future__ import annotations

from typing import Any

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, StepRow
from remediator.model.record import Entry
from remediator.run.core import Turn
from remediator.workflow.calls import Answer, Call

INCIDENT = Incident(
    id="i1", key="k", node="gpu-0", node_uid="u", boot_id="b", slurm_nodes=("w-0",), tier="T0", rule="r",
    cause="XID 79", plan="replace", fault_at=0.0, opened_at=0.0,
)  # fmt: skip


def call(step: str = "admit", *, may_act: bool = False) -> Call:
    row = StepRow(INCIDENT.id, step, "", "main", 0, "pending")
    return Call(INCIDENT, row, may_act, None, (), None)


def answer(step: str = "admit", outcome: Outcome | None = None) -> Answer:
    return Answer(call(step), outcome or Done("well"))


def entry(action: str = "intent", *, why: str = "because", outcome: str = "") -> Entry:
    return Entry(at=1.0, actor="t", epoch=1, action=action, incident=INCIDENT.id, why=why, outcome=outcome)


def turn(**changes: Any) -> Turn:
    base: dict[str, Any] = {"calls": (), "wake_at": 0.0, "sentences": (), "entries": ()}
    base |= {"open_incidents": 0, "treated": frozenset()}
    return Turn(**(base | changes))
