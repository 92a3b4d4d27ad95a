"""What shows in Kubernetes that Soperator runs a node: its worker pods, and its conditions on Nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from remediator.kube.errors import Json
from remediator.kube.read import moment, text

WORKER, YES = "slurm.nebius.ai/worker", "true"
WORKER_SELECTOR = f"{WORKER}={YES}"
OWN = {
    "SlurmNodeDrain": "it drains the node",
    "SlurmNodeReboot": "it reboots the node",
    "SoperatorChecksNodeDegraded": "it has found the node degraded",
    "SoperatorChecksNodeMaintenance": "it takes the node out for maintenance",
}
"""Conditions that nobody else writes, and what each means while it is True."""
CONDITIONS = OWN | {
    "HardwareIssuesSuspected": "a hardware check failed",
    "NebiusMaintenanceScheduled": "the cloud plans maintenance",
    "MaintenanceScheduled": "the cloud plans maintenance",
}
"""All that it acts on; the cloud's own are on clusters without Soperator too."""


@dataclass(frozen=True, slots=True)
class Report:
    """One of CONDITIONS as a Node shows it; `since` in seconds since the epoch, None when unreadable."""

    kind: str
    status: str
    reason: str
    message: str
    since: float | None

    @property
    def is_true(self) -> bool:
        """It holds now."""
        return self.status == "True"

    def __str__(self) -> str:
        words = " ".join(f"{self.reason}: {self.message}".split())[:200]
        return f"{self.kind} ({CONDITIONS[self.kind]}; {words})"


def reports(conditions: Iterable[Json]) -> tuple[Report, ...]:
    """Those of a Node's conditions that Soperator writes or acts on, whatever their status."""
    return tuple(_report(row) for row in conditions if text(row, "type") in CONDITIONS)


def is_marked(found: Iterable[Report]) -> bool:
    """Whether Soperator itself has written to the Node."""
    return any(report.kind in OWN for report in found)


def is_worker(labels: Mapping[str, str]) -> bool:
    """Whether a pod's labels are those of a Soperator worker."""
    return labels.get(WORKER) == YES


def _report(row: Json) -> Report:
    fields = (text(row, "type"), text(row, "status"), text(row, "reason"), text(row, "message"))
    return Report(*fields, moment(row, "lastTransitionTime"))
