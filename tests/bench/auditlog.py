"""The API server's audit log as a clock: when had it answered the controller's PATCH of a node?"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

from deploy.lab.spec import SLURM_NAMESPACE
from tests.bench.gained import Gained

POLL_S = 0.01
CONTROLLER = f"system:serviceaccount:{SLURM_NAMESPACE}:remediator"


class AuditLog(Gained):
    """Reads what the log gains. An answer is noted once it is given, so a moment after the write."""

    def patch_of(self, node: str, seconds: float) -> float | None:
        """When (seconds since 1970) the controller's next PATCH of the node was answered with success; None
        when there was none within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for event in self._new():
                if _is_patch(event, node):
                    return datetime.fromisoformat(event["stageTimestamp"]).timestamp()
            time.sleep(POLL_S)
        return None

    def _new(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.new().splitlines() if b'"verb":"patch"' in line]


def _is_patch(event: dict[str, Any], node: str) -> bool:
    about = event.get("objectRef", {})
    return (
        event["user"]["username"] == CONTROLLER
        and (about.get("resource"), about.get("name"), about.get("subresource")) == ("nodes", node, None)
        and event["responseStatus"]["code"] == 200
    )
