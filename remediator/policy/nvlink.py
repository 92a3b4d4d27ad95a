"""What the words behind an NVLink error mean: XID 144-150 by their table, XID 74 by bits of registers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from remediator.policy.catalogue import NVLINK5, Nvlink5Row, load

NVLINK4 = 74
WORD = 2**32
# Bits by register; what is not named here is a fault of the link.
_IGNORED: Mapping[int, int] = {0: 1 << 0 | 1 << 23 | 1 << 30}
_REPORTED: Mapping[int, int] = {0: 1 << 1 | 1 << 20, 3: WORD - 1, 4: WORD - 1}


def nvlink5(code: int | None, extra: Mapping[str, Any]) -> str | None:
    """Our action for an event of XID 144-150: that of its row of the table. None when no row fits, rows of
    different actions do, or the line was cut.
    """
    unit, words = extra.get("unit"), [_word(extra.get(name)) for name in ("intr_info", "error_status")]
    if code not in NVLINK5 or not isinstance(unit, str) or None in words:
        return None
    actions = {row.our_action for row in load().nvlink5 if _is(row, code, unit, words)}
    return actions.pop() if len(actions) == 1 else None


def nvlink4(code: int | None, extra: Mapping[str, Any]) -> Literal["nothing", "report", "link"] | None:
    """What the registers of an XID 74 speak of; None when they were cut."""
    said = extra.get("registers")
    if code != NVLINK4 or extra.get("registers_complete") is not True or not isinstance(said, list):
        return None
    words = [_word(word) for word in said]
    if None in words:
        return None
    rest = [(word or 0) & ~_IGNORED.get(index, 0) for index, word in enumerate(words)]
    if not any(rest):
        return "nothing"
    return "link" if any(word & ~_REPORTED.get(index, 0) for index, word in enumerate(rest)) else "report"


def _is(row: Nvlink5Row, code: int | None, unit: str, words: list[int | None]) -> bool:
    intr_info, status = words
    return (
        row.xid == code
        and unit in row.unit.split("/")
        and int(row.error_status, 16) == status
        and any(_fits(bits, intr_info or 0) for bits in (row.intr_info_v1, row.intr_info_v2))
    )


def _fits(bits: str, word: int) -> bool:
    return all(bit in ("-", seen) for bit, seen in zip(bits, f"{word:032b}", strict=True))


def _word(value: Any) -> int | None:
    try:
        word = int(value, 16) if isinstance(value, str) else -1
    except ValueError:
        return None
    return word if 0 <= word < WORD else None
