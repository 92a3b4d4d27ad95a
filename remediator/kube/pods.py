"""What we know of a pod, and which Slurm node a Slinky worker pod is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from remediator.kube import soperator
from remediator.kube.conditions import Condition, of_worker
from remediator.kube.errors import Json
from remediator.kube.read import rows, strings, table, text, words

WORKER_LABELS = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}
WORKER_SELECTOR = ",".join(f"{key}={value}" for key, value in WORKER_LABELS.items())
SCALING_MODE = "nodeset.slinky.slurm.net/scaling-mode"
HOSTNAME_OVERRIDE = "nodeset.slinky.slurm.net/hostname-override"
MIRROR = "kubernetes.io/config.mirror"
FINISHED = ("Succeeded", "Failed")
GPU_VENDOR, GPU_NAME = "nvidia.com/", "/gpu"


@dataclass(frozen=True, slots=True)
class Owner:
    """One ownerReference."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod as last read. `deletion` is when its grace ends or ended, in seconds since the epoch: None
    while nobody deletes it, infinite when that cannot be read; `created` likewise. `claims` are DRA resource
    claims. `pinned_to` is the only node it may run on, `unscheduled` why the scheduler finds none; empty when
    there is no such. `slurm` is how slurm-operator mirrors Slurm's states on a worker.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    phase: str
    owners: tuple[Owner, ...]
    finalizers: tuple[str, ...]
    deletion: float | None
    hostname: str
    host_network: bool
    gpus: int
    claims: int
    pinned_to: str = ""
    unscheduled: str = ""
    created: float | None = None
    slurm: tuple[Condition, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: it uses nothing any more."""
        return self.phase in FINISHED

    @property
    def mirror(self) -> bool:
        """A static pod's mirror: the kubelet owns it."""
        return MIRROR in self.annotations

    @property
    def of_daemon_set(self) -> bool:
        """A DaemonSet owns it: it comes back on this node whatever is done to it."""
        return any(owner.kind == "DaemonSet" for owner in self.owners)

    @property
    def terminating(self) -> bool:
        """Somebody deletes it; it may still run."""
        return self.deletion is not None

    @property
    def holds_gpus(self) -> bool:
        """It has GPUs of its node, or a device claim that may be one."""
        return not self.finished and (self.gpus > 0 or self.claims > 0)

    def overdue(self, now: float) -> float:
        """Seconds since the pod should have been gone; 0 while it need not be."""
        return 0.0 if self.deletion is None else max(0.0, now - self.deletion)


def parse_pod(raw: Json) -> PodView | None:
    """The view of a raw pod; None when it has no name, namespace, uid or resourceVersion."""
    meta, spec = table(raw, "metadata"), table(raw, "spec")
    namespace, name, uid = text(meta, "namespace"), text(meta, "name"), text(meta, "uid")
    version = text(meta, "resourceVersion")
    if not (namespace and name and uid and version):
        return None
    return PodView(
        namespace=namespace,
        name=name,
        uid=uid,
        resource_version=version,
        node=text(spec, "nodeName"),
        labels=strings(meta, "labels"),
        annotations=strings(meta, "annotations"),
        phase=text(table(raw, "status"), "phase"),
        owners=tuple(
            Owner(text(row, "kind"), text(row, "name"), text(row, "uid"))
            for row in rows(meta, "ownerReferences")
        ),
        finalizers=words(meta, "finalizers"),
        deletion=_when(meta, "deletionTimestamp"),
        hostname=text(spec, "hostname"),
        host_network=spec.get("hostNetwork") is True,
        gpus=_gpus(spec),
        claims=len(rows(spec, "resourceClaims")),
        pinned_to=_pinned_to(spec),
        unscheduled=_unscheduled(raw),
        created=_when(meta, "creationTimestamp"),
        slurm=of_worker(rows(table(raw, "status"), "conditions")),
    )


def is_slurm_worker(pod: PodView) -> bool:
    """Whether Slinky or Soperator labels this pod as a slurmd worker."""
    of_slinky = all(pod.labels.get(key) == value for key, value in WORKER_LABELS.items())
    return of_slinky or soperator.is_worker(pod.labels)


def slurm_node(pod: PodView) -> str | None:
    """Slurm's name of this worker, as its operator computes it; None for other pods and while unknown.
    Slinky's StatefulSet mode: hostNetwork ? node : hostname or pod name. DaemonSet mode: hostname.
    Soperator: hostname, which is the pod's name.
    """
    if not is_slurm_worker(pod):
        return None
    if soperator.is_worker(pod.labels):
        return pod.hostname or pod.name
    if pod.labels.get(SCALING_MODE, "").lower() == "daemonset":
        return pod.hostname or None
    if pod.host_network:
        return pod.node or None
    return pod.hostname or pod.name


def is_named_after_node(pod: PodView) -> bool:
    """Whether another node makes another Slurm node of it: DaemonSet mode, or the network of its host."""
    return pod.labels.get(SCALING_MODE, "").lower() == "daemonset" or pod.host_network


def names_of_node(node: str, override: str) -> frozenset[str]:
    """What a worker is called in Slurm that is named after its node."""
    return frozenset({node, node.partition(".")[0], override} - {""})


def _pinned_to(spec: Json) -> str:
    """The node of a required affinity to one node name, as slurm-operator writes it."""
    affinity = table(table(spec, "affinity"), "nodeAffinity")
    terms = rows(table(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms")
    fields = [row for term in terms for row in rows(term, "matchFields")]
    names = [name for row in fields if row.get("key") == "metadata.name" for name in words(row, "values")]
    return names[0] if len(names) == 1 else ""


def _unscheduled(raw: Json) -> str:
    for condition in rows(table(raw, "status"), "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return text(condition, "message")
    return ""


def _when(meta: Json, key: str) -> float | None:
    if meta.get(key) is None:
        return None
    try:
        at = datetime.fromisoformat(text(meta, key))
        return at.timestamp() if at.tzinfo else math.inf
    except (ValueError, OverflowError):
        return math.inf


def _gpus(spec: Json) -> int:
    """What the containers ask for together, or one init container alone; an odd number counts as one."""
    together = sum(_asked(row) for row in rows(spec, "containers"))
    return max([together, *(_asked(row) for row in rows(spec, "initContainers"))])


def _asked(container: Json) -> int:
    resources = table(container, "resources")
    asked = {**table(resources, "limits"), **table(resources, "requests")}
    return sum(_count(value) for name, value in asked.items() if _is_gpu(name))


def _is_gpu(resource: str) -> bool:
    return resource.startswith(GPU_VENDOR) or resource.endswith(GPU_NAME)


def _count(value: object) -> int:
    written = str(value)
    return int(written) if written.isascii() and written.isdigit() else 1
