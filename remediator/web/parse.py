"""A push's bytes as signals: wrong shapes are refused with their field, odd values become unknown."""

from __future__ import annotations

import re

from pydantic import ValidationError

from remediator.errors import BadInput
from remediator.model.signal import AgentPush, KernelEvent, PushedEvent, Signal
from remediator.signals.plain import BOOT_ID, END_OF_TIME, PCI, shown, small, storable

LONGEST_PROCESS = 256

_KIND = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def parse_push(body: bytes) -> AgentPush:
    """The push in `body`; BadInput names the first field that is wrong and repeats no value."""
    try:
        push = AgentPush.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise BadInput(".".join(map(str, first["loc"])) or "body", first["msg"]) from None
    if not BOOT_ID.fullmatch(push.boot_id):
        raise BadInput("boot_id", "letters, digits, dot, dash and underscore only")
    return push


def to_signals(push: AgentPush, now: float) -> list[Signal]:
    """One signal per event of `push`, received at `now`; the same event gives the same `dedupe` again."""
    return [_signal(push, event, now, f"events.{index}") for index, event in enumerate(push.events)]


def _signal(push: AgentPush, pushed: PushedEvent, now: float, where: str) -> Signal:
    event = pushed.event
    if not _KIND.fullmatch(event.kind):
        raise BadInput(f"{where}.event.kind", "lower-case letters, digits, dot, dash and underscore only")
    if not 0 <= pushed.seen_at <= END_OF_TIME:  # false for NaN too
        raise BadInput(f"{where}.seen_at", "must be seconds since 1970")
    return Signal(
        source="agent",
        node=push.node,
        boot_id=push.boot_id,
        kind=event.kind,
        code=small(_code(event)),
        pci=event.pci if event.pci and PCI.fullmatch(event.pci) else None,
        seen_at=pushed.seen_at,
        received_at=now,
        dedupe=f"agent:{push.node}:{push.boot_id}:{_sequence(pushed.seq, where)}",
        detail={
            "pid": small(event.pid),
            "process": None if event.process is None else shown(event.process[:LONGEST_PROCESS]),
            "extra": storable(event.extra),
            "raw": shown(event.raw),
        },
    )


def _code(event: KernelEvent) -> int | None:
    """The XID; of a switch's event its SXid."""
    if event.kind != "sxid":
        return event.xid
    sxid = event.extra.get("sxid")
    return sxid if type(sxid) is int else None


def _sequence(seq: int, where: str) -> int:
    if seq >= 2**63:
        raise BadInput(f"{where}.seq", "too large")
    return seq
