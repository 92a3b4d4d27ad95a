"""What each counter file counts, where it sticks, and how far it moved between two looks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

WORD = 4
"""Data counters count words of four bytes."""

FAMILIES: Mapping[str, tuple[str, str]] = {
    "port_rcv_data": ("data_bytes", "received"),
    "port_xmit_data": ("data_bytes", "transmitted"),
    "port_rcv_packets": ("packets", "received"),
    "port_xmit_packets": ("packets", "transmitted"),
    "port_xmit_wait": ("wait_ticks", ""),
    "port_xmit_discards": ("discards", ""),
    "link_downed": ("link_downed", ""),
    "link_error_recovery": ("link_recoveries", ""),
    "symbol_error": ("symbol_errors", ""),
    "carrier_changes": ("carrier_changes", ""),
}
"""File -> metric family, and the value of its second label."""

# Widths in bits of the base counters (PortCounters, IBTA); they stop at their end and do not wrap. A driver
# that keeps wider ones passes that value and is stuck nowhere.
_WIDTHS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
    "port_xmit_data": 32,
    "port_rcv_data": 32,
    "port_xmit_packets": 32,
    "port_rcv_packets": 32,
    "port_xmit_wait": 32,
}
CEILINGS = {name: 2**bits - 1 for name, bits in _WIDTHS.items()}
_ERROR = re.compile(r"err|out_of|drop|retr|nak|duplicate|exceeded|timeout|discard|overrun", re.IGNORECASE)


def family(name: str) -> tuple[str, str]:
    """The metric family of a file and its second label; files that nobody knows go by their name."""
    known = FAMILIES.get(name)
    return known or (("errors" if _ERROR.search(name) else "events"), name)


@dataclass
class Totals:
    """Counters of one port since the process began; `resets` counts looks that found them set back."""

    values: dict[str, int] = field(default_factory=dict)
    stuck: frozenset[str] = frozenset()
    resets: int = 0
    _raw: dict[str, int] = field(default_factory=dict)

    def take(self, raw: Mapping[str, int]) -> None:
        """One look. What a reset hid is unknown and adds nothing; what was not read keeps its total."""
        backwards = False
        for name, value in raw.items():
            moved = value - self._raw.get(name, value)
            backwards |= moved < 0
            scale = WORD if family(name)[0] == "data_bytes" else 1
            self.values[name] = self.values.get(name, 0) + max(0, moved) * scale
            self._raw[name] = value
        self.resets += backwards
        self.stuck = frozenset(name for name, value in raw.items() if value == CEILINGS.get(name))
