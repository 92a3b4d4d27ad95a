"""When the servers themselves say that something happened, in seconds since 1970."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import NamedTuple

from tests.e2e.helpers import ACCOUNT, Json, Servers

CHANGES = frozenset({"patch", "update", "create", "delete"})
EVICTION, REFUSED = "pods/eviction", 429


class _Change(NamedTuple):
    """What our account asked of the API server, and the answer's HTTP status."""

    at: float
    kind: str
    namespace: str
    name: str
    code: int


def drained_at(servers: Servers, worker: str) -> float:
    """When slurmctld set DRAIN, the one time."""
    return _logged(servers, rf"update_node: node {re.escape(worker)} state set to DRAIN(?:ED|ING)\b")


def requeued_at(servers: Servers, address: str) -> float:
    """When slurmctld requeued the job, the one time: the old run's processes are gone by then."""
    return _logged(servers, rf"Requeuing JobId={re.escape(address)}$")


def fenced_at(servers: Servers, node: str) -> float:
    """When the API server took our one PATCH of the node."""
    ours = [seen for seen in _ours(servers) if (seen.kind, seen.name) == ("nodes", node)]
    (at,) = (seen.at for seen in ours if seen.code < 300)
    return at


def asked_to_leave_at(servers: Servers, pod: str) -> list[float]:
    """When we asked the API server to evict the pod, those that its budget refused too."""
    return sorted(seen.at for seen in _ours(servers) if (seen.kind, seen.name) == (EVICTION, pod))


def refused_evictions(servers: Servers) -> set[str]:
    """Pods that a disruption budget kept from us, as `namespace/name`."""
    return {
        f"{seen.namespace}/{seen.name}"
        for seen in _ours(servers)
        if (seen.kind, seen.code) == (EVICTION, REFUSED)
    }


def _logged(servers: Servers, line: str) -> float:
    (at,) = re.findall(rf"^\[(\S+)\] {line}", servers.ctld_text(), re.MULTILINE)
    return datetime.fromisoformat(at).timestamp()


def _ours(servers: Servers) -> list[_Change]:
    events = map(json.loads, servers.audit_text().splitlines())
    return [_change(one) for one in events if one["user"]["username"] == ACCOUNT and one["verb"] in CHANGES]


def _change(event: Json) -> _Change:
    about = event.get("objectRef", {})
    parts = (about.get("resource"), about.get("subresource"))
    at = datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
    code = int(event.get("responseStatus", {}).get("code", 500))
    kind = "/".join(part for part in parts if part)
    return _Change(at, kind, about.get("namespace", ""), about.get("name", ""), code)
