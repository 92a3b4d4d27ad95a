"""Work that a stop costs: GPU-hours between a job's newest complete checkpoint and the stop. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from remediator.model.checkpoint import Saved
from remediator.model.run import JobRun


@dataclass(frozen=True, slots=True)
class Loss:
    """None is unknown, never nothing. The `checkpoint` (`""`: the job is known to have none) was complete
    `before_s` seconds before the stop; the run has computed for `lost_s` since, on `gpus` GPUs.
    """

    checkpoint: str | None = None
    before_s: float | None = None
    lost_s: float | None = None
    gpus: int | None = None

    @property
    def gpu_hours(self) -> float | None:
        """What is lost."""
        known = self.lost_s is not None and self.gpus is not None
        return round((self.lost_s or 0.0) * (self.gpus or 0) / 3600, 2) if known else None

    @property
    def facts(self) -> dict[str, Any]:
        """For the record."""
        return asdict(self) | {"gpu_hours": self.gpu_hours}

    def __str__(self) -> str:
        if self.checkpoint is None:
            return "last complete checkpoint unknown, lost work unknown"
        hours = "an unknown number of" if self.gpu_hours is None else f"{self.gpu_hours:g}"
        if self.before_s is None:
            return f"no complete checkpoint; {hours} GPU-hours lost since its start"
        return f"last complete checkpoint {self.before_s:.0f} s before the stop; {hours} GPU-hours lost"


def loss_of(run: JobRun, saved: Saved, stopped: float) -> Loss:
    """What is lost of a run that stopped then, or would be if it did."""
    last, began = saved.last_before(stopped), run.started_at
    if not saved.known or (saved.times and last is None):
        return Loss(gpus=run.gpus)  # nobody looked, or what was seen is all younger
    if last is None:
        return Loss("", None, None if began is None else max(0.0, stopped - began), run.gpus)
    since = last if began is None else max(last, began)  # before its start it lost nothing of its own
    name = saved.newest if last == saved.newest_at else "one before"
    return Loss(name, stopped - last, max(0.0, stopped - since), run.gpus)
