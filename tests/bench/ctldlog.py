"""slurmctld's log as a clock: when did it set DRAIN on a node?"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

POLL_S = 0.005
_DRAIN = re.compile(rb"^\[(\S+)\] update_node: node (\S+) state set to DRAIN", re.MULTILINE)
_QUARTER_HOUR = 900
_CUT_S = 0.0005


class CtldLog:
    """Reads what the log gains. Its times are cut to milliseconds: half of one is added again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size

    def skip(self) -> None:
        """Forget what was written until now."""
        self._offset = self._path.stat().st_size

    def drained_at(self, worker: str, seconds: float) -> float | None:
        """When DRAIN was set on `worker`, in seconds since 1970; None when it was not within `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for at, name in self._new():
                if name == worker:
                    return at
            time.sleep(POLL_S)
        return None

    def _new(self) -> list[tuple[float, str]]:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [(_seconds(match[1].decode()), match[2].decode()) for match in _DRAIN.finditer(whole)]


def _seconds(stamp: str) -> float:
    """The log has local time without a zone: the zone is what makes it now."""
    naive = datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
    return naive + round((time.time() - naive) / _QUARTER_HOUR) * _QUARTER_HOUR + _CUT_S
