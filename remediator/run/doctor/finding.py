"""What one check found, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`change` is the exact line to set or command to run; empty when all is well."""

    check: str
    level: Level
    says: str
    change: str = ""


def ok(check: str, says: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", says)


def warn(check: str, says: str, change: str) -> Finding:
    """It works, but not as well or as safely as it could."""
    return Finding(check, "warn", says, change)


def error(check: str, says: str, change: str) -> Finding:
    """Jobs may be lost, or nothing is done."""
    return Finding(check, "error", says, change)


def of_clock(check: str, seconds: float, other: str, within: float) -> Finding:
    """A clock that differs from ours by `seconds`; a little more than `within` is still bearable."""
    says = f"{abs(seconds):.1f} s {'behind' if seconds < 0 else 'ahead of'} this clock"
    change = f"let NTP set the clocks here and on {other}"
    if abs(seconds) <= within:
        return ok(check, f"differs by {abs(seconds):.1f} s")
    return (warn if abs(seconds) <= within + 5.0 else error)(check, says, change)
