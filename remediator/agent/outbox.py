"""Events on their way to the controller: bounded, in order, and never lost by a restart."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from remediator.agent.state import Cursor, Spool
from remediator.model.signal import PushedEvent

MAX_EVENTS = 1000
BATCH_EVENTS = 500
# Below the controller's 1 MiB cap on bodies, escapes included.
BATCH_CHARACTERS = 256 * 1024
FIELDS_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event, the boot it belongs to, and how far the log was read with it (None: not at all)."""

    event: PushedEvent
    boot_id: str
    cursor: Cursor | None


class Outbox:
    """A queue; when it is full the reader stops and the kernel log itself keeps the rest."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._limit = BATCH_EVENTS
        self.changed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """No room for another event."""
        return len(self._waiting) >= MAX_EVENTS

    def add(self, event: PushedEvent, boot_id: str, cursor: Cursor | None) -> None:
        """Queue one event behind the others."""
        self._waiting.append(Waiting(event, boot_id, cursor))
        self.changed = True

    def batch(self) -> tuple[PushedEvent, ...]:
        """The next events to push: few enough for one request."""
        found: list[PushedEvent] = []
        size = 0
        for waiting in itertools.islice(self._waiting, self._limit):
            size += len(waiting.event.event.raw) + FIELDS_CHARACTERS
            if found and size > BATCH_CHARACTERS:
                break
            found.append(waiting.event)
        return tuple(found)

    def accepted(self, count: int) -> Cursor | None:
        """Forget the first `count` events; the cursor behind the last of them."""
        last = [self._waiting.popleft() for _ in range(count)][-1:]
        if not self._waiting:
            self._limit = BATCH_EVENTS
        self.changed = self.changed or bool(last)
        return last[0].cursor if last else None

    def narrow(self, size: int) -> bool:
        """After `size` events were refused: True when smaller batches can find the one at fault."""
        self._limit = size // 2 or BATCH_EVENTS
        return size > 1

    def drop_other_boots(self, boot_id: str) -> tuple[PushedEvent, ...]:
        """Take out the events of other boots than the present one."""
        old = tuple(waiting.event for waiting in self._waiting if waiting.boot_id != boot_id)
        if old:
            self._waiting = deque(waiting for waiting in self._waiting if waiting.boot_id == boot_id)
            self.changed = True
        return old

    def spool(self, read: Cursor) -> Spool:
        """What has to outlive this process, with how far the log was read."""
        return Spool(read=read, events=tuple(waiting.event for waiting in self._waiting))

    def restore(self, events: Iterable[PushedEvent], read: Cursor) -> None:
        """Take events over from an earlier process; they stand for the place it had read to."""
        for event in events:
            self.add(event, read.boot_id, read)
