"""What a crash laid over its nodes' readings says -> a Signal that is recorded, and counts at most. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from remediator.model.job_end import JobEnd
from remediator.model.signal import Signal
from remediator.model.strike import EXAMINED
from remediator.signals.plain import shown

FORENSICS = EXAMINED
"""Its sentence is in the detail `says`, the nodes it names in `nodes`, the job's end in `job` and `ended`;
`clear` says that it counts against the one node it names.
"""

_LONGEST = 1000


def forensic(
    end: JobEnd, outcome: str, says: str, nodes: Sequence[str], now: float, *, clear: bool = False
) -> Signal:
    """The one answer about this run; it names no node as its own, so that no rule takes it for evidence."""
    sentence = shown(f"job {end.run.address} {end.how}: {says}")
    return Signal(
        source="slurm",
        node="",
        boot_id="",
        kind=FORENSICS,
        seen_at=end.ended,
        received_at=now,
        dedupe=f"{FORENSICS}:{end.run.key}",
        detail={
            "says": sentence[:_LONGEST],
            "outcome": outcome,
            "nodes": list(nodes),
            "clear": clear,
            "job": end.run.job_id,
            "run": end.run.key,
            "ended": end.ended,
        },
    )
