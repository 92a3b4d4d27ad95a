"""A look of our own, at its own pace: what it finds is handed in once per life, and the store keeps one."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from remediator.clock import Clock
from remediator.errors import RemediatorError
from remediator.model.signal import Signal
from remediator.observe.logs import logger

Submit = Callable[[Sequence[Signal]], None]


class Look(ABC):
    """One look every `every_s` seconds."""

    stage: ClassVar[str]
    unseen: ClassVar[str]

    def __init__(self, submit: Submit, clock: Clock, every_s: float) -> None:
        self._submit = submit
        self.clock = clock
        self._every_s = every_s
        self._told: frozenset[str] = frozenset()
        self._stopping = threading.Event()

    @abstractmethod
    def find(self) -> Sequence[Signal]:
        """All that is there to see now; Retry and GiveUp when it cannot be read."""

    def run(self) -> None:
        """Look until stopped."""
        while not self._stopping.is_set():
            pause = self.pause()
            self.look()
            self._stopping.wait(pause)

    def pause(self) -> float:
        """Seconds until the look after the next."""
        return self._every_s

    def stop(self) -> None:
        """End the loop after the present look."""
        self._stopping.set()

    def look(self) -> None:
        """One look; what cannot be read or stored now is read again next time."""
        try:
            found = self.find()
            self._submit([signal for signal in found if signal.dedupe not in self._told])
        except RemediatorError as error:
            logger(stage=self.stage).warning(self.unseen, problem=str(error))
            return
        self._told = frozenset(signal.dedupe for signal in found)
