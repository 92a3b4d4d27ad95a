"""What the comparison of a job's ranks found -> Signals: a job that stands still, a node that lags. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from remediator.model.faults import JOB_STALLED, STRAGGLER
from remediator.model.ranks import BIN_S, Finding
from remediator.model.run import JobRun
from remediator.model.signal import Signal
from remediator.signals.plain import shown

HOUR_S = 3600.0
_LONGEST = 1000
AGAIN_S = 600.0
"""A straggler that still lags is told again so often: evidence that is not, has passed."""


def job_stalled(run: JobRun, found: Finding, together: int, now: float) -> Signal:
    """Told once, and once more each hour it lasts; `together` jobs stand still since about the same time. It
    names no node: whatever makes a job wait, the node that shows it is not the one at fault.
    """
    began = int(now // BIN_S) - int(found.flat_s // BIN_S)
    minutes = f"{found.flat_s / 60:.0f} min"
    says = (
        f"job {run.address} of {run.user or 'unknown'} stands still: no tensor work on any of its GPUs for "
        f"{minutes}{_kernels(found)}"
    )
    extra: dict[str, Any] = {"flat_s": found.flat_s, "together": together, "nodes": len(run.nodes)}
    if found.spinning is not None:
        extra["spinning"] = found.spinning
    detail = {"says": says, "run": run.model_dump(mode="json"), "since": began * BIN_S, "extra": extra}
    return Signal(
        source="slurm",
        node="",
        boot_id="",
        kind=JOB_STALLED,
        seen_at=now,
        received_at=now,
        dedupe=f"{JOB_STALLED}:{run.key}:{began}:{int(found.flat_s // HOUR_S)}",
        detail=detail,
    )


def _kernels(found: Finding) -> str:
    if found.spinning is None:
        return ""
    if not found.spinning:
        return ", and most of them run no kernels either"
    but = f" on all but {found.gpu} of {found.node}" if found.node else ""
    return f", while kernels run{but} all the time"


def laid_over(stall: Signal, says: str, nodes: Sequence[str]) -> Signal:
    """The stall with what its nodes did until then, and those of them that stand out."""
    text = shown(f"{stall.detail['says']}; about the end of its work: {says}")[:_LONGEST]
    return stall.model_copy(update={"detail": {**stall.detail, "says": text, "nodes": list(nodes)}})


def straggler(run: JobRun, node: str, boot_id: str, found: Finding, now: float) -> Signal:
    """Evidence against the node for as long as it is told again."""
    says = (
        f"{found.gpu} of {node} does {found.share:.0%} of what job {run.address}'s other nodes do, "
        f"and its {found.rail} waits to send"
    )
    extra = {"job": run.address, "share": found.share, "rail": found.rail, "nodes": len(run.nodes)}
    return Signal(
        source="condition",
        node=node,
        boot_id=boot_id,
        kind=STRAGGLER,
        seen_at=now,
        received_at=now,
        dedupe=f"{STRAGGLER}:{node}:{boot_id}:{run.key}:{int(now // AGAIN_S)}",
        detail={"says": says, "extra": extra},
    )
