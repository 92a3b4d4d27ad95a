"""Conditions of nodes and pods as others write them; what the kubelet says of itself is left out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from remediator.kube.errors import Json
from remediator.kube.read import moment, text

OF_KUBELET = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
OF_SLURM = "SlurmNodeState"
"""How the conditions begin that slurm-operator writes on worker pods."""

LONGEST, SHORT = 2048, 80


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `since` is its last transition in seconds since the epoch, None when unreadable."""

    kind: str
    status: str
    reason: str
    message: str
    since: float | None


def of_node(found: Iterable[Json]) -> tuple[Condition, ...]:
    """Those of a node that are not the kubelet's own."""
    return tuple(_condition(row) for row in found if text(row, "type") not in OF_KUBELET)


def of_worker(found: Iterable[Json]) -> tuple[Condition, ...]:
    """Those of a worker pod by which slurm-operator mirrors Slurm's states."""
    return tuple(_condition(row) for row in found if text(row, "type").startswith(OF_SLURM))


def ready_since(found: Iterable[Json]) -> float | None:
    """When the kubelet's Ready last changed; None when unknown."""
    return next((moment(row, "lastTransitionTime") for row in found if row.get("type") == "Ready"), None)


def _condition(row: Json) -> Condition:
    kind, status, reason, message = (
        _shared(text(row, key)) for key in ("type", "status", "reason", "message")
    )
    return Condition(kind, status, reason, message, moment(row, "lastTransitionTime"))


def _shared(written: str) -> str:
    """The same few words stand on every node of a cluster: one copy of them is kept."""
    return sys.intern(written) if len(written) <= SHORT else written[:LONGEST]
