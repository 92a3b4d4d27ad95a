"""Signals and machines that policies are asked about."""

from __future__ import annotations

from typing import Any

from remediator.model.machine import Machine
from remediator.model.signal import Signal


def xid(code: int | None, *, kind: str = "xid", **extra: Any) -> Signal:
    """An event of the kernel log, with what its line says."""
    return Signal(
        source="agent",
        node="gpu-0",
        boot_id="b1",
        kind=kind,
        code=code,
        pci="0000:01:00",
        seen_at=1.0,
        received_at=1.0,
        dedupe="d",
        detail={"extra": extra},
    )


def machine(**changes: Any) -> Machine:
    """A machine in service, of a pool that may be acted on."""
    base: dict[str, Any] = {
        "name": "gpu-0",
        "uid": "u",
        "boot_id": "b1",
        "pool": "gpu",
        "stage": "full",
        "pool_size": 5,
    }
    return Machine(**(base | changes))
