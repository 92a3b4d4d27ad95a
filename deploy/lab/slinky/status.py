"""What the operator shows to Kubernetes: pod conditions, pod-protect, NodeSet status, Events."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from . import plan
from .kube import CUSTOM, STRATEGIC_PATCH, Kube
from .model import API_VERSION, POD_PROTECT, Json, NodeSet, SlurmNode, WorkerPod

NORMAL_EVENTS = frozenset({"NodeCordon", "ScalingUp", "ScalingDown"})


def show(kube: Kube, pod: WorkerPod, record: SlurmNode | None, protection: bool, now: float) -> None:
    """Writes the Slurm state on a pod, and pod-protect from what is shown."""
    wanted = plan.conditions(record)
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    if dict(wanted) != dict(pod.slurm_conditions):
        changes = condition_patch(pod.slurm_conditions, wanted, now)
        kube.patch(f"{path}/status", {"status": {"conditions": changes}}, STRATEGIC_PATCH)
    protect = protection and plan.shows_busy(wanted)
    if protect != pod.protected:
        kube.patch(path, {"metadata": {"labels": {POD_PROTECT: "true" if protect else None}}})


def condition_patch(shown: Mapping[str, str], wanted: Mapping[str, str], now: float) -> list[Json]:
    """A strategic patch that turns the shown Slurm conditions into the wanted ones; others stay."""
    gone = [{"type": kind, "$patch": "delete"} for kind in shown if kind not in wanted]
    since = {"lastTransitionTime": stamp(now)}
    return [
        {"type": kind, "status": "True", "message": text, **({} if kind in shown else since)}
        for kind, text in wanted.items()
        if shown.get(kind) != text
    ] + gone


def nodeset_status(
    nodeset: NodeSet,
    pods: Collection[WorkerPod],
    records: Mapping[str, SlurmNode],
    desired: int,
    pins: Json | None,
) -> dict[str, Any]:
    """The counts of a NodeSet, its revision, and where its ordinals are pinned to, as a merge patch."""
    gone = dict.fromkeys(nodeset.pins.keys() - (pins or {}).keys())
    known = [records[p.slurm_name].state for p in pods if p.slurm_name in records]
    ready = sum(p.phase == "Running" and p.ready_since is not None for p in pods)
    return {
        "replicas": len(pods),
        "updatedReplicas": sum(not p.terminating and p.revision == nodeset.revision for p in pods),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": len(pods) - ready,
        "desired": desired,
        "slurmIdle": sum("IDLE" in s for s in known),
        "slurmAllocated": sum(bool(s & {"ALLOCATED", "MIXED"}) for s in known),
        "slurmDown": sum("DOWN" in s for s in known),
        "slurmDrain": sum("DRAIN" in s for s in known),
        "observedGeneration": nodeset.raw["metadata"].get("generation", 0),
        "nodeSetHash": nodeset.revision,
        "ordinalToNode": None if pins is None else {**pins, **gone},
        "selector": f"app.kubernetes.io/instance={nodeset.name},app.kubernetes.io/name=slurmd",
    }


def differs(nodeset: NodeSet, totals: Mapping[str, Any]) -> bool:
    """Whether the API server holds something else than `totals`."""
    held = nodeset.raw.get("status") or {}
    return any(held.get(key) != value for key, value in totals.items())


def nodeset_path(nodeset: NodeSet) -> str:
    """The status subresource of a NodeSet."""
    return f"{CUSTOM}/namespaces/{nodeset.namespace}/nodesets/{nodeset.name}/status"


def event(nodeset: NodeSet, reason: str, message: str, now: float) -> Json:
    """An Event about a NodeSet."""
    return {
        "metadata": {"name": f"{nodeset.name}.{uuid.uuid4().hex[:16]}", "namespace": nodeset.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "NodeSet",
            "namespace": nodeset.namespace,
            "name": nodeset.name,
            "uid": nodeset.uid,
        },
        "reason": reason,
        "message": message[:1024],
        "type": "Normal" if reason in NORMAL_EVENTS else "Warning",
        "source": {"component": "nodeset-controller"},
        "firstTimestamp": stamp(now),
        "lastTimestamp": stamp(now),
        "count": 1,
    }


def stamp(now: float) -> str:
    """RFC 3339, whole seconds, as Kubernetes writes it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
