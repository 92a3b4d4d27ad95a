"""A notification as Alertmanager sends it, on a kept connection; and a queue of jobs for it to get past."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path

from deploy.lab.api import Lab
from deploy.lab.monitoring import token_file
from tests.bench.site import DEADLINE_S, Lost, Site

QUEUED = 500
_NAME = "bench-queued"


class Alertmanager:
    """What its webhook does, with the lab's token; a kept connection that was closed is opened again."""

    def __init__(self, site: Site) -> None:
        self._door = HTTPConnection(site.url.removeprefix("http://"), timeout=DEADLINE_S)
        self._token = _read(token_file(site.lab.layout))

    def send(self, node: str, boot: str, xid: int, pci: str) -> None:
        """One firing alert of the rule that the agent's counters feed; return when it is answered."""
        labels = {
            "alertname": "GpuXidInKernelLog", "route": "remediator", "witness": "own-counters",
            "node": node, "boot_id": boot, "xid": str(xid), "pci": pci,
        }  # fmt: skip
        began = datetime.now(UTC).isoformat()
        body = {"version": "4", "alerts": [{"status": "firing", "labels": labels, "startsAt": began}]}
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._door.request("POST", "/v1/alerts", json.dumps(body), headers)
        answer = self._door.getresponse()
        said = json.loads(answer.read())
        if answer.status != 200 or said.get("accepted") != 1:
            raise Lost(f"the webhook answered {answer.status}: {said}")


def queue_jobs(lab: Lab) -> None:
    """Pending jobs that Slurm has to show and we have to read; they are not due for a week."""
    script = f"for i in $(seq {QUEUED}); do sbatch -Q -J {_NAME} --begin=now+7days -N1 --wrap true; done"
    lab.slurm("sh", "-c", script, deadline=180)


def drop_jobs(lab: Lab) -> None:
    """Take them out of the queue again."""
    lab.slurm("scancel", f"--name={_NAME}")


def _read(path: Path) -> str:
    return path.read_text().strip()
