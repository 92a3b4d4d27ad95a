"""Ports and devices that are gone for too long -> events. Pure: times and readings come in, events go out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from remediator.agent.fabric.ports import GBIT, Port
from remediator.model.signal import KernelEvent

GONE_S = 30.0
"""A device that comes back within this was reset, not lost."""
TOO_LONG_S = 60.0
"""Nobody knows what a port did between two looks that are farther apart: its time begins anew."""

_GONE = "gone "


@dataclass(frozen=True, slots=True)
class Wire:
    """A port that belongs to the fabric: its rail, the GPU beside it, and the rate it was up at before."""

    port: Port
    rail: str
    gpu: str
    pci: str
    best: float


@dataclass(frozen=True, slots=True)
class Lost:
    """A device that was there in this boot; `in_pci` tells whether the bus still has it, None is unknown."""

    device: str
    rail: str
    gpu: str
    pci: str
    in_pci: bool | None


@dataclass
class Watch:
    """Since when what is wrong has been wrong, and what was told about it."""

    down_s: float
    _since: dict[str, float] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _looked: float | None = None

    def look(self, wires: Iterable[Wire], lost: Iterable[Lost], steady: float) -> list[KernelEvent]:
        """What has lasted long enough to be told now; each is told once, until it was well again."""
        if self._looked is not None and steady - self._looked > TOO_LONG_S:
            self._since.clear()
        self._looked = steady
        lost = list(lost)
        for key in {key for key in self._since if key.startswith(_GONE)} - {_key(one) for one in lost}:
            self._well(key)
        found = [event for wire in wires if (event := self._wire(wire, steady))]
        return found + [event for one in lost if (event := self._lost(one, steady))]

    def _wire(self, wire: Wire, steady: float) -> KernelEvent | None:
        key, wrong = wire.port.key, _wrong(wire)
        if wrong is None:
            return None
        if not wrong:
            self._well(key)
            return None
        if not (seconds := self._lasts(key, self.down_s, steady)):
            return None
        about = {"state": wire.port.state, "phys_state": wire.port.physical, "what": wrong}
        rates = {"rate_gbps": _gbit(wire.port.rate), "best_gbps": _gbit(wire.best)}
        said = f"{key} {wire.port.state} / {wire.port.physical} at {rates['rate_gbps']} Gb/s"
        return _event(
            "ib-port-down",
            wire,
            {"device": wire.port.device, "port": wire.port.number, **about, **rates, "for_s": seconds},
            f"infiniband: {said}, was up at {rates['best_gbps']} Gb/s, for {seconds} s",
        )

    def _lost(self, lost: Lost, steady: float) -> KernelEvent | None:
        """Gone from the bus is gone; gone from its driver alone is a port that is down."""
        seconds = self._lasts(_key(lost), self.down_s if lost.in_pci else GONE_S, steady)
        if not seconds:
            return None
        about = {"device": lost.device, "for_s": seconds, "what": "driver" if lost.in_pci else "gone"}
        said = "has lost its driver" if lost.in_pci else "is gone"
        kind = "ib-port-down" if lost.in_pci else "hca-gone"
        return _event(kind, lost, about, f"infiniband: {lost.device} {said}, for {seconds} s")

    def _lasts(self, key: str, long_enough: float, steady: float) -> int:
        """For how many seconds; 0 while that is not long enough, and once it was told."""
        seconds = steady - self._since.setdefault(key, steady)
        if key in self._told or seconds < long_enough:
            return 0
        self._told.add(key)
        return max(1, round(seconds))

    def _well(self, key: str) -> None:
        self._since.pop(key, None)
        self._told.discard(key)


def _key(lost: Lost) -> str:
    return f"{_GONE}{lost.device} {'driver' if lost.in_pci else 'bus'}"


def _wrong(wire: Wire) -> str | None:
    """What is wrong with a port: nothing is empty, unknown is None."""
    if wire.port.up is None:
        return None
    if not wire.port.up:
        return "down"
    if wire.port.rate is None:
        return None
    return "slow" if wire.port.rate < wire.best else ""


def _event(kind: str, place: Wire | Lost, about: Mapping[str, Any], raw: str) -> KernelEvent:
    extra = {**about, "rail": place.rail, "gpu": place.gpu}
    return KernelEvent(kind=kind, pci=place.pci or None, extra=extra, raw=raw)


def _gbit(rate: float | None) -> float | None:
    return None if rate is None else round(rate / GBIT, 1)
