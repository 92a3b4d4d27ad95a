"""What one pass over the GPUs found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from remediator.agent.nvml.table import Key


@dataclass(frozen=True, slots=True)
class Identity:
    """A GPU through its life in a machine: the UUID is its own, index and PCI address are its place."""

    index: int
    uuid: str
    pci: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU: values that could be read; for the others, by field, a word that says why not."""

    gpu: Identity
    lost: bool = False
    values: Mapping[Key, float] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pass:
    """All GPUs at one moment; `state` is `reading`, or why there is nothing to read."""

    state: str
    readings: tuple[Reading, ...] = ()
