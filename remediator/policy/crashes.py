"""What to do about a job that ended badly: one pure function, and the sentence that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.model.incident import RESTART_JOB
from remediator.model.job_end import JobEnd
from remediator.model.signal import Signal
from remediator.policy.rules import Rules

MOVES_JOBS = frozenset({"move-jobs", "full"})
FRESH_S = 900.0
STORM_S = 600.0
STORM = 10


@dataclass(frozen=True, slots=True)
class Crash:
    """A job's end and what the store and the settings say around it.

    `no_crash` is why the rules do not call it one ("": they do).
    `covered` is the incident that moves jobs off one of its nodes, `stages` are those of its nodes' pools,
    `wanted` whether all of these restart failed jobs, `restarts` how often we restarted this job already,
    `lately` how many jobs crashed within ten minutes, `alike` how many machines its runs struck if all struck
    the same.
    """

    end: JobEnd
    watching_since: float
    covered: str
    stages: frozenset[str]
    wanted: bool
    restarts: int
    limit: int
    lately: int
    now: float
    no_crash: str = ""
    alike: int = 0

    @property
    def is_given_up(self) -> bool:
        """Restarted often enough."""
        return self.restarts >= self.limit

    @property
    def is_storm(self) -> bool:
        """So many at once that something they share is at fault."""
        return self.lately > STORM


@dataclass(frozen=True, slots=True)
class Restart:
    """Whether the job is restarted and why; `tell` says that its owner wants to know why not, `page` that the
    operators have to look.
    """

    yes: bool
    sentence: str
    tell: bool = False
    page: bool = False


def no_crash(end: Signal, rules: Rules) -> str:
    """Why the end of a run, as it was handed in, is no crash; `""` when it is one."""
    found = rules.read(end)
    if found.rule is None:
        return f"no rule calls that a crash ({found.reason})"
    return "" if found.rule.plan == RESTART_JOB else found.rule.cause


def decide_restart(crash: Crash) -> Restart:
    """The first reason that speaks against it, else yes."""
    end = crash.end
    who = f"job {end.run.address} of {end.run.user or 'unknown'} {end.how}"
    for applies, why, tell in _against(crash):
        if applies:
            return Restart(False, f"{who}: {why}", tell, crash.is_given_up and crash.alike > 1)
    if crash.covered:
        return Restart(True, f"{who} on a node of incident {crash.covered}: it is restarted")
    return Restart(True, f"{who} without evidence against a node: it is restarted")


def _against(crash: Crash) -> list[tuple[bool, str, bool]]:
    end = crash.end
    return [
        (bool(crash.no_crash), f"{crash.no_crash}, recorded", False),
        (end.ended < crash.watching_since, "before its end was watched for, recorded", False),
        (end.state == "NODE_FAIL", "Slurm itself requeues what it loses with a node, recorded", False),
        (end.run.release != "requeue", f"left failed, because {end.run.why}", False),
        (crash.now - end.ended > FRESH_S, "too long ago, left failed", False),
        (
            not crash.stages <= MOVES_JOBS,
            f"its pool is at stage {', '.join(sorted(crash.stages - MOVES_JOBS))}, left failed",
            False,
        ),
        (
            not crash.covered and not crash.wanted,
            "restart_failed_jobs is off for its pool, left failed",
            False,
        ),
        (
            not crash.covered and crash.is_storm,
            f"{crash.lately} jobs crashed within 10 minutes, which points to what they share: left failed",
            True,
        ),
        (
            crash.is_given_up,
            f"it was restarted {crash.restarts} times and crashed again, {_points_to(crash)}: left failed",
            True,
        ),
    ]


def _points_to(crash: Crash) -> str:
    """A job that always has the same machines cannot be told from them."""
    if crash.alike <= 1:
        return "which points to its own fault"
    return (
        f"always on the same {crash.alike} nodes, and nothing tells these apart: whether it is its own fault "
        f"or one of theirs cannot be told until it runs elsewhere, or something else there"
    )
