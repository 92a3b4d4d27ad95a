"""What one look says about the checkpoints of one job."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.model.checkpoint import JobKey


@dataclass(frozen=True)
class View:
    """One job's checkpoints at one look; `times` of the complete ones in wall time, newest first."""

    key: JobKey
    newest: str
    times: tuple[float, ...]
    save_s: float | None
    cadence_s: float | None
    partial: tuple[str, ...]
    writing: bool
