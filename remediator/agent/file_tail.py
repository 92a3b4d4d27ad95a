"""A plain file of kmsg-format records, as the lab's nodes have; it may grow, shrink or be replaced."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from remediator.agent.inotify import Watch
from remediator.agent.records import Item, Restarted, microseconds
from remediator.agent.records import sequence as number_of
from remediator.agent.state import Cursor
from remediator.agent.stream import Lines, Sequence

_CHUNK = 64 * 1024


class FileSource:
    """Follows a file by inotify; a place is `inode:offset:checksum` of the record before it.

    Numbers that go back, a shorter file or another file under the name begin a new boot.
    """

    def __init__(self, path: Path, after: Cursor | None) -> None:
        self.more = False
        self._path = path
        self._watch = Watch(path.parent)
        self._fd: int | None = None
        self._reset()
        if self._open():
            self._begin(after)

    def fileno(self) -> int | None:
        """The inotify descriptor."""
        return self._watch.fd

    def read(self) -> list[Item]:
        """Up to 64 KiB of records from where the last read ended."""
        self._watch.drain()
        if self._fd is None and not self._open():
            return []
        items = self._chunk()
        if not self.more and self._is_other_file():
            self.close_file()
            items.append(Restarted())
            if self._open():
                items.extend(self._chunk())
        return items

    def booted_at(self, now: float, steady: float) -> float:  # noqa: ARG002 - the machine's uptime is not the log's
        """The file was last written when its last record was printed."""
        try:
            written, size = self._path.stat().st_mtime, self._path.stat().st_size
        except FileNotFoundError:
            return now
        tail = self._bytes(max(0, size - _CHUNK), _CHUNK).splitlines()
        uptime = next((usec for line in reversed(tail) if (usec := microseconds(line)) is not None), 0)
        return written - uptime / 1e6

    def close(self) -> None:
        """Close file and watch."""
        self.close_file()
        self._watch.close()

    def close_file(self) -> None:
        """Let go of the file and of what was known about it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._reset()

    def _reset(self) -> None:
        self._offset = 0
        self._lines = Lines()
        self._sequence = Sequence(None)

    def _open(self) -> bool:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        self._inode = os.fstat(self._fd).st_ino
        return True

    def _chunk(self) -> list[Item]:
        data = self._bytes(self._offset, _CHUNK)
        self._offset += len(data)
        self.more = len(data) == _CHUNK
        items: list[Item] = []
        for line, after in self._lines.feed(data):
            items.extend(
                self._sequence.feed(line, f"{self._inode}:{self._offset - after}:{zlib.crc32(line)}")
            )
        return items

    def _is_other_file(self) -> bool:
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        return now.st_ino != self._inode or now.st_size < self._offset

    def _begin(self, after: Cursor | None) -> None:
        """Go to the cursor when it still fits this file, else to the last boot's first record."""
        if after and (offset := self._fitting(after)) is not None:
            self._offset, self._sequence = offset, Sequence(after.seq)
        else:
            self._offset = self._start_of_boot()

    def _fitting(self, after: Cursor) -> int | None:
        """The cursor's offset if the record that ends there is the very one the cursor was set behind.

        The checksum covers the record's microseconds: the same line of a later boot is another one.
        """
        inode, _, rest = after.place.partition(":")
        offset, _, checksum = rest.partition(":")
        if inode != str(self._inode) or not offset.isdecimal():
            return None
        start = max(0, int(offset) - _CHUNK)
        before = self._bytes(start, int(offset) - start)
        last = before[:-1].rpartition(b"\n")[2]
        whole = len(before) == int(offset) - start and before.endswith(b"\n")
        return int(offset) if whole and str(zlib.crc32(last)) == checksum else None

    def _bytes(self, start: int, count: int) -> bytes:
        return os.pread(self._fd, count, start) if self._fd is not None else b""

    def _start_of_boot(self) -> int:
        """Where the numbers went back for the last time; 0 when they never did."""
        found, last = 0, -1
        with self._path.open("rb") as file:
            position = 0
            for line in file:
                number = number_of(line)
                if number is not None:
                    found, last = (position if number < last else found), number
                position += len(line)
        return found
