"""A stream of bytes cut into lines, and a stream of records checked for gaps and restarts."""

from __future__ import annotations

from collections.abc import Iterator

from remediator.agent.records import Gap, Item, Restarted, read_record, sequence


class Sequence:
    """Turns raw records into items: a gap where the numbers jump, a restart where they go back.

    `last` is the number before the first record that is expected; None accepts any first number.
    """

    def __init__(self, last: int | None) -> None:
        self._last = last

    def feed(self, data: bytes, place: str = "") -> Iterator[Item]:
        """The items of one raw record; continuation lines and garbage have none."""
        number = sequence(data)
        if number is None:
            return
        if self._last is not None and number < self._last:
            yield Restarted()
        elif self._last is not None and number > self._last + 1:
            yield Gap(self._last + 1, number - self._last - 1)
        self._last = number
        if record := read_record(data, place):
            yield record


class Lines:
    """Splits chunks of bytes into lines; a line longer than `limit` is cut, never kept whole."""

    def __init__(self, limit: int = 64 * 1024) -> None:
        self._limit = limit
        self._tail = b""

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        """Whole lines without their newline, each with the number of bytes of `chunk` that follow it."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            yield (self._tail + chunk[start:end])[: self._limit], len(chunk) - end - 1
            self._tail, start = b"", end + 1
        self._tail = (self._tail + chunk[start:])[: self._limit]
