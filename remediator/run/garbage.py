"""When garbage is looked for: a full collection stops every thread, the longer the more agents are heard."""

from __future__ import annotations

import gc

from remediator.clock import Clock

EVERY_S = 600.0
NEVER = 1_000_000_000


class Garbage:
    """Young objects are collected as ever; full collections are made when there is nothing to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._swept_at = clock.steady()

    def settle(self) -> None:
        """What is there by now stays for good and is never looked through again."""
        gc.collect()
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)

    def sweep(self) -> None:
        """A full collection, if the last one is ten minutes old."""
        if self._clock.steady() - self._swept_at >= EVERY_S:
            gc.collect()
            self._swept_at = self._clock.steady()
