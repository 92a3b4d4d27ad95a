"""What to do about a running job that stands still: one pure function, and the sentence that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.model.run import JobRun
from remediator.policy.crashes import MOVES_JOBS, Restart
from remediator.policy.rule import Rule

SHARED = 3
"""Jobs that stand still since about the same time: what they share is at fault, storage most often."""

FRESH_S = 300.0
"""What was seen longer ago may be over; it is told again if it is not."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall, and what the store, the rules and the settings say around it.

    `rule` is the one that speaks (None: none does), `seen_s` how long ago it was seen, `covered` the incident
    that sees to the run or has had its requeue, `saved` whether it has saved since it stands still, `stages`,
    `wanted` and `restarts` are as those of a crash.
    """

    run: JobRun
    says: str
    rule: Rule | None
    seen_s: float
    together: int
    covered: str
    saved: bool
    stages: frozenset[str]
    wanted: bool
    restarts: int
    limit: int


def decide_stall(stall: Stall) -> Restart:
    """The first reason that speaks against a restart, else yes; `tell`: its owner should hear of it."""
    for applies, why, tell in _against(stall):
        if applies:
            return Restart(False, f"{stall.says}: {why}", tell)
    because = stall.rule.cause if stall.rule else ""
    return Restart(True, f"{stall.says}: it is restarted, because {because}")


def _against(stall: Stall) -> list[tuple[bool, str, bool]]:
    rule = stall.rule
    barred = ", ".join(sorted(stall.stages - MOVES_JOBS))
    return [
        (not stall.stages, "it is on no node of a pool, recorded", False),
        (stall.seen_s > FRESH_S, f"that was {stall.seen_s:.0f} s ago, recorded", False),
        (bool(stall.covered), f"incident {stall.covered} has seen to it, recorded", False),
        (stall.saved, "it has saved meanwhile, recorded", False),
        (rule is None, "no rule speaks about that, recorded", False),
        (
            rule is not None and rule.plan != "restart-job",
            f"left as it is ({rule.why if rule else ''})",
            True,
        ),
        (stall.run.release != "requeue", f"left as it is, because {stall.run.why}", True),
        (bool(barred), f"its pool is at stage {barred}, left as it is", True),
        (not stall.wanted, "restart_failed_jobs is off for its pool, left as it is", True),
        (
            stall.together >= SHARED,
            f"{stall.together} jobs stand still since then, which points to what they share: left as it is",
            True,
        ),
        (
            stall.restarts >= stall.limit,
            f"it was restarted {stall.restarts} times already, which points to its own fault: left as it is",
            True,
        ),
    ]
