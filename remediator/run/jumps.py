"""Whether this machine's clock was set: by hand, by NTP, or when a suspended machine goes on."""

from __future__ import annotations

from remediator.clock import Clock

LEAST_S = 1.0  # less than that is slewing, and nobody's deadline


class Jumps:
    """Compares the wall clock with the one that nobody can set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = self._apart()

    def seconds(self) -> float:
        """What the clock was set by since the last call (back: negative); 0.0 when it was not."""
        before, now = self._ahead, self._apart()
        if abs(now - before) < LEAST_S:
            return 0.0
        self._ahead = now
        return now - before

    def _apart(self) -> float:
        return self._clock.now() - self._clock.steady()
