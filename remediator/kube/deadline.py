"""One deadline shared by the several requests of one operation."""

from __future__ import annotations

from remediator.clock import Clock
from remediator.errors import Retry


class Deadline:
    """`seconds` from now on a clock that counts suspends."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.steady() + seconds

    def left(self) -> float:
        """Seconds left; Retry when none are, raised before anything is sent."""
        left = self._until - self._clock.steady()
        if left <= 0:
            raise Retry("the deadline passed before the request was sent")
        return left

    def passed(self) -> bool:
        """Whether no time is left."""
        return self._clock.steady() >= self._until
