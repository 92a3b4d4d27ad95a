"""Jobs whose save takes longer than they get for it -> Signals: once, and again when they are well. Pure."""

from __future__ import annotations

from typing import Any

from remediator.model.checkpoint import JobKey
from remediator.model.signal import ONLY_RECORDED, Signal

SLOW, WELL = "save-slow", "save-well"


def slow(pool: str, key: JobKey, times: int, why: str, now: float) -> Signal:
    """It has been well `times` times before; `why` is half a sentence."""
    says = f"saves in pool {pool} are slow: {key}: {why}"
    return _signal(SLOW, pool, key, times, now, {"says": says, "pool": pool, "user": key.user, "why": why})


def well(pool: str, key: JobKey, times: int, save_s: float, now: float) -> Signal:
    """Its last save was quick enough."""
    says = f"saves in pool {pool}: {key} is well again, {save_s:.0f} s"
    return _signal(WELL, pool, key, times, now, {"says": says, ONLY_RECORDED: True})


def dedupe(kind: str, pool: str, key: JobKey, times: int) -> str:
    """What makes each of them one row."""
    return f"{kind}:{pool}:{key}:{times}"


def _signal(kind: str, pool: str, key: JobKey, times: int, now: float, detail: dict[str, Any]) -> Signal:
    return Signal(
        source="slurm",
        node="",
        boot_id="",
        kind=kind,
        seen_at=now,
        received_at=now,
        dedupe=dedupe(kind, pool, key, times),
        detail=detail,
    )
