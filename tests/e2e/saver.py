"""A job for the grace tests: it needs SECONDS from SIGTERM on, and writes down in LOG what it sees."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main(log: Path, seconds: float) -> None:
    """Run until SIGTERM, then `seconds` longer."""

    def say(word: str) -> None:
        with log.open("a") as file:
            file.write(f"{word} {time.time():.2f}\n")

    def save(_number: int, _frame: FrameType | None) -> None:
        say("TERM")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.1)
        say("SAVED")
        sys.exit(143)

    signal.signal(signal.SIGTERM, save)
    say("START")
    while True:
        time.sleep(1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
