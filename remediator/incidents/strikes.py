"""When crashes speak against a machine: jobs of different users, or one job again and nowhere else. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from remediator.model.strike import Strike
from remediator.settings import Witness

MOST_AT_ONCE = 2
"""Machines that one crash may make suspect: more of them point to the job, or to what they share."""
CHANCE = 0.05
"""Machines of a whole pool that may look so bad by coincidence before one counts as suspect."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The other machines of its pool: how many, how much crashes spoke against all of them together, and how
    many jobs crashed `again` there.
    """

    count: int
    burden: float
    again: int = 0

    @property
    def usual(self) -> float:
        """The burden of one of them."""
        return self.burden / max(self.count, 1)


def accusers(machine: str, strikes: Iterable[Strike]) -> dict[str, int]:
    """Jobs whose every crash was (also) on this machine, and how often the same one of their tasks crashed.

    A job that crashed without it as well carries its fault with it: it says nothing about the machine.
    Tasks of one array that crash side by side are one job that crashed once.
    """
    return {
        job: _times(runs)
        for job, runs in _crashes(strikes).items()
        if all(machine in on for on in runs.values())
    }


def burdens(strikes: Iterable[Strike], of: Witness) -> dict[str, dict[str, float]]:
    """By machine and witness what crashes say against it: 1 divided by the machines that all crashes of the
    job have in common. A witness says as much as the one job of his that says most.
    """
    known = list(strikes)
    who = {strike.job: _witness(strike, of) for strike in known}
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for job, runs in _crashes(known).items():
        common = set.intersection(*runs.values())
        for machine in common:
            before = found[machine].get(who[job], 0.0)
            found[machine][who[job]] = max(before, 1 / len(common))
    return dict(found)


def repeats(strikes: Iterable[Strike]) -> dict[str, frozenset[str]]:
    """Jobs that crashed more than once, an array by the same of its tasks, and the machines that all these
    crashes have in common.
    """
    return {
        job: frozenset.intersection(*map(frozenset, runs.values()))
        for job, runs in _crashes(strikes).items()
        if _times(runs) > 1
    }


def chance(burden: float, usual: float) -> float:
    """How likely a machine bears this much or more by coincidence where `usual` is the mean (Poisson, made
    continuous): 1.0 where it bears no more than that.
    """
    if burden <= usual:
        return 1.0
    if usual <= 0:
        return 0.0
    term = math.exp(burden * math.log(usual) - usual - math.lgamma(burden + 1))
    total, step = term, 1
    while term > total * 1e-12:
        term *= usual / (burden + step)
        total, step = total + term, step + 1
    return min(total, 1.0)


def suspicion(
    machine: str, strikes: Iterable[Strike], peers: Peers, lately: float, of: Witness
) -> str | None:
    """Why the machine is suspect, as half a sentence; None while it is not.

    Different witnesses count when both crashed since `lately`; two jobs of one user under one name are one
    work submitted twice, and never two witnesses. One job again counts alone only where no other does that.
    """
    known = list(strikes)
    against = accusers(machine, known)
    fresh = {strike.job for strike in known if strike.machine == machine and strike.at >= lately}
    recent = fresh & set(against)
    said = burdens((strike for strike in known if strike.job in recent), of).get(machine, {})
    by_chance = (peers.count + 1) * chance(sum(said.values()), peers.usual)
    if len(said) > 1 and by_chance <= CHANCE:
        return f"different jobs crashed on it: {', '.join(sorted(recent, key=_as_number))}"
    again = sorted((job for job, on in repeats(known).items() if machine in on), key=_as_number)
    again = [job for job in again if _singles_out(job, known)]
    if again and (len(said) > 1 or not peers.again):
        return f"job {again[0]} crashed on it {against[again[0]]} times and nowhere else"
    return None


def few(suspects: Iterable[str]) -> list[str]:
    """The machines that one crash makes suspect; nobody when they are too many for each other's accident."""
    found = list(suspects)
    return found if len(found) <= MOST_AT_ONCE else []


def _singles_out(job: str, strikes: Iterable[Strike]) -> bool:
    """Whether its crashes have one machine in common, or moved: the same two each time tell of neither."""
    on = list(_crashes(one for one in strikes if one.job == job)[job].values())
    common = set.intersection(*on)
    return len(common) == 1 or any(machines != common for machines in on)


def _times(runs: Iterable[str]) -> int:
    """How often the same task of a job crashed."""
    return max(Counter(run.partition(".")[0] for run in runs).values())


def _crashes(strikes: Iterable[Strike]) -> dict[str, dict[str, set[str]]]:
    """By job and run the machines that it crashed on."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for strike in strikes:
        found[strike.job][strike.run].add(strike.machine)
    return found


def _witness(strike: Strike, of: Witness) -> str:
    return strike.work.partition("/")[0] if of == "user" else strike.work


def _as_number(job: str) -> tuple[int, str]:
    return (int(job) if job.isdigit() else 0, job)
