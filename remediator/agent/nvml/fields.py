"""NVML's numbered fields: which series each one feeds. A field's number may be tried after another's.

Left out on purpose: the accumulated slowdown fields above 250, whose numbers differ between drivers, and bit
error rates, which come as a mantissa and an exponent of no documented layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from remediator.agent.nvml import table
from remediator.agent.nvml.decode import (
    ACTIONS,
    CELSIUS,
    COUNT,
    FLAG,
    NANOSECONDS,
    OFFSETS,
    ROWS,
    STATES,
    Range,
)
from remediator.agent.nvml.table import Key

LINK_COUNT = 91
MOST_LINKS = 36
_OLD_LINKS = 12
"""Links that have a number of their own in the older fields."""


class Field(NamedTuple):
    """A field, the link it is asked for, the name it is counted under when it cannot be read."""

    number: int
    scope: int
    name: str
    key: Key
    allowed: Range


_DEVICE = (
    (82, "memory_temperature", Key(table.MEMORY_TEMPERATURE), CELSIUS),
    (193, "offset_shutdown", Key(table.OFFSET, ("shutdown",)), OFFSETS),
    (194, "offset_slowdown", Key(table.OFFSET, ("slowdown",)), OFFSETS),
    (195, "offset_memory", Key(table.OFFSET, ("memory",)), OFFSETS),
    (196, "offset_gpu", Key(table.OFFSET, ("gpu",)), OFFSETS),
    (74, "slowdown_power", Key(table.SLOWDOWN_SECONDS, ("power",)), NANOSECONDS),
    (75, "slowdown_thermal", Key(table.SLOWDOWN_SECONDS, ("thermal",)), NANOSECONDS),
    (77, "slowdown_board", Key(table.SLOWDOWN_SECONDS, ("board_limit",)), NANOSECONDS),
    (79, "slowdown_reliability", Key(table.SLOWDOWN_SECONDS, ("reliability",)), NANOSECONDS),
    (3, "ecc_corrected", Key(table.ECC, ("corrected", "volatile")), COUNT),
    (4, "ecc_uncorrected", Key(table.ECC, ("uncorrected", "volatile")), COUNT),
    (5, "ecc_corrected_aggregate", Key(table.ECC, ("corrected", "aggregate")), COUNT),
    (6, "ecc_uncorrected_aggregate", Key(table.ECC, ("uncorrected", "aggregate")), COUNT),
    (142, "remapped_correctable", Key(table.REMAPPED, ("correctable",)), ROWS),
    (143, "remapped_uncorrectable", Key(table.REMAPPED, ("uncorrectable",)), ROWS),
    (144, "remap_pending", Key(table.REMAP_PENDING), FLAG),
    (145, "remap_failed", Key(table.REMAP_FAILED), FLAG),
    (94, "pcie_replays", Key(table.PCIE_REPLAYS), COUNT),
    (230, "recovery_action", Key(table.RECOVERY), ACTIONS),
)

STATE = 165
# kind -> the number for any link, and those of links 0 to 5 and 6 to 11 in the older fields
_LINK_ERRORS: dict[str, tuple[int | None, int | None, int | None]] = {
    "crc": (163, None, None),
    "crc_flit": (None, 32, 96),
    "crc_data": (None, 39, 102),
    "replay": (161, 46, 108),
    "recovery": (162, 53, 114),
    "ecc": (None, 148, 154),
    # NVLink 5
    "malformed": (206, None, None),
    "buffer_overrun": (207, None, None),
    "receive": (208, None, None),
    "link_integrity": (211, None, None),
    "transmit_discard": (212, None, None),
    "recovery_succeeded": (213, None, None),
    "recovery_failed": (214, None, None),
    "effective": (219, None, None),
    "symbol": (221, None, None),
}


@cache
def fields(links: int) -> tuple[Field, ...]:
    """Every field of a GPU with so many links; all such GPUs share them."""
    own = (Field(number, 0, name, key, allowed) for number, name, key, allowed in _DEVICE)
    return (*own, *(field for link in range(links) for field in _of_link(link)))


def _of_link(link: int) -> Iterator[Field]:
    yield Field(STATE, link, "nvlink_state", Key(table.NVLINK_UP, (str(link),)), STATES)
    for kind, (scoped, low, high) in _LINK_ERRORS.items():
        key = Key(table.NVLINK_ERRORS, (str(link), kind))
        if scoped is not None:
            yield Field(scoped, link, f"nvlink_{kind}", key, COUNT)
        if low is not None and high is not None and link < _OLD_LINKS:
            old = low + link if link < _OLD_LINKS // 2 else high + link - _OLD_LINKS // 2
            yield Field(old, 0, f"nvlink_{kind}", key, COUNT)
