"""When a change that happened in Slurm alone reaches a pod: late, as measured on the real operator."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A range of seconds, written `2.5:9.9`."""

    low: float
    high: float

    @classmethod
    def parse(cls, text: str) -> Span:
        """Reads `low:high`, or one number for both."""
        low, _, high = text.partition(":")
        span = cls(float(low), float(high or low))
        if not 0 <= span.low <= span.high:
            raise ValueError(f"not a range of seconds: {text!r}")
        return span

    def at(self, share: float) -> float:
        """The point at `share` (0..1) of the range."""
        return self.low + (self.high - self.low) * share


class BusyLag:
    """Remembers, per Slurm node, when a start or an end of work may show on its pod."""

    def __init__(self, start: Span, end: Span, rng: random.Random) -> None:
        self._start = start
        self._end = end
        self._rng = rng
        self._due: dict[str, float] = {}

    def observe(self, name: str, busy: bool, shown: bool, now: float) -> None:
        """Slurm says `busy`, the pod shows `shown`: start the clock when they differ, forget it when not."""
        if busy == shown:
            self._due.pop(name, None)
        elif name not in self._due:
            self._due[name] = now + (self._start if busy else self._end).at(self._rng.random())

    def holds(self, name: str, now: float) -> bool:
        """Whether a change is known but must not show yet."""
        return self._due.get(name, now) > now

    def settle(self, now: float) -> None:
        """Forgets what was due; if it does not show after all, the next look starts the clock again."""
        self._due = {name: due for name, due in self._due.items() if due > now}

    def next_due(self) -> float:
        """When the next change may show; infinity without one."""
        return min(self._due.values(), default=float("inf"))


def adopt_delay(uid: str, span: Span) -> float:
    """How long after a pod is Ready its record is written: spread over `span`, fixed for a pod."""
    return span.at(int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big") / 2**32)
