"""What was last seen of the Slurm nodes under treatment; to wake a closer look, never to act on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Drained:
    """One Slurm node as last read: whether it has DRAIN, its reason, and when its slurmd `started`."""

    drain: bool
    reason: str
    read_at: float
    started: float | None = None


@dataclass(frozen=True, slots=True)
class SlurmView:
    """The nodes that could be read, by name."""

    nodes: dict[str, Drained] = field(default_factory=dict)
