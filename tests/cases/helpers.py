"""Alerts through their own door into a river, and what was written since."""

from __future__ import annotations

import json
from typing import Any

from remediator.clock import rfc3339
from remediator.settings import Webhook
from remediator.signals.alertmanager import read_notification, told
from remediator.signals.episodes import convert
from remediator.store import signals
from tests.fakes.river import River

NAMES = Webhook()
NEVER = "0001-01-01T00:00:00Z"


def alert(starts: float, *, status: str = "firing", ends: str = NEVER, **labels: str) -> dict[str, Any]:
    """As Alertmanager writes it; without other labels a dead GPU of gpu-0, seen by our own counters."""
    base = {"alertname": "XidFatal", "node": "gpu-0", "xid": "79", "witness": "own-counters"}
    return {"labels": base | labels, "startsAt": rfc3339(starts), "endsAt": ends, "status": status}


def deliver(river: River, *alerts: dict[str, Any]) -> None:
    """One notification is taken and committed."""
    body = json.dumps({"version": "4", "alerts": list(alerts)}).encode()
    found = convert(told(read_notification(body).entries), NAMES, "webhook", river.clock.now()).signals
    with river.store.write() as connection:
        signals.insert_new(connection, found)


def writes(river: River) -> int:
    """Everything that reached Slurm or Kubernetes from us, refused or not."""
    return len(river.slurm.writes) + sum(write.actor == "remediator" for write in river.kube.writes)


def settle(river: River, seconds: float) -> None:
    """So long a time passes, whether or not there is something to do."""
    until = river.clock.now() + seconds
    river.run(seconds)
    river.clock.advance(max(until - river.clock.now(), 0.0))
