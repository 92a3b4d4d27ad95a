"""Plays a trace: each row at its own second, and a core that turns in between as often as it asks to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from remediator.run.trace import Row


class Stage(Protocol):
    """A cluster that rows happen to, with a core that judges what is seen of it."""

    def until(self, at: float) -> None:
        """Let everything happen that is due before `at`."""

    def take(self, row: Row, number: int) -> None:
        """The row happens now; it has this number in its trace."""


def play(rows: Iterable[Row], stage: Stage, after_s: float) -> None:
    """All rows, in the order of their time, and what follows from them for so long after the last one."""
    at = 0.0
    for number, row in enumerate(rows, start=1):
        at = row.at
        stage.until(at)
        stage.take(row, number)
    stage.until(at + after_s)
