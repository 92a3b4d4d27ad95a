"""One port of one device, as its files say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from remediator.agent.fabric.files import Files, names

ACTIVE, LINK_UP = 4, 5
GBIT = 125_000_000.0  # bytes per second
MOST_FILES = 96

_STATE = re.compile(r"(?P<number>[0-9]{1,2}): ?(?P<word>.{0,40})")
_RATE = re.compile(r"(?P<gbit>[0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec")
# A knob and no counter: how long the driver keeps what it read.
_NO_COUNTERS = frozenset({"lifespan"})


@dataclass(frozen=True, slots=True)
class Port:
    """What was read; None is unknown. `rate` is bytes per second."""

    device: str
    number: str
    state: str = ""
    physical: str = ""
    rate: float | None = None
    link_layer: str = ""
    netdev: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    unreadable: int = 0

    @property
    def key(self) -> str:
        """The port's name, as `mlx5_0/1`."""
        return f"{self.device}/{self.number}"

    @property
    def state_id(self) -> int | None:
        """Logical state: 1 down, 2 init, 3 armed, 4 active."""
        return _number(self.state)

    @property
    def physical_id(self) -> int | None:
        """Physical state: 2 polling, 3 disabled, 5 link up."""
        return _number(self.physical)

    @property
    def up(self) -> bool | None:
        """Whether it carries traffic; None while that cannot be read."""
        if self.state_id is None or self.physical_id is None:
            return None
        return (self.state_id, self.physical_id) == (ACTIVE, LINK_UP)


def read_port(device: Path, number: str, netdev: Path | None) -> Port:
    """All files of a port; `netdev` is the folder of its network interface, where it has one."""
    files, folder = Files(), device / "ports" / number
    text = {
        name: files.text(f"{folder}/{name}") or "" for name in ("state", "phys_state", "rate", "link_layer")
    }
    rate = _RATE.match(text["rate"])
    return Port(
        device=device.name,
        number=number,
        state=text["state"],
        physical=text["phys_state"],
        rate=float(rate["gbit"]) * GBIT if rate else None,
        link_layer=text["link_layer"],
        netdev=netdev.name if netdev else "",
        counters=_counters(files, folder, netdev),
        unreadable=files.unreadable,
    )


def _counters(files: Files, folder: Path, netdev: Path | None) -> dict[str, int]:
    paths = {
        name: f"{folder}/{below}/{name}"
        for below in ("hw_counters", "counters")  # the standard's own name wins
        for name in _listed(files, folder / below)
    }
    if netdev is not None:
        paths["carrier_changes"] = f"{netdev}/carrier_changes"
    found = {name: files.number(path) for name, path in paths.items()}
    return {name: value for name, value in found.items() if value is not None}


def _listed(files: Files, folder: Path) -> list[str]:
    try:
        return [name for name in names(folder) if name not in _NO_COUNTERS][:MOST_FILES]
    except OSError:
        files.unreadable += 1
        return []


def _number(text: str) -> int | None:
    match = _STATE.fullmatch(text)
    return int(match["number"]) if match else None
