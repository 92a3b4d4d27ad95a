"""What wakes the core: answers of workers, and nudges from whoever committed or saw something."""

from __future__ import annotations

import queue
from contextlib import suppress

from remediator.workflow.calls import Answer

MAX_BATCH = 200


class Inbox:
    """Many writers, one reader."""

    def __init__(self) -> None:
        # a SimpleQueue, because SIGTERM's handler nudges from within the core's own `gather`
        self._queue: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._first: list[Answer | None] = []

    def nudge(self) -> None:
        """Something was committed or changed: take a turn now."""
        self._queue.put(None)

    def answer(self, answer: Answer) -> None:
        """A worker is back."""
        self._queue.put(answer)

    def idle(self, seconds: float) -> None:
        """Wait up to `seconds` until there is something to gather."""
        with suppress(queue.Empty):
            if not self._first:
                self._first.append(self._queue.get(timeout=seconds))

    def gather(self, pause: float) -> list[Answer]:
        """Wait up to `pause` seconds for the first message, then take all that are there."""
        self.idle(max(pause, 0.0))
        answers: list[Answer] = []
        message = self._first.pop() if self._first else None
        with suppress(queue.Empty):
            while True:
                if message is not None:
                    answers.append(message)
                if len(answers) >= MAX_BATCH:
                    break
                message = self._queue.get_nowait()
        return answers
