"""What a job's crashes tell beyond their number: whom readings name, and when nothing can be told. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from remediator.model.strike import Strike

CRASHES = 2


def alike(strikes: Iterable[Strike]) -> int:
    """How many machines every crash of a job struck; 0 when it crashed once, or not always on the same."""
    runs: dict[str, set[str]] = defaultdict(set)
    for one in strikes:
        runs[one.run].add(one.machine)
    struck = {frozenset(machines) for machines in runs.values()}
    return len(struck.pop()) if len(struck) == 1 and len(runs) > 1 else 0


def pointed_at(machine: str, strikes: Iterable[Strike]) -> str | None:
    """Why the machine is suspect, as half a sentence; None while it is not. Once is chance, also for a job
    that runs everywhere; whose jobs they were does not matter, for the machine speaks against itself.
    """
    jobs = {one.run: one.job for one in strikes if one.machine == machine and one.is_examined}
    if len(jobs) < CRASHES:
        return None
    which = ", ".join(sorted(set(jobs.values()), key=lambda job: (len(job), job)))
    return f"its links or GPUs stood out in {len(jobs)} crashes of job {which}"
