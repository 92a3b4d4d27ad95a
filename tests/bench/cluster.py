"""A cluster as its API server lists it: nodes and worker pods with what such objects carry, over the wire."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from remediator.errors import Retry
from remediator.kube import paths
from remediator.kube.pods import WORKER_LABELS, WORKER_SELECTOR
from remediator.kube.session import Listing, Stream

PAGE = 500
RACK = 32
_SINCE = "2026-11-01T08:00:00Z"
_SAME = {
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "node.kubernetes.io/instance-type": "bm.gpu.h100.8",
    "nvidia.com/cuda.driver-version.full": "570.172.08",
    "nvidia.com/cuda.runtime-version.full": "12.8",
    "nvidia.com/gpu.clique": "0",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.deploy.dcgm-exporter": "true",
    "nvidia.com/gpu.deploy.device-plugin": "true",
    "nvidia.com/gpu.deploy.driver": "true",
    "nvidia.com/gpu.family": "hopper",
    "nvidia.com/gpu.machine": "PowerEdge-XE9680",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/mig.capable": "true",
    "pool": "training",
}
_FEATURES = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{i:02}": "true" for i in range(40)}
_PROBLEMS = ("MemoryPressure", "DiskPressure", "PIDPressure", "KernelDeadlock", "ReadonlyFilesystem")


def raw_node(number: int) -> dict[str, Any]:
    """A GPU node with its labels, feature labels, conditions and images."""
    name = f"gpu-{number}"
    places = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/rack": f"rack-{number // RACK}",
        "topology.kubernetes.io/zone": "zone-a",
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"5f3a0000-0000-4000-8000-{number:012}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": _SINCE,
            "labels": _SAME | _FEATURES | places,
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": json.dumps({"csi.example.com": name}),
                "nfd.node.kubernetes.io/feature-labels": ",".join(_FEATURES),
                "node.alpha.kubernetes.io/ttl": "30",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"providerID": f"bench://{name}", "podCIDR": f"10.{number // 256}.{number % 256}.0/24"},
        "status": {
            "nodeInfo": {
                "bootID": boot_id(name),
                "osImage": "Ubuntu 24.04.3 LTS",
                "kernelVersion": "6.8.0-79-generic",
            },
            "capacity": {"nvidia.com/gpu": "8"},
            "allocatable": {"nvidia.com/gpu": "8"},
            "conditions": [
                _condition("Ready", "True", "KubeletReady"),
                *(_condition(kind, "False", f"No{kind}") for kind in _PROBLEMS),
            ],
            "images": [{"names": [f"registry.example/{i}@sha256:{64 * 'a'}"]} for i in range(50)],
        },
    }


def raw_pod(number: int) -> dict[str, Any]:
    """The Slurm worker on a node."""
    return {
        "metadata": {
            "name": f"w-{number}",
            "namespace": "slurm",
            "uid": f"6f3a0000-0000-4000-8000-{number:012}",
            "resourceVersion": str(2_000_000 + number),
            "creationTimestamp": _SINCE,
            "labels": WORKER_LABELS
            | {
                "app.kubernetes.io/instance": "slurm-worker-gpu",
                "apps.kubernetes.io/pod-index": str(number),
                "nodeset.slinky.slurm.net/pod-hostname": f"w-{number}",
                "nodeset.slinky.slurm.net/pod-name": f"w-{number}",
            },
            "annotations": {
                "kubectl.kubernetes.io/default-container": "slurmd",
                "nodeset.slinky.slurm.net/node-name": f"gpu-{number}",
            },
            "ownerReferences": [{"kind": "NodeSet", "name": "gpu", "uid": "7f3a0000-0000-4000-8000-1"}],
        },
        "spec": {
            "nodeName": f"gpu-{number}",
            "hostname": f"w-{number}",
            "containers": [{"name": "slurmd", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        },
        "status": {
            "phase": "Running",
            "conditions": [_condition("Ready", "True", ""), _condition("SlurmNodeStateIdle", "True", "IDLE")],
        },
    }


def boot_id(node: str) -> str:
    """The present boot of a node."""
    return f"boot-{node}"


class Wire:
    """What watches ask: lists of `count` nodes and their workers, as text read anew, then silence."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._over = threading.Event()

    def pages(
        self, path: str, *, deadline: float, params: Mapping[str, str] | None = None
    ) -> Iterator[Listing]:
        """The list; only Slinky's workers are there."""
        make = raw_node if path == paths.NODES else raw_pod
        nobody = path == paths.PODS and (params or {}).get("labelSelector") != WORKER_SELECTOR
        for first in range(0, 0 if nobody else self._count, PAGE):
            numbers = range(first, min(first + PAGE, self._count))
            yield Listing(tuple(json.loads(json.dumps([make(number) for number in numbers]))), "1")
        if nobody:
            yield Listing((), "1")

    def watch(self, path: str, *, params: Mapping[str, str], read_timeout: float) -> Stream:
        """Nothing happens until `close`."""
        self._over.wait()
        raise Retry(f"{path}: the bench is over")

    def close(self) -> None:
        """Let the watches go."""
        self._over.set()


def _condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {
        "type": kind, "status": status, "reason": reason, "message": f"{kind} is {status}",
        "lastTransitionTime": _SINCE, "lastHeartbeatTime": _SINCE,
    }  # fmt: skip
