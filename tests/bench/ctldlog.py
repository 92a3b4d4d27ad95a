"""slurmctld's log as a clock: when was it asked about a node, and when did it set DRAIN?"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.bench.gained import Gained

POLL_S = 0.005
_LINE = re.compile(
    rb"^\[(\S+)\] (?:update_node: node (\S+) state set to DRAIN"
    rb"|debug2: Processing RPC: (REQUEST_NODE_INFO_SINGLE))",
    re.MULTILINE,
)
_QUARTER_HOUR = 900
_CUT_S = 0.0005


@dataclass(frozen=True)
class Drain:
    """When DRAIN was set, and the last time before it that one node was asked for (seconds since 1970)."""

    at: float
    asked_at: float | None


class CtldLog(Gained):
    """Reads what the log gains. Its times are cut to milliseconds: half of one is added again."""

    def drain_of(self, worker: str, seconds: float) -> Drain | None:
        """The next DRAIN of `worker`; None when there was none within `seconds`."""
        deadline = time.monotonic() + seconds
        asked_at = None
        while time.monotonic() < deadline:
            for at, name in self._new():
                if name == worker:
                    return Drain(at, asked_at)
                asked_at = at if name is None else asked_at
            time.sleep(POLL_S)
        return None

    def _new(self) -> list[tuple[float, str | None]]:
        """Time and drained node of each line of interest; a node of None for a question about one node."""
        return [
            (log_seconds(match[1].decode()), match[2].decode() if match[2] else None)
            for match in _LINE.finditer(self.new())
        ]


def log_seconds(stamp: str) -> float:
    """The log has local time without a zone: the zone is what makes it now."""
    naive = datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
    return naive + round((time.time() - naive) / _QUARTER_HOUR) * _QUARTER_HOUR + _CUT_S
