"""Plain progress lines with the elapsed time: this runs before any library exists."""

from __future__ import annotations

import sys
import threading
import time

_START = time.monotonic()
_LOCK = threading.Lock()
QUIET_SECONDS = 10.0


def elapsed() -> float:
    """Seconds since this process began to set things up."""
    return time.monotonic() - _START


def say(part: str, text: str) -> None:
    """Print one line: elapsed time, part, text."""
    minutes, seconds = divmod(int(elapsed()), 60)
    with _LOCK:
        print(f"[{minutes:2d}:{seconds:02d}] {part:<14} {text}", flush=True, file=sys.stderr)


class Ticker:
    """Says the newest state of a long task every few seconds, also of one that says nothing by itself."""

    def __init__(self, part: str, every: float = QUIET_SECONDS) -> None:
        self._part = part
        self._every = every
        self._last = time.monotonic()
        self._text = "at work"
        self._ended = threading.Event()

    def __enter__(self) -> Ticker:
        threading.Thread(target=self._repeat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _repeat(self) -> None:
        while not self._ended.wait(self._every / 4):
            self.update(self._text)

    def update(self, text: str) -> None:
        """Offer a line; it is printed when the last one is old enough."""
        self._text = text
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            say(self._part, text)
