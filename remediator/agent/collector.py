"""Collectors read hardware, each on a thread of its own: a read that hangs delays no line of the log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from remediator.clock import Clock
from remediator.model.signal import KernelEvent

Tell = Callable[[KernelEvent], None]


class Log(Protocol):
    """The two calls of structlog that the agent needs."""

    def info(self, event: str, **fields: Any) -> Any:
        """Something went as it should."""

    def warning(self, event: str, **fields: Any) -> Any:
        """Something needs a look."""


class Collector(Protocol):
    """Reads one kind of hardware every `every_s` seconds; what must be known at once it returns as events."""

    name: str
    every_s: float

    def look(self, now: float, steady: float) -> Iterable[KernelEvent]:
        """One look at wall time `now`, uptime `steady`; metrics are its own to keep."""


class Looking:
    """The thread of one collector. A look that fails is told once, until one goes well; `after` each of the
    others somebody may want to know.
    """

    def __init__(
        self,
        collector: Collector,
        tell: Tell,
        clock: Clock,
        log: Log,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self._collector, self._tell, self._clock, self._log = collector, tell, clock, log
        self._after = after
        self._ending = threading.Event()
        self._trouble = ""

    def start(self) -> None:
        """Look from a daemon thread: one that hangs in a read must not keep the process."""
        threading.Thread(target=self._run, name=self._collector.name, daemon=True).start()

    def stop(self) -> None:
        """No look after the present one."""
        self._ending.set()

    def look(self) -> None:
        """One look, and its events on their way."""
        try:
            for event in self._collector.look(self._clock.now(), self._clock.steady()):
                self._tell(event)
            self._after()
        except Exception as error:  # noqa: BLE001 - boundary: odd hardware must not end the thread
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._trouble = ""

    def _run(self) -> None:
        while not self._ending.is_set():
            self.look()
            self._ending.wait(self._collector.every_s)

    def _failed(self, why: str) -> None:
        if why != self._trouble:
            self._log.warning("a look at the hardware failed", collector=self._collector.name, why=why)
        self._trouble = why
