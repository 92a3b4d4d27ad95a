"""What outlives the agent: which devices this boot began with, and what each port once was."""

from __future__ import annotations

from pydantic import Field

from remediator.model.base import Ours

FORGET_S = 7 * 86_400.0
"""A port that has been slower, or down, for so long is taken as it is."""
REFRESH_S = 3600.0
MOST_DEVICES = 256


class Known(Ours):
    """A device that was there in this boot."""

    path: str = ""
    pci: str = ""
    layer: str = ""
    gpu: str = ""


class Best(Ours):
    """The highest rate (bytes per second) at which a port was seen up, and when it last was."""

    rate: float
    at: float


class Memory(Ours):
    """The file; devices are of boot `boot_id`, ports of all boots."""

    boot_id: str = ""
    devices: dict[str, Known] = Field(default_factory=dict, max_length=MOST_DEVICES)
    ports: dict[str, Best] = Field(default_factory=dict, max_length=4 * MOST_DEVICES)

    def of_boot(self, boot_id: str) -> Memory:
        """Without the devices of another boot: hardware may have been changed in between."""
        return self if boot_id == self.boot_id else Memory(boot_id=boot_id, ports=self.ports)

    def layer(self, device: str) -> str:
        """The link layer a device was last known to have."""
        known = self.devices.get(device)
        return known.layer if known else ""

    def ports_of(self, device: str) -> list[str]:
        """Ports of a device that were once up."""
        return [port for port in self.ports if port.rpartition("/")[0] == device]

    def with_device(self, name: str, known: Known) -> Memory:
        """With a device that is there."""
        if self.devices.get(name) == known or (
            name not in self.devices and len(self.devices) >= MOST_DEVICES
        ):
            return self
        return self.model_copy(update={"devices": self.devices | {name: known}})

    def with_rate(self, port: str, rate: float, now: float) -> Memory:
        """With the rate of a port that is up now."""
        best = self.ports.get(port)
        if best is not None and rate < best.rate and now - best.at <= FORGET_S:
            return self
        if best is not None and rate == best.rate and 0 <= now - best.at < REFRESH_S:
            return self
        return self.model_copy(update={"ports": self.ports | {port: Best(rate=rate, at=now)}})

    def best(self, port: str, now: float) -> float | None:
        """The rate a port is measured by; None for one that was not up within the last days."""
        best = self.ports.get(port)
        return best.rate if best is not None and now - best.at <= FORGET_S else None
