"""Times the phases of a start and tells whoever watches."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol


class Watcher(Protocol):
    """Is told when a phase begins and ends; phases overlap."""

    def began(self, phase: str) -> None:
        """A phase begins."""

    def ended(self, phase: str, seconds: float, since_start: float) -> None:
        """A phase ended; `seconds` is its own length, `since_start` the time since the start of all."""


class Silent:
    """A watcher that says nothing."""

    def began(self, phase: str) -> None:
        """Nothing."""

    def ended(self, phase: str, seconds: float, since_start: float) -> None:
        """Nothing."""


class Phases:
    """Collects figures: for each phase, when it was done, in seconds since the start of all."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._start = time.monotonic()
        self.figures: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what runs inside; a phase that fails has no figure."""
        began = time.monotonic()
        self._watcher.began(name)
        yield
        now = time.monotonic()
        self.figures[name] = round(now - self._start, 2)
        self._watcher.ended(name, now - began, now - self._start)
