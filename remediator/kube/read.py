"""Tolerant reading of foreign JSON: a field of the wrong kind is a missing field."""

from __future__ import annotations

import sys
from datetime import datetime

from remediator.kube.errors import Json


def table(raw: Json, key: str) -> Json:
    """The object under `key`, or an empty one."""
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def rows(raw: Json, key: str) -> tuple[Json, ...]:
    """The objects of the list under `key`; others in it are left out."""
    value = raw.get(key)
    return tuple(row for row in value if isinstance(row, dict)) if isinstance(value, list) else ()


def words(raw: Json, key: str) -> tuple[str, ...]:
    """The strings of the list under `key`; others in it are left out."""
    value = raw.get(key)
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def text(raw: Json, key: str) -> str:
    """The string under `key`, or an empty one."""
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def strings(raw: Json, key: str) -> dict[str, str]:
    """A map of strings such as labels; its keys recur on every object and are shared."""
    return {sys.intern(name): value for name, value in table(raw, key).items() if isinstance(value, str)}


def moment(raw: Json, key: str) -> float | None:
    """The time under `key` in seconds since the epoch; None when it is none, or has no zone."""
    try:
        at = datetime.fromisoformat(text(raw, key))
        return at.timestamp() if at.tzinfo else None
    except (ValueError, OverflowError):
        return None
