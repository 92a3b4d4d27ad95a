"""Which kinds of events there are, which are worth a push, and when they happened."""

from __future__ import annotations

from remediator.agent.records import Gap, Record
from remediator.model.signal import KernelEvent

PUSHED = frozenset({"xid", "sxid", "fallen_off_bus", "gap", "gsp_rate_limit", "ib_lost_carrier", "nic_event"})
KINDS = (*sorted(PUSHED), "gpu_map", "sxid_continuation")


def gap_event(gap: Gap) -> KernelEvent:
    """A hole in the log as an event of its own: what was in it stays unknown."""
    return KernelEvent(kind="gap", extra={"first": gap.first, "lost": gap.lost})


def happened_at(record: Record, *, live: bool, now: float, steady: float) -> float:
    """Wall time of a record. Live ones happened now; older ones are placed by their time since boot."""
    age = steady - record.usec / 1e6
    return now if live or age < 0 else now - age
