"""First process of the controller's container in these drills: starts the controller again whenever it dies.

Python's standard library alone: it runs in the image. Each death is a line of JSON in the pod's log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def keep(state: Path, command: list[str]) -> None:
    """Run `command` for ever; `state/hold` keeps a new life from beginning after a death at what it names."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # the container's other processes die with this one
    hold = state / "hold"
    while True:
        status = subprocess.Popen(command).wait()
        moment = latest(state)
        print(json.dumps({"died": status, "moment": moment, "at": time.time()}), flush=True)
        while hold.exists() and hold.read_text().strip() == moment:
            time.sleep(0.05)


def latest(state: Path) -> str:
    """The failpoint that was met last."""
    marks = sorted(state.glob("failpoint-*"), key=lambda mark: mark.stat().st_mtime_ns)
    return marks[-1].read_text() if marks else ""


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2:])
