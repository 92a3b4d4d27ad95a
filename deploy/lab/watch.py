"""Shows a start on a terminal: one line a finished phase, and what is being waited for now."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status


class Lines:
    """A watcher for people."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._open: list[str] = []
        self._status = Status("", console=console)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def began(self, phase: str) -> None:
        """Adds the phase to those being waited for."""
        self._open.append(phase)
        self._status.update(", ".join(self._open))

    def ended(self, phase: str, seconds: float, since_start: float) -> None:
        """Prints the phase with its length and the time since the start."""
        self._open.remove(phase)
        self._console.print(f"{since_start:6.1f} s  {phase} ({seconds:.1f} s)")
        self._status.update(", ".join(self._open))
