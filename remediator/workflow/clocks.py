"""What Slurm dates by its own clock is compared with that clock: ours may be wrong."""

from __future__ import annotations

from remediator.workflow.context import Context


def slurms_now(context: Context) -> float:
    """Seconds since the epoch by slurmctld's clock, by ours where Slurm does not tell."""
    theirs = context.slurm.config().clock
    return context.now if theirs is None else float(theirs)
