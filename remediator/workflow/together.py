"""Two reads that do not need each other: side by side in the service, in order wherever runs are replayed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")
READERS = 16


class Together(Protocol):
    """Answers of both, or the first one's error; each read has its own deadline."""

    def __call__(self, first: Callable[[], A], second: Callable[[], B], /) -> tuple[A, B]:
        """Ask both."""


def in_order(first: Callable[[], A], second: Callable[[], B], /) -> tuple[A, B]:
    """One after the other, so that a seeded run is always the same."""
    return first(), second()


class SideBySide:
    """The second one in a thread of its own while the caller's thread asks the first."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(READERS, "reader")

    def __call__(self, first: Callable[[], A], second: Callable[[], B], /) -> tuple[A, B]:
        """Ask both; an answer that nobody waits for any more ends with its deadline. What no thread was free
        for is asked here: a read that asks two others waits for nobody.
        """
        later = self._pool.submit(second)
        one = first()
        return one, second() if later.cancel() else later.result()
