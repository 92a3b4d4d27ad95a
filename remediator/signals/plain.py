"""Values from outside made fit to be stored, logged and printed."""

from __future__ import annotations

import json
import re
from typing import Any

END_OF_TIME = 253_402_300_799.0  # the last second that a calendar date can name
LARGEST_INT = 2**31 - 1
LONGEST_EXTRA = 4096
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}")
BUS = re.compile(r"(?:0000)?(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?")
BOOT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")


def bus(written: str) -> str | None:
    """A PCI address as the kernel log has it, else None; DCGM writes eight digits of domain, upper case and a
    function.
    """
    match = BUS.fullmatch(written.lower())
    return match["device"] if match and PCI.fullmatch(match["device"]) else None


def small(number: int | None) -> int | None:
    """`number` when every store can hold it and it is not negative, else None: unknown."""
    return number if number is not None and 0 <= number <= LARGEST_INT else None


def storable(extra: dict[str, Any]) -> Any:
    """Side facts that are fit to be stored; odd ones are left out, since the event itself still counts."""
    try:
        length = len(json.dumps(extra, allow_nan=False))
    except (ValueError, RecursionError):
        return {"left_out": "not plain JSON"}
    return (
        shown(extra) if length <= LONGEST_EXTRA else {"left_out": f"longer than {LONGEST_EXTRA} characters"}
    )


def shown(value: Any) -> Any:
    """`value` with control characters written as escapes: it will be stored, logged and printed."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
    if isinstance(value, dict):
        return {shown(key): shown(below) for key, below in value.items()}
    if isinstance(value, list):
        return [shown(below) for below in value]
    return value
