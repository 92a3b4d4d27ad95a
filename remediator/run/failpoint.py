"""Crashes on demand for drills: kills the process once at each moment the environment names.

REMEDIATOR_FAILPOINT=drain-slurm:intent dies after the INTENT was committed, :accepted after the server took
the write; several moments are parted by commas. A marker file beside the store keeps a restarted process
from dying there again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection
from pathlib import Path

VARIABLE = "REMEDIATOR_FAILPOINT"
KILLED = 128 + signal.SIGKILL


class Failpoint:
    """Called at every moment a crash matters; does nothing unless armed."""

    def __init__(self, armed: Collection[str], folder: Path) -> None:
        self._armed = armed
        self._folder = folder
        self._lock = threading.Lock()  # two tracks may be at a moment at once: it is one death each

    def __call__(self, moment: str) -> None:
        """Die here when this is an armed moment and no earlier process died at it."""
        if moment not in self._armed:
            return
        with self._lock:
            marker = self._folder / f"failpoint-{moment.replace(':', '-')}"
            if marker.exists():
                return
            marker.write_text(moment)
            os.kill(os.getpid(), signal.SIGKILL)
            os._exit(KILLED)  # as the first process of a container we do not get our own signal


def from_environment(state_dir: Path) -> Failpoint:
    """The failpoints the environment asks for; unarmed when it names none."""
    named = os.environ.get(VARIABLE, "")
    return Failpoint(frozenset(named.split(",")) - {""}, state_dir)
