"""Raw numbers of the driver made values with units, or a word that says why there is none. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

# The driver and the tools above it write "not available" as numbers just below these ceilings.
_BLANKS = ((0x7FFFFFF0, 0x7FFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x7FFFFFFFFFFFFFF0, math.inf))
_INT32, _INT64 = 2**32, 2**64
# A chip that is about to slow down is not this cool: margin and temperature contradict each other.
COOL_C = 60.0


class Unread(NamedTuple):
    """Why a value is absent, in a word that stands in a label."""

    reason: str


class Range(NamedTuple):
    """What a value may be, in its metric's unit, after it was divided by `scale`."""

    low: float
    high: float
    scale: float = 1.0
    signed: bool = False
    whole: bool = False


CELSIUS = Range(1, 130)
OFFSETS = Range(-50, 50, signed=True)
MARGINS = Range(-50, 130, signed=True)
FLAG = Range(0, 1, whole=True)
ROWS = Range(0, 100_000, whole=True)
ACTIONS = Range(0, 7, whole=True)
COUNT = Range(0, 1e15)
NANOSECONDS = Range(0, 1e10, scale=1e9)
PERCENT = Range(0, 1, scale=100.0)
STATES = Range(0, 3, whole=True)


def value_of(raw: float, allowed: Range) -> float | Unread:
    """`raw` in its metric's unit; blank, not a number or out of range is no value."""
    if allowed.signed:
        raw = _signed(raw)
    if not math.isfinite(raw):
        return Unread("implausible")
    if any(low <= raw <= high for low, high in _BLANKS):
        return Unread("blank")
    value = raw / allowed.scale
    if not allowed.low <= value <= allowed.high or (allowed.whole and value != int(value)):
        return Unread("implausible")
    return float(value)


def _signed(raw: float) -> float:
    """A negative number that came in an unsigned field."""
    for size in (_INT32, _INT64):
        if size - 1024 <= raw < size:
            return raw - size
    return raw


def contradicts(margin: float, offset: float | None, celsius: float | None) -> bool:
    """Whether a margin says that the limit is reached while the thermometer says that the chip is cool.

    H100 have been seen to report margins of 0 and -5 in such a state.
    """
    return celsius is not None and celsius < COOL_C and margin <= max(0.0, offset or 0.0)


def slowdown_margin(
    margin: float | None, offset: float | None, celsius: float | None, limit: float | None
) -> float | None:
    """Degrees until the hardware slows down, by T.Limit where there is one, else by the fixed limit."""
    if margin is not None and offset is not None:
        return margin - offset
    if celsius is not None and limit is not None:
        return limit - celsius
    return None
