"""What the driver asks for on a GPU: XID 154 and NVML's recovery action tell the same value. Pure.

The newest verdict stands. Each names the one before it: where a clock was set back, none is taken for the
successor of one that came after it.
"""

from __future__ import annotations

from collections.abc import Iterable

from remediator.model.signal import Signal

XID = 154
ASKS = "gpu-recovery-action"
NAMES = {
    0: "nothing",
    1: "a GPU reset",
    2: "a node reboot",
    3: "a drain of P2P",
    4: "a drain and reset",
    5: "a recovery of the IMEX domain",
    6: "a bus reset",
    7: "a system reboot",
}
_GRAVE = {0: 0, 5: 1, 1: 2, 6: 2, 3: 3, 4: 3, 2: 4, 7: 4}


def successor(signal: Signal, others: Iterable[Signal]) -> Signal | None:
    """The verdict of `others` that took the place of this one, the newest if there are several."""
    said = _verdict(signal)
    if said is None:
        return None
    found = [
        other
        for other in others
        if (then := _verdict(other)) is not None
        and (other.node, other.boot_id, other.pci) == (signal.node, signal.boot_id, signal.pci)
        and other.seen_at >= signal.seen_at
        and then[0] == said[1] != then[1]
    ]
    return max(found, key=lambda one: (one.seen_at, one.dedupe), default=None)


def asks_for(signal: Signal) -> str:
    """What the driver wants, in words; "" when the signal is no verdict."""
    said = _verdict(signal)
    return "" if said is None else NAMES.get(said[1], f"action {said[1]}")


def is_lowered(signal: Signal) -> bool:
    """Whether it is a verdict that asks for less than the one before it."""
    said = _verdict(signal)
    return said is not None and set(said) <= _GRAVE.keys() and _GRAVE[said[1]] < _GRAVE[said[0]]


def _verdict(signal: Signal) -> tuple[int, int] | None:
    """The action before and now; None for other faults, and where one of both is not known."""
    if signal.source != "agent" or not (signal.kind == ASKS or (signal.kind, signal.code) == ("xid", XID)):
        return None
    extra = signal.detail.get("extra")
    if not isinstance(extra, dict):
        return None
    before, now = extra.get("recovery_from"), extra.get("recovery_to")
    return (before, now) if type(before) is int and type(now) is int else None
