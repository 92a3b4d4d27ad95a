"""What came in from the world: one observation, by whom, about which node and boot."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from remediator.model.base import Ours
from remediator.model.checkpoint import CheckpointLook

MAX_RAW = 2048
SILENT = "silent"
"""Kind of a signal that carries both witnesses: a machine's agent and its slurmd are silent."""

CONDITION = "condition"
"""Kind of a signal about a condition of a node that names no code; what it means is in its detail."""

ONLY_RECORDED = "only_recorded"
"""Detail of a signal of our own looks that is written down, with the sentence in `says`, and never judged."""


class KernelEvent(Ours):
    """One kernel-log line as parsed; `pci` is lower-case dddd:bb:dd or None."""

    kind: str
    xid: int | None = None
    pci: str | None = None
    pid: int | None = None
    process: str | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    raw: str = Field(default="", max_length=MAX_RAW)


class PushedEvent(Ours):
    """A kernel event with its place in the node's log: `seq` counts within `boot_id`."""

    seq: int = Field(ge=0)
    seen_at: float
    event: KernelEvent


class AgentPush(Ours):
    """Body of POST /v1/signals: events of one node's present boot; an empty list is a heartbeat. An agent
    that reads a shared file system adds what it sees of checkpoints there.
    """

    version: Literal[1] = 1
    node: str = Field(min_length=1, max_length=253)
    boot_id: str = Field(min_length=8, max_length=64)
    events: tuple[PushedEvent, ...] = Field(default=(), max_length=500)
    checkpoints: tuple[CheckpointLook, ...] = Field(default=(), max_length=16)


class Signal(Ours):
    """One observation as the intake stores it; `dedupe` makes a repeated delivery the same row."""

    source: Literal["agent", "webhook", "backfill", "condition", "slurm"]
    node: str
    boot_id: str
    kind: str
    code: int | None = None
    pci: str | None = None
    seen_at: float
    received_at: float
    dedupe: str
    detail: dict[str, Any] = Field(default_factory=dict)

    @property
    def what(self) -> str:
        """Its kind, with the code if it has one, as sentences name it."""
        return self.kind if self.code is None else f"{self.kind} {self.code}"
