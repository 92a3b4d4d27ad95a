"""Servers in memory for the operator: they list what they are given and remember what is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.lab.slinky import status
from deploy.lab.slinky.kube import CUSTOM, Kube, KubeError
from deploy.lab.slinky.model import POD_CORDON, REVISION, Json, NodeSet, SlurmNode
from deploy.lab.slinky.plan import SetSlurm
from deploy.lab.slinky.slurm import SlurmError, SlurmRest

NOW = 1_800_000_000.0
NODESET: Json = {
    "metadata": {"namespace": "slurm", "name": "worker", "uid": "nu", "generation": 1},
    "spec": {"controllerRef": {"name": "slurm"}, "replicas": 1},
}
CONTROLLER: Json = {
    "metadata": {"name": "slurm", "namespace": "slurm"},
    "spec": {
        "slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"},
        "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
    },
}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": status.stamp(NOW - 60)}


def pod(name: str = "worker-0", **metadata: Any) -> Json:
    """A Ready worker pod on gpu-0."""
    owner = {"uid": "nu"}
    of = NodeSet.from_json(NODESET)
    meta = {"namespace": "slurm", "name": name, "uid": f"uid-{name}", "ownerReferences": [owner], **metadata}
    meta["labels"] = {REVISION: of.revision, **meta.get("labels", {})}
    spec = {"nodeName": "gpu-0", "hostname": name}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", "conditions": [READY]}}


def node(*, unschedulable: bool = False) -> Json:
    """The Kubernetes node gpu-0."""
    return {"metadata": {"name": "gpu-0", "uid": "n0"}, "spec": {"unschedulable": unschedulable}}


class MemoryKube(Kube):
    """Lists what it was given and remembers what it was asked to write."""

    def __init__(self, pods: list[Json], nodes: list[Json], refuse: str = "") -> None:
        super().__init__("https://nowhere", Path("token"), Path("ca"))
        self.lists: Mapping[str, list[Json]] = {
            "/api/v1/namespaces/slurm/pods": pods,
            "/api/v1/nodes": nodes,
            f"{CUSTOM}/nodesets": [NODESET],
            f"{CUSTOM}/tokens": [],
        }
        self.objects: dict[str, Json] = {f"{CUSTOM}/namespaces/slurm/controllers/slurm": CONTROLLER}
        self.patches: list[tuple[str, Json]] = []
        self.created: list[tuple[str, Json]] = []
        self.deleted: list[str] = []
        self.refuse = refuse

    def items(self, path: str, **query: str) -> list[Json]:
        return self.lists[path]

    def get(self, path: str) -> Json | None:
        return self.objects.get(path)

    def create(self, path: str, body: Json) -> bool:
        self.created.append((path, body))
        return True

    def patch(self, path: str, body: Json, kind: str = "") -> None:
        if self.refuse and path.endswith(self.refuse):
            raise KubeError(403, "no")
        self.patches.append((path, body))

    def delete(self, path: str, uid: str) -> None:
        self.deleted.append(path)

    def events(self) -> list[str]:
        """Reasons of the Events written."""
        return [body["reason"] for path, body in self.created if path.endswith("/events")]

    def pods_made(self) -> list[str]:
        """Host names of the pods created: of most of them their own name, too."""
        return [body["spec"]["hostname"] for path, body in self.created if path.endswith("/pods")]

    def cordons(self) -> list[Any]:
        """Values written to pod-cordon; None where it was removed."""
        found = [body["metadata"].get("annotations", {}) for _, body in self.patches if "metadata" in body]
        return [annotations[POD_CORDON] for annotations in found if POD_CORDON in annotations]


class MemorySlurm(SlurmRest):
    """Knows the given records; may refuse to write or be away."""

    def __init__(self, *records: SlurmNode, refuse: bool = False, away: bool = False) -> None:
        super().__init__("http://nowhere", lambda: "")
        self.records = {r.name: r for r in records}
        self.updates: list[SetSlurm] = []
        self.refuse = refuse
        self.away = away
        self.reads = 0

    def nodes(self) -> dict[str, SlurmNode]:
        self.reads += 1
        if self.away:
            raise SlurmError("GET /nodes/: MaxRetryError")
        return dict(self.records)

    def update(self, change: SetSlurm) -> None:
        if self.refuse:
            raise SlurmError("POST /node/worker-0: HTTP 422 Invalid node state")
        self.updates.append(change)
        if change.comment is not None:
            self.records[change.node] = replace(self.records[change.node], comment=change.comment)
