"""Which kinds of events there are, and which are worth a push."""

from __future__ import annotations

from remediator.agent.nvml import watch
from remediator.agent.records import Gap
from remediator.model.signal import KernelEvent

FAULT_LINES = frozenset({"xid", "sxid", "fallen_off_bus"})
"""Kinds whose lines come in bursts."""
READINGS = frozenset({"ib-port-down", "hca-gone", *watch.KINDS})
"""What collectors say about the hardware they read."""
PUSHED = FAULT_LINES | READINGS | {"gap", "gsp_rate_limit", "ib_lost_carrier", "nic_event"}
KINDS = (*sorted(PUSHED), "gpu_map", "sxid_continuation")


def gap_event(gap: Gap) -> KernelEvent:
    """A hole in the log as an event of its own: what was in it stays unknown."""
    return KernelEvent(kind="gap", extra={"first": gap.first, "lost": gap.lost})
