"""What we know of a pod, and which Slurm node a Slinky worker pod is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remediator.kube.errors import Json
from remediator.kube.read import rows, strings, table, text

WORKER_LABELS = {"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker"}
WORKER_SELECTOR = ",".join(f"{key}={value}" for key, value in WORKER_LABELS.items())
SCALING_MODE = "nodeset.slinky.slurm.net/scaling-mode"
MIRROR = "kubernetes.io/config.mirror"
FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod as last read. `deletion` is the deletionTimestamp or empty; `owners` are owner kinds."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    phase: str
    owners: tuple[str, ...]
    deletion: str
    hostname: str
    host_network: bool

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
        owners=tuple(text(row, "kind") for row in rows(meta, "ownerReferences")),
        deletion=text(meta, "deletionTimestamp"),
        hostname=text(spec, "hostname"),
        host_network=spec.get("hostNetwork") is True,
    )


def is_slurm_worker(pod: PodView) -> bool:
    """Whether Slinky labels this pod as a slurmd worker."""
    return all(pod.labels.get(key) == value for key, value in WORKER_LABELS.items())


def slurm_node(pod: PodView) -> str | None:
    """Slurm's name of this worker, as Slinky computes it; None for other pods and while unknown.
    StatefulSet mode: hostNetwork ? node : hostname or pod name. DaemonSet mode: hostname.
    """
    if not is_slurm_worker(pod):
        return None
    if pod.labels.get(SCALING_MODE, "").lower() == "daemonset":
        return pod.hostname or None
    if pod.host_network:
        return pod.node or None
    return pod.hostname or pod.name
