"""Frozen views of the objects the operator reads, and the names it shares with the world."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Json = dict[str, Any]

API_VERSION = "slinky.slurm.net/v1beta1"
REASON_PREFIX = "slurm-operator: "
CONDITION_PREFIX = "SlurmNodeState"
CLUSTER_LABEL = "slinky.slurm.net/cluster"
_NODESET = "nodeset.slinky.slurm.net/"
POD_CORDON = _NODESET + "pod-cordon"
POD_PROTECT = _NODESET + "pod-protect"
POD_NAME = _NODESET + "pod-name"
POD_INDEX = _NODESET + "pod-index"
POD_HOSTNAME = _NODESET + "pod-hostname"
SCALING_MODE = _NODESET + "scaling-mode"
DELETION_COST = _NODESET + "pod-deletion-cost"
NODE_CORDON_REASON = _NODESET + "node-cordon-reason"
HOSTNAME_OVERRIDE = _NODESET + "hostname-override"
REVISION = "controller.kubernetes.io/hash"


@dataclass(frozen=True)
class NodeSet:
    """A NodeSet resource with its defaults applied; `raw` is what the API server sent."""

    namespace: str
    name: str
    uid: str
    controller: str
    replicas: int
    protection: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def spec(self) -> Json:
        """The spec as sent."""
        return dict(self.raw.get("spec") or {})

    @property
    def daemons(self) -> bool:
        """One worker on each node that fits, instead of so many replicas."""
        return bool(self.spec.get("scalingMode") == "DaemonSet")

    @property
    def pin_to_node(self) -> bool:
        """A worker that is made again goes back where it was."""
        return bool(self.spec.get("pinToNode"))

    @property
    def pins(self) -> Json:
        """The node of each ordinal, as last written down."""
        return dict((self.raw.get("status") or {}).get("ordinalToNode") or {})

    @property
    def revision(self) -> str:
        """Of what pods are made of; another one means a rollout."""
        made_of = {key: self.spec.get(key) for key in ("template", "slurmd", "extraConf")}
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:10]

    @classmethod
    def from_json(cls, raw: Json) -> NodeSet:
        """Reads one item of a list."""
        meta, spec = raw["metadata"], raw.get("spec") or {}
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            controller=spec["controllerRef"]["name"],
            replicas=int(spec.get("replicas", 1)),
            protection=bool(spec.get("workloadDisruptionProtection", True)),
            raw=raw,
        )


@dataclass(frozen=True)
class KubeNode:
    """What a cordon needs to know of a Kubernetes node."""

    name: str
    unschedulable: bool = False
    cordon_reason: str | None = None
    conditions: tuple[tuple[str, str, str], ...] = ()  # (type, reason, message) of those that are True
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    hostname_override: str = ""

    @classmethod
    def from_json(cls, raw: Json) -> KubeNode:
        """Reads one item of a list."""
        conditions = (raw.get("status") or {}).get("conditions") or []
        spec, annotations = raw.get("spec") or {}, raw["metadata"].get("annotations") or {}
        return cls(
            name=raw["metadata"]["name"],
            unschedulable=bool(spec.get("unschedulable")),
            cordon_reason=annotations.get(NODE_CORDON_REASON),
            labels=raw["metadata"].get("labels") or {},
            taints=tuple(spec.get("taints") or ()),
            hostname_override=annotations.get(HOSTNAME_OVERRIDE, ""),
            conditions=tuple(
                (c["type"], c.get("reason", ""), c.get("message", ""))
                for c in conditions
                if c.get("status") == "True"
            ),
        )


@dataclass(frozen=True)
class WorkerPod:
    """A worker pod; `slurm_conditions` maps SlurmNodeState* types to their messages."""

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    hostname: str = ""
    phase: str = "Pending"
    ready_since: float | None = None
    terminating: bool = False
    cordoned: bool = False
    protected: bool = False
    deletion_cost: int = 0
    revision: str = ""
    pinned_to: str = ""
    daemon: bool = False
    slurm_conditions: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """`namespace/name`, as it stands in Slurm reasons."""
        return f"{self.namespace}/{self.name}"

    @property
    def slurm_name(self) -> str:
        """The node name that the slurmd in this pod registers with."""
        return self.hostname or self.name

    @property
    def ordinal(self) -> int:
        """The number behind the last dash; -1 without one."""
        tail = self.name.rpartition("-")[2]
        return int(tail) if tail.isdecimal() else -1

    @property
    def target(self) -> str:
        """The node it is on, or the only one it may come onto."""
        return self.node or self.pinned_to

    @property
    def ended(self) -> bool:
        """Its containers ended for good."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def healthy(self) -> bool:
        """Running, Ready and not on its way out."""
        return self.phase == "Running" and self.ready_since is not None and not self.terminating

    @classmethod
    def from_json(cls, raw: Json) -> WorkerPod:
        """Reads one item of a list."""
        meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
        annotations = meta.get("annotations") or {}
        true = {c["type"]: c for c in status.get("conditions") or [] if c.get("status") == "True"}
        return cls(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta.get("uid", ""),
            node=spec.get("nodeName") or "",
            hostname=spec.get("hostname") or "",
            phase=status.get("phase", "Pending"),
            ready_since=_epoch(true["Ready"].get("lastTransitionTime")) if "Ready" in true else None,
            terminating="deletionTimestamp" in meta,
            cordoned=annotations.get(POD_CORDON) == "true",
            protected=(meta.get("labels") or {}).get(POD_PROTECT) == "true",
            deletion_cost=_integer(annotations.get(DELETION_COST)),
            revision=(meta.get("labels") or {}).get(REVISION, ""),
            pinned_to=_pinned_to(spec),
            daemon=(meta.get("labels") or {}).get(SCALING_MODE) == "DaemonSet",
            slurm_conditions={t: c.get("message", "") for t, c in true.items() if is_slurm_condition(t)},
        )


@dataclass(frozen=True)
class SlurmNode:
    """A node record of slurmctld; `state` holds the base state and the flags."""

    name: str
    state: frozenset[str] = frozenset()
    reason: str = ""
    comment: str = ""

    @classmethod
    def from_json(cls, raw: Json) -> SlurmNode:
        """Reads one item of `nodes` of data_parser v0.0.44."""
        return cls(
            name=raw["name"],
            state=frozenset(raw.get("state") or ()),
            reason=raw.get("reason") or "",
            comment=raw.get("comment") or "",
        )


def is_slurm_condition(kind: str) -> bool:
    """Whether a pod condition is one of the operator's."""
    return kind.startswith(CONDITION_PREFIX)


def pinned(node: str) -> Json:
    """The node affinity that lets a pod run on this node alone."""
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [only]}]}
    }


def _pinned_to(spec: Json) -> str:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [
        row for term in required.get("nodeSelectorTerms") or () for row in term.get("matchFields") or ()
    ]
    return str(fields[0]["values"][0]) if fields else ""


def _epoch(stamp: str | None) -> float:
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0


def _integer(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0
