"""May this job be released (requeued), or only told? The table is the data; the first row that fits holds.

Rows that need more than one job record (dependents, restart caps) belong to the survey. A job with
`--no-kill` has no row: Slurm tells nobody of it. It is requeued like another, and under DOWN it runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from slurm_bridge.model import SlurmJob

LEAVE_TOKEN = "remediator:leave"  # noqa: S105  (a word in a job's comment, no secret)


@dataclass(frozen=True, slots=True)
class Release:
    """What may be done with a job, and the half-sentence that says why."""

    act: Literal["requeue", "tell-only"]
    kind: str
    why: str

    @property
    def keeps_the_node(self) -> bool:
        """It runs on until somebody ends it; what cannot be read, is over or goes with a leader does not."""
        return self.act == "tell-only" and self.kind not in {"unknown", "over", "pending", "het-member"}


@dataclass(frozen=True, slots=True)
class Row:
    """One kind: `applies(job, sick node names)` decides, `release` is the verdict."""

    applies: Callable[[SlurmJob, frozenset[str]], bool]
    release: Release


def _tell(kind: str, why: str) -> Release:
    return Release("tell-only", kind, why)


def _requeue(kind: str, why: str) -> Release:
    return Release("requeue", kind, why)


TABLE: tuple[Row, ...] = (
    Row(lambda j, _: j.state == "UNKNOWN", _tell("unknown", "its state cannot be read")),
    Row(lambda j, _: j.is_over, _tell("over", "it has already ended")),
    Row(
        lambda j, _: LEAVE_TOKEN in j.comment.replace(",", " ").split(),
        _tell("leave", f"its comment says {LEAVE_TOKEN}"),
    ),
    Row(lambda j, _: "CRON_JOB" in j.traits, _tell("scrontab", "it is started by scrontab")),
    Row(lambda j, _: not j.batch, _tell("interactive", "it has no batch script (salloc or srun)")),
    Row(lambda j, _: not j.requeue, _tell("no-requeue", "it was submitted with --no-requeue")),
    Row(
        lambda j, sick: not sick.isdisjoint(j.required_nodes),
        _tell(
            "required-nodes",
            "it asked for a node by name that is being drained and could not start elsewhere",
        ),
    ),
    Row(
        lambda j, _: j.het_job_id is not None and j.het_job_id != j.job_id,
        _tell("het-member", "it is requeued with its heterogeneous job's leader"),
    ),
    Row(
        lambda j, _: j.state == "SUSPENDED",
        _tell("suspended", "it is suspended: a requeue would kill it unsaved and leave it held"),
    ),
    Row(lambda j, _: j.state == "PENDING" and not j.is_completing, _tell("pending", "it is not running")),
    Row(lambda j, _: j.held, _requeue("held", "it saves, and restarts once its hold is released")),
    Row(
        lambda j, _: j.is_expedited,
        _requeue("expedited", "it restarts as soon as it has saved, without Slurm's delay"),
    ),
    Row(
        lambda j, _: j.het_job_id is not None, _requeue("het-leader", "the whole heterogeneous job restarts")
    ),
    Row(lambda j, _: j.array_task_id is not None, _requeue("array-task", "only this task restarts")),
    Row(lambda _, __: True, _requeue("batch", "it restarts from its last checkpoint")),
)


def classify(job: SlurmJob, sick: frozenset[str]) -> Release:
    """The first row of TABLE that fits; `sick` are the nodes being drained."""
    return next(row.release for row in TABLE if row.applies(job, sick))
