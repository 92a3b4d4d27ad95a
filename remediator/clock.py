"""Time as a parameter: the only module that reads a clock or sleeps."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the service may know about time."""

    def now(self) -> float:
        """Wall time, seconds since the epoch."""

    def steady(self) -> float:
        """Seconds that never go back and count suspends (CLOCK_BOOTTIME)."""

    def sleep(self, seconds: float) -> None:
        """Wait; only loops and command-line verbs sleep, never a worker."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Wall time, seconds since the epoch."""
        return time.time()

    def steady(self) -> float:
        """CLOCK_BOOTTIME: a suspended machine must find its lease expired."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`."""
        time.sleep(seconds)


class ManualClock:
    """Virtual time: moves only when told; sleeping moves it."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._steady = 1000.0

    def now(self) -> float:
        """Virtual wall time."""
        return self._now

    def steady(self) -> float:
        """Virtual monotonic time."""
        return self._steady

    def sleep(self, seconds: float) -> None:
        """Advance by `seconds`."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._now += seconds
        self._steady += seconds

    def jump(self, seconds: float) -> None:
        """Move the wall clock only, as an NTP step does."""
        self._now += seconds


def rfc3339(at: float) -> str:
    """Seconds since the epoch as RFC 3339 UTC with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
