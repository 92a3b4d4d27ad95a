"""A running job's ranks as they are compared with each other, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TENSOR, KERNELS, WAITS = "tensor", "kernels", "waits"
"""Kinds of readings: tensor cores busy and any kernel running, as a share of the time; ticks for which a rail
had to wait before it could send.
"""

BIN_S = 120.0
"""Readings come as the highest of each bin of so many seconds, whole bins since the epoch."""

Outcome = Literal["works", "stalled", "straggler", "unknown"]
Reason = Literal["", "gpus", "unread", "idle", "short", "few-nodes", "waits-unread", "shape", "no-answer"]


@dataclass(frozen=True, slots=True)
class Work:
    """A run: its nodes, how many GPUs it has on all of them (None: nobody knows), and when it began."""

    nodes: tuple[str, ...]
    gpus: int | None
    began: float


@dataclass(frozen=True, slots=True)
class Finding:
    """`flat_s` is how long no GPU has worked, `spinning` whether kernels ran on half of them or more all the
    while (None: not known); node and GPU are then the only one without. Of a straggler: the GPU, its `share`
    of what its peers do, the rail that waits.
    """

    outcome: Outcome
    reason: Reason = ""
    flat_s: float = 0.0
    spinning: bool | None = None
    node: str = ""
    gpu: str = ""
    share: float = 1.0
    rail: str = ""
