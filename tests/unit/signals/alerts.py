"""Alerts as Alertmanager sends them."""

from __future__ import annotations

import json
from typing import Any

STARTED = "2026-11-29T18:01:12.443130987Z"
SECOND = 1_795_975_272


def alert(status: str = "firing", starts: str = STARTED, **labels: str) -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": "GpuXid", "node": "gpu-1", "xid": "79"} | labels,
        "annotations": {"summary": "x"},
        "startsAt": starts,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "a1b2c3",
    }


def without(entry: dict[str, Any], *names: str) -> dict[str, Any]:
    labels = {name: value for name, value in entry["labels"].items() if name not in names}
    return entry | {"labels": labels}


def notification(*alerts: Any, **changes: Any) -> dict[str, Any]:
    """A version 4 body; `notification_reason` stands for fields of versions to come."""
    return {
        "version": "4",
        "groupKey": '{}:{alertname="GpuXid"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "remediator",
        "notification_reason": "new",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
        "alerts": list(alerts),
    } | changes


def body(*alerts: Any, **changes: Any) -> bytes:
    return json.dumps(notification(*alerts, **changes)).encode()


def listing(*alerts: dict[str, Any], state: str = "active") -> bytes:
    """The answer of GET /api/v2/alerts."""
    status = {"state": state, "silencedBy": [], "inhibitedBy": []}
    return json.dumps([entry | {"status": status} for entry in alerts]).encode()


def sample(value: str = str(SECOND), **labels: str) -> dict[str, Any]:
    """A row of the ALERTS_FOR_STATE query."""
    names = {"__name__": "ALERTS_FOR_STATE", "alertname": "GpuXid", "node": "gpu-1", "xid": "79"} | labels
    return {"metric": names, "value": [SECOND + 9.4, value]}
