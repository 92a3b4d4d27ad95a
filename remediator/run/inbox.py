"""What wakes the core: answers of workers, and nudges from whoever committed or saw something."""

from __future__ import annotations

import queue

from remediator.workflow.calls import Answer

MAX_BATCH = 200


class Inbox:
    """Many writers, one reader."""

    def __init__(self) -> None:
        # a SimpleQueue, because SIGTERM's handler nudges from within the core's own `gather`
        self._queue: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()

    def nudge(self) -> None:
        """Something was committed or changed: take a turn now."""
        self._queue.put(None)

    def answer(self, answer: Answer) -> None:
        """A worker is back."""
        self._queue.put(answer)

    def gather(self, pause: float) -> list[Answer]:
        """Wait up to `pause` seconds for the first message, then take all that are there."""
        answers: list[Answer] = []
        try:
            first = self._queue.get(timeout=pause) if pause > 0 else self._queue.get_nowait()
            while True:
                if first is not None:
                    answers.append(first)
                if len(answers) >= MAX_BATCH:
                    break
                first = self._queue.get_nowait()
        except queue.Empty:
            pass
        return answers
