"""A push's bytes as signals: wrong shapes are refused with their field, odd values become unknown."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import ValidationError

from remediator.errors import BadInput
from remediator.model.signal import AgentPush, PushedEvent, Signal

END_OF_TIME = 253_402_300_799.0  # the last second that a calendar date can name
LARGEST_INT = 2**31 - 1
LONGEST_PROCESS = 256
LONGEST_EXTRA = 4096

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}")
_KIND = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_BOOT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")


def parse_push(body: bytes) -> AgentPush:
    """The push in `body`; BadInput names the first field that is wrong and repeats no value."""
    try:
        push = AgentPush.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise BadInput(".".join(map(str, first["loc"])) or "body", first["msg"]) from None
    if not _BOOT_ID.fullmatch(push.boot_id):
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
        code=_small(event.xid),
        pci=event.pci if event.pci and _PCI.fullmatch(event.pci) else None,
        seen_at=pushed.seen_at,
        received_at=now,
        dedupe=f"agent:{push.node}:{push.boot_id}:{_sequence(pushed.seq, where)}",
        detail={
            "pid": _small(event.pid),
            "process": None if event.process is None else _shown(event.process[:LONGEST_PROCESS]),
            "extra": _extra(event.extra),
            "raw": _shown(event.raw),
        },
    )


def _sequence(seq: int, where: str) -> int:
    if seq >= 2**63:
        raise BadInput(f"{where}.seq", "too large")
    return seq


def _small(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= LARGEST_INT else None


def _extra(extra: dict[str, Any]) -> Any:
    """Side facts that are fit to be stored; odd ones are left out, since the event itself still counts."""
    try:
        length = len(json.dumps(extra, allow_nan=False))
    except (ValueError, RecursionError):
        return {"left_out": "not plain JSON"}
    return (
        _shown(extra) if length <= LONGEST_EXTRA else {"left_out": f"longer than {LONGEST_EXTRA} characters"}
    )


def _shown(value: Any) -> Any:
    """`value` with control characters written as escapes: it will be stored, logged and printed."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    if isinstance(value, dict):
        return {_shown(key): _shown(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_shown(below) for below in value]
    return value
