"""What Slinky's NodeSet tells: whether slurm-operator is replacing its pods by those of a newer template."""

from __future__ import annotations

from collections.abc import Iterable

from remediator.kube.errors import Json
from remediator.kube.pods import Owner, PodView, is_slurm_worker
from remediator.kube.read import table, text

KIND = "NodeSet"
REVISION = "controller.kubernetes.io/hash"
ROLLING = "RollingUpdate"


def owners(pods: Iterable[PodView]) -> dict[tuple[str, str], Owner]:
    """The NodeSets of these pods' workers, by namespace and name."""
    return {
        (pod.namespace, owner.name): owner
        for pod in pods
        for owner in pod.owners
        if is_slurm_worker(pod) and owner.kind == KIND and owner.name
    }


def is_settled(nodeset: Json) -> bool:
    """Whether the NodeSet itself counts no pod of an old revision, so that nobody has to look at them."""
    status = table(nodeset, "status")
    replicas, updated = status.get("replicas"), status.get("updatedReplicas")
    return isinstance(replicas, int) and isinstance(updated, int) and updated >= replicas


def is_rolling(nodeset: Json, owner: Owner, pods: Iterable[PodView]) -> bool:
    """Whether a living pod of this NodeSet has another revision than the NodeSet's, and the operator itself
    is to replace it: not OnDelete, and not ScheduledUpdate, which keeps a MAINT reservation for that.
    """
    strategy = table(table(nodeset, "spec"), "updateStrategy")
    revision = text(table(nodeset, "status"), "nodeSetHash")
    if not revision or text(strategy, "type") not in {"", ROLLING}:
        return False
    living = (pod for pod in pods if not (pod.finished or pod.terminating))
    mine = [pod for pod in living if any(found.uid == owner.uid for found in pod.owners)]
    return any(pod.labels.get(REVISION, revision) != revision for pod in mine)
