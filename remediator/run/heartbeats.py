"""Which agents were heard of late: silence must be told from health."""

from __future__ import annotations

import threading

from remediator.clock import Clock

HEARD_S = 30.0  # three heartbeats of an agent


class Heartbeats:
    """The last push of each node; written by HTTP threads, read at every scrape."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}
        self._boots: dict[str, str] = {}
        self._lock = threading.Lock()

    def heard(self, node: str, boot_id: str, _at: float) -> None:
        """A push of `node` was taken."""
        with self._lock:
            self._last[node] = self._clock.steady()
            self._boots[node] = boot_id

    def quiet(self) -> dict[str, tuple[str, float]]:
        """Boot id and seconds since the last push, of each node that was heard in this life."""
        now = self._clock.steady()
        with self._lock:
            return {node: (self._boots[node], now - at) for node, at in self._last.items()}

    def count(self) -> int:
        """Nodes heard within the last three heartbeats."""
        since = self._clock.steady() - HEARD_S
        with self._lock:
            return sum(at >= since for at in self._last.values())
