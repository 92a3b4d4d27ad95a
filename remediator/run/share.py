"""How much of what has come in one turn of the core takes on itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MOST, OPENINGS = 500, 200
"""Signals that a turn judges and incidents that it opens at most: one takes some milliseconds to open."""
FEW, FEW_OPENINGS = 50, 5
"""How many at least, while senders of new signals wait for its commit."""


@dataclass
class Share:
    """How much one turn takes on itself: less while others wait for the store."""

    is_wanted: Callable[[], bool]
    judged: int = 0

    def is_taken(self, openings: int) -> bool:
        """Whether the next signal, after so many openings, is for the next turn."""
        if self.judged >= MOST or openings >= OPENINGS:
            return True
        return (self.judged >= FEW or openings >= FEW_OPENINGS) and self.is_wanted()
