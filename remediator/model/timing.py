"""When the jobs of a machine are moved that is drained and fenced at once."""

from __future__ import annotations

from typing import Literal, get_args

Timing = Literal["now", "at-checkpoint", "at-job-end"]
"""At once; when a complete checkpoint newer than the decision is there; when they end by themselves."""

CAP_S = 1800.0
"""For how long a checkpoint is waited for, in seconds; then the jobs are moved all the same."""

_BY_HASTE: tuple[Timing, ...] = get_args(Timing)


def hastier(one: Timing, other: Timing) -> Timing:
    """The one of the two that waits less."""
    return min(one, other, key=_BY_HASTE.index)


def timing_for(tier: str, rule: Timing, pool: Timing | None) -> Timing:
    """What holds for a pool: evidence that is final (T0), or whose rule says `now`, waits for nobody's
    settings; of the rest the pool may make what it wants.
    """
    return "now" if tier == "T0" or rule == "now" else pool or rule
