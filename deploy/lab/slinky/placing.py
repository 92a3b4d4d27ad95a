"""Which Kubernetes node a worker may run on, and what DaemonSet mode and pinToNode make of it. Pure.

As in v1.2.1 only taints, the node selector and tolerations of the template count; a cordon is a taint too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .model import Json, KubeNode, NodeSet, WorkerPod

HOLDING = ("NoSchedule", "NoExecute")


def fits(spec: Json, node: KubeNode) -> tuple[bool, bool]:
    """Whether a pod of this spec should start on the node, and whether one that is there should stay."""
    wanted = spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False, False
    feared = [taint for taint in node.taints if not _is_tolerated(taint, spec.get("tolerations") or ())]
    starts = not any(taint.get("effect") in HOLDING for taint in feared)
    return starts, not any(taint.get("effect") == "NoExecute" for taint in feared)


def hostname(node: KubeNode) -> str:
    """What a worker of DaemonSet mode is called on this node, in Slurm too."""
    return node.hostname_override or node.name.partition(".")[0]


def daemons(
    spec: Json, nodes: Iterable[KubeNode], pods: Collection[WorkerPod]
) -> tuple[list[KubeNode], list[WorkerPod]]:
    """Nodes that lack their worker, and workers that are to go: ended, misnamed, one too many, unwanted."""
    there: dict[str, list[WorkerPod]] = defaultdict(list)
    for pod in pods:
        if not (pod.terminating and pod.ended):
            there[pod.target].append(pod)
    lacking, surplus = [], []
    for node in nodes:
        mine = there.get(node.name, [])
        starts, stays = fits(spec, node)
        if starts and not mine:
            lacking.append(node)
        surplus += [pod for pod in _surplus(node, mine, stays) if not pod.terminating]
    return lacking, surplus


def pins(
    nodeset: NodeSet, spec: Json, nodes: Mapping[str, KubeNode], pods: Iterable[WorkerPod]
) -> Json | None:
    """Where each ordinal is pinned to: where it runs now or ran last, while the template fits that node."""
    if not nodeset.pin_to_node or nodeset.daemons:
        return None
    placed = {str(pod.ordinal): pod.node for pod in pods if pod.node and pod.phase == "Running"}
    wanted: dict[str, Any] = {**nodeset.pins, **placed}
    return {ordinal: name for ordinal, name in wanted.items() if name in nodes and fits(spec, nodes[name])[0]}


def _surplus(node: KubeNode, pods: list[WorkerPod], stays: bool) -> list[WorkerPod]:
    if not stays:
        return pods
    named = [pod for pod in pods if not (pod.terminating or pod.ended) and pod.slurm_name == hostname(node)]
    oldest = sorted(named, key=lambda pod: pod.ready_since or float("inf"))[:1]
    return [pod for pod in pods if pod not in oldest]


def _is_tolerated(taint: Json, tolerations: Iterable[Json]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
