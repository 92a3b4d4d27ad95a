"""The cap: a job under which machine after machine fails soon after each start is requeued held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from remediator.model.run import JobRun
from remediator.settings import Requeues
from remediator.store import steps
from remediator.workflow.forgotten import ASKS

HOUR_S = 3600.0
UNCAPPED = Requeues(per_job=None)


@dataclass(frozen=True, slots=True)
class Move:
    """A run that we took off a machine (its UID): when, and how long it had computed (None: unknown)."""

    machine: str
    at: float
    ran_s: float | None


def why_held(present: Move, before: Iterable[Move], limits: Requeues) -> str:
    """Why the job's requeue off the `present` machine is held, as half a sentence; `""` when it is not.

    What comes again on one machine speaks against that one, and a long run speaks for the job.
    """
    if limits.per_job is None or not _was_short(present, limits):
        return ""
    since = present.at - limits.window_h * HOUR_S
    lost = {move.machine for move in before if move.at >= since and _was_short(move, limits)}
    lost.discard(present.machine)
    if len(lost) < limits.per_job:
        return ""
    return (
        f"{len(lost)} other machines failed under it within {limits.window_h:g} h, each soon after its start"
    )


def capped(
    connection: sa.Connection, cluster: str, machine: str, run: JobRun, limits: Requeues, now: float
) -> JobRun:
    """The run on the machine (its UID), and why its requeue is to be held if it is."""
    if run.release != "requeue":
        return run
    before = [
        Move(other, row.acted_at or 0.0, _ran(earlier, row.acted_at or 0.0))
        for other, earlier, row in steps.released(connection, cluster, run.job_id)
        if ASKS in row.facts
    ]
    why = why_held(Move(machine, now, _ran(run, now)), before, limits)
    return run.model_copy(update={"held_because": why})


def _ran(run: JobRun, until: float) -> float | None:
    return None if run.started_at is None else until - run.started_at


def _was_short(move: Move, limits: Requeues) -> bool:
    return move.ran_s is not None and move.ran_s < limits.short_run_s
