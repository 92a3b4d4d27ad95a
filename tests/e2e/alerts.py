"""An alert as Alertmanager tells it, through the webhook's own door."""

from __future__ import annotations

import base64
import json
import time
import urllib.request

from deploy.lab import monitoring
from deploy.lab.spec import SLURM_NAMESPACE
from remediator.clock import rfc3339
from tests.e2e.helpers import Site


def tell(site: Site, labels: dict[str, str], starts: float | None = None) -> None:
    """An alert that fires from now on, or from `starts` (seconds since 1970) by its sender's clock."""
    secret = site.lab.api.get(f"/api/v1/namespaces/{SLURM_NAMESPACE}/secrets/{monitoring.SECRET}")["data"]
    token = base64.b64decode(next(iter(secret.values()))).decode()
    began = rfc3339(time.time() if starts is None else starts)
    alert = {"status": "firing", "labels": labels, "startsAt": began}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    body = json.dumps({"version": "4", "alerts": [alert]}).encode()
    request = urllib.request.Request(f"{site.controller.url}/v1/alerts", body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
