"""PCI addresses as the driver, DCGM and people write them, made one form: lower-case dddd:bb:dd."""

from __future__ import annotations

import re
from typing import NamedTuple

ANY_DEVICE = r"(?P<dev>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"

_DEVICE = re.compile(
    r"(?P<domain>[0-9a-fA-F]{4,8}):(?P<bus>[0-9a-fA-F]{2}):(?P<slot>[0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"
    r"(?: GPU-I:(?P<gi>[0-9]{1,3}))?(?: GPU-CI:(?P<ci>[0-9]{1,3}))?"
)


class Device(NamedTuple):
    """`pci` is None when the text is no address; `instances` holds the MIG parts that were printed."""

    pci: str | None
    instances: dict[str, int]


def device(text: str) -> Device:
    """Read what stands in the brackets of an XID or SXid line, without its `PCI:`."""
    match = _DEVICE.fullmatch(text.strip())
    if match is None:
        return Device(None, {})
    domain = f"{int(match['domain'], 16):04x}"
    parts = {"gpu_instance": match["gi"], "compute_instance": match["ci"]}
    instances = {name: int(value) for name, value in parts.items() if value is not None}
    return Device(f"{domain}:{match['bus']}:{match['slot']}".lower(), instances)
