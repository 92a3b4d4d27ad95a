"""Drain and fence are kept true until close: what does not stand any more is looked at again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from remediator.model.machine import Machine
from remediator.model.view import SlurmView
from remediator.store import incidents, steps
from remediator.workflow.follow import with_survey
from remediator.workflow.journal import Journal
from remediator.workflow.ownership import still_drained
from remediator.workflow.remade import OUTLIVED, SETTLED_S
from remediator.workflow.steps.drain_slurm import KEPT, SAVED_S, SEEN


def _lost(view: SlurmView, name: str, drained: steps.Drained) -> bool:
    seen = view.nodes.get(name)
    if seen is None or seen.read_at <= (drained.ended_at or 0.0):
        return False
    return not still_drained(seen.drain, seen.reason, drained.incident)


def _saved(view: SlurmView, drained: steps.Drained) -> bool:
    """The DRAIN stands, and slurmctld has saved it."""
    seen = [view.nodes.get(name) for name in drained.slurm_nodes]
    settled = drained.facts.get(SEEN, float("inf")) + SAVED_S
    stands = (
        one is not None and one.read_at >= settled and still_drained(one.drain, one.reason, drained.incident)
        for one in seen
    )
    return bool(seen) and all(stands)


def _unfenced(fence: steps.Fence, seen: Machine) -> bool:
    stands = seen.fenced_by == fence.incident and not seen.fence_undone
    return not stands or (fence.cordoned and not seen.cordoned)


class Standing:
    """Everything happens on the caller's connection."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._looked: dict[str, str] = {}
        self._since: dict[str, tuple[float, float]] = {}

    def begin(self, connection: sa.Connection, now: float) -> None:
        """First act of a life: where the jobs are known, nothing goes on before drain and jobs were looked at
        again. Much may have happened since the last one ended.
        """
        for drained in steps.drained(connection):
            survey = steps.get(connection, drained.incident, "survey")
            if survey is not None and survey.state == "done":
                self._reopen(connection, drained.incident, "drain-slurm", now, lost=False)

    def treated(self, connection: sa.Connection, view: SlurmView, now: float) -> frozenset[str]:
        """Slurm nodes that must stay drained; a step whose DRAIN is not seen any more looks again. One that
        is seen for long enough was kept by slurmctld, and outlived its worker's start: should it go, a person
        has lifted it.
        """
        standing = steps.drained(connection)
        for drained in standing:
            if any(_lost(view, name, drained) for name in drained.slurm_nodes):
                self._look_again(connection, drained.incident, "drain-slurm", now)
            else:
                self._note(connection, drained, self._proven(view, drained))
        return frozenset(name for drained in standing for name in drained.slurm_nodes)

    def guard_fences(
        self, connection: sa.Connection, machine: Callable[[str], Machine | None], now: float
    ) -> None:
        """A fence that the watch does not show any more is looked at again: once for each version of the
        node, since the watch may be behind our own write.
        """
        for fence in steps.fenced(connection):
            seen = machine(fence.node)
            if seen is None or seen.uid != fence.node_uid or not _unfenced(fence, seen):
                continue
            if self._looked.get(fence.incident) != seen.version:
                self._looked[fence.incident] = seen.version
                self._look_again(connection, fence.incident, "fence-node", now)

    def _proven(self, view: SlurmView, drained: steps.Drained) -> dict[str, Any]:
        """What the DRAIN has stood through by now."""
        settled = {name: at for name in drained.slurm_nodes if (at := self._settled(view, name, drained))}
        proven: dict[str, Any] = {KEPT: True} if _saved(view, drained) else {}
        if settled:
            proven[OUTLIVED] = {**drained.facts.get(OUTLIVED, {}), **settled}
        return proven

    def _settled(self, view: SlurmView, name: str, drained: steps.Drained) -> float | None:
        """The start of its slurmd, once the DRAIN was seen beside it for long enough by our own clock."""
        seen = view.nodes.get(name)
        if seen is None or seen.started is None:
            return None
        if not still_drained(seen.drain, seen.reason, drained.incident):
            return None
        started, since = self._since.get(name, (None, 0.0))
        if started != seen.started:
            since = seen.read_at
            self._since[name] = seen.started, since
        return seen.started if seen.read_at >= since + SETTLED_S else None

    def _note(self, connection: sa.Connection, drained: steps.Drained, proven: dict[str, Any]) -> None:
        if proven.items() <= drained.facts.items():
            return
        row = steps.get(connection, drained.incident, "drain-slurm")
        if row is not None:
            steps.update(connection, row, facts={**row.facts, **proven})

    def _reopen(
        self, connection: sa.Connection, incident_id: str, step: str, now: float, *, lost: bool
    ) -> None:
        for row in steps.of_incident(connection, incident_id):
            if row.name in with_survey({step}) and row.state == "done":
                steps.reopen(connection, row, now, lost=lost)

    def _look_again(self, connection: sa.Connection, incident_id: str, step: str, now: float) -> None:
        incident = incidents.get(connection, incident_id)
        row = steps.get(connection, incident_id, step)
        if incident is not None and row is not None:
            self._reopen(connection, incident_id, step, now, lost=True)
            why = f"what {step} has set is not seen any more: looking again"
            self._journal.record(connection, "condition-lost", incident, now, row=row, why=why)
