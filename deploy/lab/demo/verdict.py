"""What the demo promises, held against what was seen. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deploy.lab.demo.jobs import Job, Run

SCHEDULING_S = 60
"""Slurm looks at its whole queue at least this often (sched_interval): more than that is a delay."""


@dataclass(frozen=True)
class Bystander:
    """A job on other nodes; `harm` says what happened to it, empty when nothing did."""

    what: str
    harm: str = ""


@dataclass
class Result:
    """Everything the verdict is taken from. `older` waited for nodes before the fault, `victim` ran."""

    sick_node: str
    spare: str
    moved_worker: str
    fault_at: float
    nodes_before: frozenset[str]
    victim: Job
    older: Job
    story: dict[str, Any] = field(default_factory=dict)
    trained: dict[str, Any] = field(default_factory=dict)
    reference: dict[str, Any] = field(default_factory=dict)
    audit: dict[str, Any] = field(default_factory=dict)
    terms: dict[str, int] = field(default_factory=dict)
    resumed_at: int = 0
    saved_at: int = 0
    worker_is_on: str = ""
    reservations: tuple[str, ...] = ()
    steps_before: list[int] = field(default_factory=list)
    bystanders: tuple[Bystander, ...] = ()


def harm(job: Job, run: Run, steps_before: int) -> str:
    """What happened to a job that nothing was to happen to; empty when it simply trained on."""
    if job.state != "RUNNING" or job.restarts:
        return f"is {job.state} after {job.restarts} restarts"
    if run.events("TERM") or len(run.events("START")) != 1:
        return "was signalled or started again"
    return "" if run.reached() > steps_before else "stands still"


def problems(result: Result) -> Iterator[str]:
    """Everything that did not hold, most telling first; nothing when all is well."""
    yield from _requeue(result)
    yield from _resume(result)
    yield from _spare(result)
    yield from _queue(result)
    for bystander in result.bystanders:
        if bystander.harm:
            yield f"untouched: {bystander.what} {bystander.harm}"
    if not result.audit["ok"]:
        yield f"audit: record {result.audit['broken_at']}: {result.audit['problem']}"


def _requeue(result: Result) -> Iterator[str]:
    if result.trained["restarts"] != 1:
        yield f"requeue: the job was restarted {result.trained['restarts']} times, not once"
    if any(count != 1 for count in result.terms.values()):
        yield f"requeue: SIGTERM counts by rank are {result.terms}, not one each"


def _resume(result: Result) -> Iterator[str]:
    if result.resumed_at < result.saved_at:
        yield f"resume: saved at step {result.saved_at}, but went on from step {result.resumed_at}"
    if result.trained["sha256"] != result.reference["sha256"]:
        yield "resume: the weights differ from those of the uninterrupted run"


def _spare(result: Result) -> Iterator[str]:
    if result.worker_is_on != result.spare:
        yield f"spare: {result.moved_worker} is on {result.worker_is_on or 'no node'}, not on {result.spare}"
    elsewhere = sorted(set(result.victim.nodes) ^ result.nodes_before)
    if elsewhere:
        yield f"spare: the job did not start on its survivors and the spare: {', '.join(elsewhere)}"


def _queue(result: Result) -> Iterator[str]:
    older, victim = result.older, result.victim
    if older.started_at <= victim.started_at:
        yield f"queue: older job {older.address} took the nodes before job {victim.address} was back on them"
    if result.reservations:
        yield f"queue: the job runs, but a reservation is left: {', '.join(result.reservations)}"
    if waited(result) > SCHEDULING_S:
        yield f"queue: job {older.address} started only {waited(result)} s after nodes were free"


def waited(result: Result) -> int:
    """Seconds from the victim's end, when the older job's nodes became free, to the older job's start."""
    return result.older.started_at - result.victim.ended_at
