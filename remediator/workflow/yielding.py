"""A person overrode an incident: which of our changes are taken back, and who is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from remediator.model.incident import Incident
from remediator.model.plan import Side, StepRow, Yield
from remediator.model.run import JobRun
from remediator.store import incidents, spares, steps
from remediator.workflow import notices
from remediator.workflow.journal import Journal
from remediator.workflow.plans import heir_rows
from remediator.workflow.suspects import passed

UNDO, LAST = 100, 101  # ordinals behind those of every plan
# slurmrestd goes on trying for 10 s after its caller left: what was asked then may still happen.
LATE_S = 15.0
SIDES: dict[str, Side] = {"undo-fence": "kubernetes", "undo-drain": "slurm"}


class Yields:
    """Everything happens in the transaction of the outcome that saw the person's hand."""

    def __init__(self, journal: Journal, cluster: str) -> None:
        self._journal = journal
        self._cluster = cluster

    def begin(self, connection: sa.Connection, incident: Incident, found: Yield, now: float) -> None:
        """The plan ends here; what our store says we set on the other side is taken back."""
        rows = steps.of_incident(connection, incident.id)
        runs = steps.runs_seen(connection, incident.id)
        spare = spares.of_incident(connection, incident.id)
        steps.insert(connection, way_back(incident.id, found.side, rows, claimed=spare is not None, now=now))
        incidents.update(connection, incident.id, state="yielding")
        signalled = _subjects(rows, "release-jobs", acted=True)
        spared = [run for run in runs if run.key in _subjects(rows, "release-jobs", acted=False)]
        told = [run.address for run in runs if run.key in signalled]
        detail = {"side": found.side, "signalled": told, "left": [run.address for run in spared]}
        self._journal.record(connection, "incident-yields", incident, now, why=found.sentence, detail=detail)
        page = notices.overridden(incident, found, told)
        left = [notices.left_alone(incident, run) for run in spared if run.release == "requeue"]
        for message in (page, *left):
            notices.post(connection, incident, message, now)
        for run in spared:
            self._give_up(connection, incident, run, now)

    def end(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        """All is taken back."""
        incidents.update(connection, incident.id, state="overridden", closed_at=now)
        self._journal.record(connection, "incident-overridden", incident, now, why=why)
        notices.post(connection, incident, notices.closed(incident, why), now)

    def call_off(self, connection: sa.Connection, incident: Incident, why: str, now: float) -> None:
        """What spoke against the machine has passed before a job was asked to leave: it is given back."""
        for run in steps.runs_seen(connection, incident.id):
            if run.release == "requeue":
                notices.post(connection, incident, notices.called_off(incident, run), now)
            self._give_up(connection, incident, run, now)
        passed(connection, self._journal, incident, why, now)

    def _give_up(self, connection: sa.Connection, incident: Incident, run: JobRun, now: float) -> None:
        """The run was not signalled: an incident of another machine under it may, from its own evidence."""
        heir_id = steps.give_up_run(connection, self._cluster, incident.id, run)
        heir = incidents.get(connection, heir_id) if heir_id else None
        if heir is not None:
            steps.insert(connection, heir_rows(heir.plan, heir.id, run, now, waits=heir.waits))
            why = f"job {run.address} was left by incident {incident.id} and is this incident's now"
            self._journal.record(connection, "job-run", heir, now, why=why, target=run.address)


def way_back(
    incident: str, side: Side, rows: Iterable[StepRow], *, claimed: bool, now: float
) -> list[StepRow]:
    """The steps that take back what these rows may have set, except on the `side` a person touched."""
    done = list(rows)
    acted = {row.name for row in done if row.acted_at is not None}
    wanted = []
    if "fence-node" in acted:
        wanted.append(_row(incident, "undo-fence", _settled(done, {"fence-node"}, now)))
    if "drain-slurm" in acted:
        facts = {"down": "force-down" in acted, "evicted": "evict-pods" in acted}
        late = {"drain-slurm", "force-down", "evict-pods"}
        wanted.append(_row(incident, "undo-drain", _settled(done, late, now), facts))
    for subject in sorted(_subjects(done, "hold-place", acted=True)):
        mine = [row for row in done if row.subject == subject]
        due_at = _settled(mine, {"hold-place", "start-jobs"}, now)
        wanted.append(_row(incident, "undo-place", due_at, subject=subject))
    for row in done:
        if row.name == "hold-jobs" and row.acted_at is not None and not _is_let_go(done, row.subject):
            mine = [other for other in done if other.subject == row.subject]
            due_at = _settled(mine, {"hold-jobs", "start-jobs"}, now)
            wanted.append(_row(incident, "undo-hold", due_at, dict(row.facts), subject=row.subject))
    if claimed:
        wanted.append(_row(incident, "undo-claim", now))
    last = _row(incident, "yield", now, ordinal=LAST)
    return [*(row for row in wanted if SIDES.get(row.name) != side), last]


def _is_let_go(rows: Iterable[StepRow], subject: str) -> bool:
    return any(row.name == "start-jobs" and row.subject == subject and row.state == "done" for row in rows)


def _settled(rows: Iterable[StepRow], names: set[str], now: float) -> float:
    """When nothing of these steps can happen late any more."""
    open_acts = [row.acted_at for row in rows if row.name in names and row.state != "done" and row.acted_at]
    return max([now, *(at + LATE_S for at in open_acts)])


def _subjects(rows: Iterable[StepRow], name: str, *, acted: bool) -> set[str]:
    return {row.subject for row in rows if row.name == name and (row.acted_at is not None) == acted}


def _row(
    incident: str,
    name: str,
    due_at: float,
    facts: dict[str, Any] | None = None,
    *,
    subject: str = "",
    ordinal: int = UNDO,
) -> StepRow:
    return StepRow(
        incident, name, subject, "back", ordinal, state="waiting", due_at=due_at, facts=facts or {}
    )
