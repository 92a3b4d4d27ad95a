"""Which jobs wait for a job: Slurm's dependency text, read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_bridge.model import SlurmJob

# `afterok:1(unfulfilled)`, `after:1+5(unfulfilled)`, `aftercorr:6_*(unfulfilled)`, `singleton(failed)`
_TERM = re.compile(r"(?P<kind>[a-z]+)(?P<ids>(?::\d+(?:_(?:\d+|\*))?(?:\+\d+)?)*)(?:\((?P<state>[a-z]+)\))?")
_ID = re.compile(r":(\d+)(?:_(\d+|\*))?")
_SETTLED = frozenset({"fulfilled", "failed"})


@dataclass(frozen=True, slots=True)
class Dependent:
    """A job that waits for another; `kind` is afterok, afternotok, afterany, singleton …, or unknown."""

    job: SlurmJob
    kind: str


def dependents(of: SlurmJob, jobs: Iterable[SlurmJob]) -> tuple[Dependent, ...]:
    """Who still waits for `of`; a dependency nobody can read counts as one on every job."""
    waiting = [job for job in jobs if job.state == "PENDING" and job.job_id != of.job_id and job.dependency]
    return tuple(Dependent(job, kind) for job in waiting for kind in _kinds(job, of))


def _kinds(job: SlurmJob, of: SlurmJob) -> list[str]:
    found: dict[str, None] = {}
    for text in re.split(r"[,?]", job.dependency):
        term = _TERM.fullmatch(text.strip())
        if term is None:
            return ["unknown"]
        if term["state"] not in _SETTLED and (_is_named(of, term["ids"]) or _is_namesake(of, job, term)):
            found[term["kind"]] = None
    return list(found)


def _is_named(of: SlurmJob, ids: str) -> bool:
    for job_id, task in _ID.findall(ids):
        if int(job_id) in {of.job_id, of.array_job_id, of.het_job_id} and _is_task(of, task):
            return True
    return False


def _is_task(of: SlurmJob, task: str) -> bool:
    return task in {"", "*"} or of.array_task_id is None or of.array_task_id == int(task)


def _is_namesake(of: SlurmJob, job: SlurmJob, term: re.Match[str]) -> bool:
    """`singleton` waits for every older job of the same name and user."""
    return (
        term["kind"] == "singleton" and (of.name, of.user) == (job.name, job.user) and of.job_id < job.job_id
    )
