"""Faults of one GPU within a minute: which is the root, and which only follow it. Pure.

A program that dies leaves XID 45 behind on every GPU it used, whatever killed it; a double-bit error (48)
comes with the line that says what became of it. What follows is never decided by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from remediator.incidents.evidence import is_trusted, same_gpu
from remediator.model.signal import Signal

COMPANIONS_S = 60.0
LATE_S = 2.0  # lines that come late come together
FOLLOW_ONS = frozenset({43, 45})
"""Codes that are never a root while there is another XID."""

_WITH_48 = (64, 95, 140, 172, 171, 63, 94)
_AFTER: dict[tuple[str, int], tuple[int, ...]] = {
    ("sxid", 20034): (79,),
    ("xid", 48): _WITH_48,
    ("xid", 163): (162,),
}
"""What follows which XIDs, the likeliest root first; 163 is cancelled by 162."""

_CANCELLED = frozenset({("xid", 163)})
"""What means nothing once its root is there, whatever becomes of that."""

_XIDS = frozenset({"xid", "fallen_off_bus"})


def decides_at(signal: Signal) -> float:
    """When all companions of a signal can be there. One that is told late has not long to wait, one that
    claims to be of the future no longer than one that was just seen.
    """
    all_there = max(signal.seen_at + COMPANIONS_S, signal.received_at + LATE_S)
    return min(all_there, signal.received_at + COMPANIONS_S)


def companions(signal: Signal, others: Iterable[Signal]) -> list[Signal]:
    """Those of `others` that are faults of the same GPU, or of no known one, within a minute."""
    return [
        other
        for other in others
        if other.dedupe != signal.dedupe
        and other.node == signal.node
        and (other.boot_id == signal.boot_id or "" in {other.boot_id, signal.boot_id})
        and number(other) is not None
        and abs(other.seen_at - signal.seen_at) <= COMPANIONS_S
        and _same_place(signal, other)
    ]


def number(signal: Signal) -> int | None:
    """The XID, or the SXid of a switch."""
    if signal.code is not None:
        return signal.code
    said = (signal.detail.get("extra") or {}).get("sxid")
    return said if isinstance(said, int) else None


def _any(_root: Signal) -> bool:
    return True


def root_of(
    signal: Signal, others: Iterable[Signal], leads: Callable[[Signal], bool] = _any
) -> Signal | None:
    """The companion that this signal only follows; None when it stands for itself. The same whatever the
    order in which they came. A root that does not lead to anything takes no fault along into the record.
    """
    roots = [
        other
        for other in companions(signal, others)
        if _follows(signal, other)
        and (is_trusted(other) or not is_trusted(signal))
        and (leads(other) or (signal.kind, signal.code) in _CANCELLED)
    ]
    return min(roots, key=lambda root: (_rank(signal, root), root.seen_at, root.dedupe), default=None)


def followers_of(signal: Signal, others: Iterable[Signal]) -> list[Signal]:
    """The companions that only follow this signal, oldest first, each kind and code once."""
    known = [signal, *others]
    found: dict[tuple[str, int | None], Signal] = {}
    for other in sorted(companions(signal, known), key=lambda one: (one.seen_at, one.dedupe)):
        if _follows(other, signal):
            found.setdefault((other.kind, number(other)), other)
    return list(found.values())


def _follows(signal: Signal, root: Signal) -> bool:
    if root.kind not in _XIDS:
        return False
    if signal.kind == "xid" and signal.code in FOLLOW_ONS:
        return root.code not in FOLLOW_ONS
    return root.code in _roots(signal)


def _rank(signal: Signal, root: Signal) -> int:
    order = _roots(signal)
    return order.index(root.code) if root.code in order else len(order)


def _roots(signal: Signal) -> tuple[int | None, ...]:
    return _AFTER.get((signal.kind, number(signal) or 0), ())


def _same_place(one: Signal, other: Signal) -> bool:
    """A switch is beside every GPU of its node."""
    return "sxid" in {one.kind, other.kind} or same_gpu(one, other)
