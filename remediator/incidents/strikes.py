"""When crashes speak against a machine: two different jobs, or one job again and nowhere else. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from remediator.model.strike import Strike

MOST_AT_ONCE = 2
"""Machines that one crash may make suspect: more of them point to the job, or to what they share."""


def accusers(machine: str, strikes: Iterable[Strike]) -> dict[str, int]:
    """Jobs whose every crash was (also) on this machine, and how often the same one of their tasks crashed.

    A job that crashed without it as well carries its fault with it: it says nothing about the machine.
    Tasks of one array that crash side by side are one job that crashed once.
    """
    crashes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for strike in strikes:
        crashes[strike.job][strike.run].add(strike.machine)
    return {
        job: max(Counter(run.partition(".")[0] for run in runs).values())
        for job, runs in crashes.items()
        if all(machine in on for on in runs.values())
    }


def suspicion(machine: str, strikes: Iterable[Strike]) -> str | None:
    """Why the machine is suspect, as half a sentence; None while it is not.

    Two jobs of one user under one name are one work submitted twice: they are no two witnesses.
    """
    known = list(strikes)
    against = accusers(machine, known)
    works = {strike.work for strike in known if strike.job in against}
    if len(works) > 1:
        return f"different jobs crashed on it: {', '.join(sorted(against, key=_as_number))}"
    again = sorted((job for job, runs in against.items() if runs > 1), key=_as_number)
    if again:
        return f"job {again[0]} crashed on it {against[again[0]]} times and nowhere else"
    return None


def few(suspects: Iterable[str]) -> list[str]:
    """The machines that one crash makes suspect; nobody when they are too many for each other's accident."""
    found = list(suspects)
    return found if len(found) <= MOST_AT_ONCE else []


def _as_number(job: str) -> tuple[int, str]:
    return (int(job) if job.isdigit() else 0, job)
