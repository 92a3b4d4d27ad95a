"""The core's thread: wakes on answers, commits and due times; everything else it leaves to `turn`."""

from __future__ import annotations

import queue
from collections.abc import Callable

import structlog

from remediator.clock import Clock
from remediator.errors import Retry
from remediator.run.core import Core
from remediator.workflow.engine import Answer, Call

STORE_PAUSE_S = 0.5
MAX_BATCH = 200
log = structlog.get_logger("core")


class CoreLoop:
    """Runs turns until stopped; `submit` takes the calls a turn hands out."""

    def __init__(self, core: Core, clock: Clock, submit: Callable[[Call], None]) -> None:
        self._core = core
        self._clock = clock
        self._submit = submit
        self._inbox: queue.Queue[Answer | None] = queue.Queue()
        self._stopping = False
        self.last_turn = clock.steady()

    def nudge(self) -> None:
        """Something was committed or changed: take a turn now."""
        self._inbox.put(None)

    def answer(self, answer: Answer) -> None:
        """A worker is back."""
        self._inbox.put(answer)

    def stop(self) -> None:
        """End after the present turn."""
        self._stopping = True
        self.nudge()

    def run(self) -> None:
        """Turn until stopped; Fenced goes up, it ends the process."""
        answers: list[Answer] = []
        pause = 0.0
        while not self._stopping:
            answers += self._gather(pause)
            try:
                turn = self._core.turn(self._clock.now(), answers)
            except Retry as error:
                log.warning("the store does not take a turn", problem=str(error))
                pause = STORE_PAUSE_S
                continue
            answers = []
            self.last_turn = self._clock.steady()
            for sentence in turn.sentences:
                log.info("decided", sentence=sentence)
            for call in turn.calls:
                self._submit(call)
            pause = max(0.0, turn.wake_at - self._clock.now())

    def _gather(self, pause: float) -> list[Answer]:
        """Wait up to `pause` for the first message, then take all that are there."""
        answers: list[Answer] = []
        try:
            first = self._inbox.get(timeout=pause) if pause > 0 else self._inbox.get_nowait()
            while True:
                if first is not None:
                    answers.append(first)
                if len(answers) >= MAX_BATCH:
                    break
                first = self._inbox.get_nowait()
        except queue.Empty:
            pass
        return answers
