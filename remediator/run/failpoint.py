"""A crash on demand for drills: kills the process once, at the moment the environment names.

REMEDIATOR_FAILPOINT=drain-slurm:intent dies after the INTENT was committed, :accepted after the server took
the write. A marker file beside the store keeps a restarted process from dying again.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

VARIABLE = "REMEDIATOR_FAILPOINT"
KILLED = 128 + signal.SIGKILL


class Failpoint:
    """Called at every moment a crash matters; does nothing unless armed."""

    def __init__(self, armed: str, marker: Path) -> None:
        self._armed = armed
        self._marker = marker

    def __call__(self, moment: str) -> None:
        """Die here when this is the armed moment and no earlier process died at it."""
        if moment != self._armed or self._marker.exists():
            return
        self._marker.write_text(moment)
        os.kill(os.getpid(), signal.SIGKILL)
        os._exit(KILLED)  # as the first process of a container we do not get our own signal


def from_environment(state_dir: Path) -> Failpoint:
    """The failpoint the environment asks for; unarmed when it names none."""
    armed = os.environ.get(VARIABLE, "")
    return Failpoint(armed, state_dir / f"failpoint-{armed.replace(':', '-') or 'none'}")
