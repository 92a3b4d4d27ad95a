"""Where kernel lines come from: one protocol, three sources, chosen by a setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from remediator.agent.records import Gap, Item, Restarted, read_record, sequence
from remediator.agent.state import Cursor


class Source(Protocol):
    """A kernel log that is read without blocking."""

    more: bool
    """True when the last read stopped before the end of what is there."""

    def fileno(self) -> int | None:
        """A descriptor that becomes readable with new records; None when it has to be polled."""

    def read(self) -> list[Item]:
        """The next records, gaps and restarts; empty when nothing is new."""

    def booted_at(self, now: float, steady: float) -> float:
        """Wall time of the records' microsecond 0, given the machine's wall time and uptime."""

    def close(self) -> None:
        """Give descriptors and child processes back."""


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


def open_source(setting: str, after: Cursor | None) -> Source:
    """The source that `setting` names, from `after` on; None reads from the start of the boot."""
    # imported here: a process needs one of them
    kind, _, path = setting.partition(":")
    if kind == "kmsg":
        from remediator.agent.kmsg_device import KmsgSource  # noqa: PLC0415

        return KmsgSource(Path(path), after)
    if kind == "file":
        from remediator.agent.file_tail import FileSource  # noqa: PLC0415

        return FileSource(Path(path), after)
    from remediator.agent.journald import JournaldSource  # noqa: PLC0415

    return JournaldSource(after)
