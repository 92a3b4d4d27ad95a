"""/dev/kmsg: the kernel's own ring buffer, always of the present boot."""

from __future__ import annotations

import os
from pathlib import Path

from remediator.agent.records import Item
from remediator.agent.records import sequence as number_of
from remediator.agent.state import Cursor
from remediator.agent.stream import Sequence

# A smaller buffer makes the kernel refuse long records with EINVAL.
_RECORD = 8192
_RECORDS_A_READ = 1000


class KmsgSource:
    """Reads from the oldest record in the ring; those up to the cursor are passed over."""

    def __init__(self, path: Path, after: Cursor | None) -> None:
        self.more = False
        self._seen = after.seq if after else -1
        self._sequence = Sequence(self._seen)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Readable when a record waits."""
        return self._fd

    def read(self) -> list[Item]:
        """Up to a thousand records; overwritten ones show as a gap."""
        items: list[Item] = []
        for _ in range(_RECORDS_A_READ):
            try:
                data = os.read(self._fd, _RECORD)
            except BrokenPipeError:
                continue  # the ring overtook us; the next record's number says how many were lost
            except BlockingIOError:
                data = b""
            if not data:
                self.more = False
                return items
            number = number_of(data)
            if number is not None and number > self._seen:
                items.extend(self._sequence.feed(data.partition(b"\n")[0]))
        self.more = True
        return items

    def booted_at(self, now: float, steady: float) -> float:
        """The kernel counts from the machine's boot."""
        return now - steady

    def close(self) -> None:
        """Close the device."""
        os.close(self._fd)
