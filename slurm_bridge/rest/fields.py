"""Tolerant readers of single JSON fields: a wrong type is the field's absence, never an error."""

from __future__ import annotations

from typing import Any


def number(raw: Any) -> int | None:
    """Slurm's `{"set", "infinite", "number"}`, or a plain number; None when unset or infinite."""
    if isinstance(raw, dict):
        if not raw.get("set") or raw.get("infinite"):
            return None
        raw = raw.get("number")
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    try:
        return int(raw)
    except (ValueError, OverflowError):
        return None


def moment(raw: Any) -> float | None:
    """A time in seconds since the epoch; None for unset and for Slurm's 0."""
    value = number(raw)
    return float(value) if value is not None and value > 0 else None


def text(raw: Any) -> str:
    """A string, or an empty one."""
    return raw if isinstance(raw, str) else ""


def words(raw: Any) -> frozenset[str]:
    """A list of upper-case flag names."""
    if not isinstance(raw, list):
        return frozenset()
    return frozenset(word.upper() for word in raw if isinstance(word, str))
