"""The outbox loop: delivers what is due, in order, with a growing pause when a channel does not take it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from remediator.clock import Clock
from remediator.errors import RemediatorError, Retry
from remediator.notify.channels import Channel, send_all
from remediator.observe.logs import logger
from remediator.store import outbox
from remediator.store.engine import Store

EVERY_S = 5.0
MAX_PAUSE_S = 300.0
log = logger(stage="outbox")


class Outbox:
    """Wakes on a nudge or every five seconds."""

    def __init__(self, store: Store, channels: Sequence[Channel], clock: Clock) -> None:
        self._store = store
        self._channels = channels
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = False
        self._sent: set[int] = (
            set()
        )  # taken, and the store could not be told: nobody is called twice for that

    def nudge(self) -> None:
        """Something was written."""
        self._wake.set()

    def stop(self) -> None:
        """End the loop."""
        self._stopping = True
        self._wake.set()

    def run(self) -> None:
        """Deliver until stopped."""
        while not self._stopping:
            try:
                self.deliver()
            except RemediatorError as error:
                log.warning("the outbox cannot be read", problem=str(error))
            self._wake.wait(EVERY_S)
            self._wake.clear()

    def deliver(self) -> int:
        """Deliver what is due; returns how many messages were taken."""
        with self._store.read() as connection:
            waiting = outbox.due(connection, self._clock.now())
        return sum(self._one(message) for message in waiting)

    def _one(self, waiting: outbox.Waiting) -> bool:
        if waiting.id not in self._sent and not self._send(waiting):
            return False
        self._sent.add(waiting.id)
        with self._store.write() as connection:
            outbox.delivered(connection, waiting.id, self._clock.now())
        self._sent.discard(waiting.id)
        return True

    def _send(self, waiting: outbox.Waiting) -> bool:
        try:
            send_all(self._channels, waiting)
        except Retry as error:
            pause = min(MAX_PAUSE_S, 2.0**waiting.attempts)
            log.warning("a message was not taken", problem=str(error), again_in=pause)
            with self._store.write() as connection:
                outbox.later(connection, waiting.id, self._clock.now() + pause)
            return False
        return True
