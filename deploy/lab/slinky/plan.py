"""Pure decisions of one sync: what the operator would do, given a pod, its node and its Slurm record.

Each function mirrors one step of slurm-operator v1.2.1. A record of None means slurmctld does not know the
node; every step treats that the way v1.2.1 does, which is not always safe.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .model import CONDITION_PREFIX, REASON_PREFIX, KubeNode, NodeSet, SlurmNode, WorkerPod

MAX_REASON = 256
_BASE = ("ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN")
_FLAGS = ("COMPLETING", "DRAIN", "FAIL", "INVALID", "INVALID_REG", "MAINTENANCE", "NOT_RESPONDING", "UNDRAIN")
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True)
class SetCordon:
    """Set or remove the pod-cordon annotation."""

    pod: WorkerPod
    on: bool


@dataclass(frozen=True)
class SetSlurm:
    """One node update; fields that are None stay as they are."""

    node: str
    state: str | None = None
    reason: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class DeletePod:
    """A plain DELETE (preStop runs, the disruption budget is not asked)."""

    pod: WorkerPod
    why: str


Action = SetCordon | SetSlurm | DeletePod


def is_ours(reason: str) -> bool:
    """Whether the operator may touch a node with this reason: empty, or with its own prefix."""
    return not reason or reason.startswith(REASON_PREFIX)


def is_busy(record: SlurmNode) -> bool:
    """Work, or its clean-up, is going on."""
    return bool(record.state & _BUSY)


def is_drained(record: SlurmNode | None) -> bool:
    """DRAIN without UNDRAIN and without work; an unknown node counts as drained, as in v1.2.1."""
    if record is None:
        return True
    return "DRAIN" in record.state and "UNDRAIN" not in record.state and not is_busy(record)


def cordon(
    pod: WorkerPod, node: KubeNode | None, record: SlurmNode | None, propagated: Collection[str] = ()
) -> tuple[Action, ...]:
    """Carry a cordon of the Kubernetes node, or of the pod, over to Slurm; or take it back."""
    if node is None or record is None or not is_ours(record.reason) or _unresponsive(record):
        return ()
    if node.unschedulable:
        return _drain(pod, record, _cordon_text(pod, node, propagated))
    if pod.cordoned:
        return _drain(pod, record, f"Pod ({pod.key}) was cordoned")
    return _undrain(pod, record, f"{REASON_PREFIX}Pod ({pod.key}) was uncordoned")


def keep(pod: WorkerPod, node: KubeNode | None, record: SlurmNode | None) -> tuple[Action, ...]:
    """A pod that stays must not be cordoned, unless its Kubernetes node is or the reason is foreign."""
    if (node is not None and node.unschedulable) or (record is not None and not is_ours(record.reason)):
        return ()
    return _undrain(pod, record, "")


def condemn(pod: WorkerPod, record: SlurmNode | None) -> tuple[Action, ...]:
    """Scale-in: drain with a reason of the operator's own, wait, delete."""
    if pod.terminating:
        return ()
    if is_drained(record):
        return (DeletePod(pod, "scale-in"),)
    assert record is not None  # noqa: S101 - is_drained answers True for None
    return _drain(pod, record, f"Pod ({pod.key}) is pending termination for scale-in", override=True)


def tidy(pod: WorkerPod) -> tuple[Action, ...]:
    """A pod whose containers ended for good is deleted, so that its ordinal is made again."""
    ended = pod.phase in ("Failed", "Succeeded") and not pod.terminating
    return (DeletePod(pod, "pod has ended"),) if ended else ()


def unregistered(pod: WorkerPod, record: SlurmNode | None, now: float, grace: float) -> tuple[Action, ...]:
    """A pod that is Ready for `grace` seconds but whose node slurmctld does not know is deleted."""
    if record is not None or not pod.healthy or now < (pod.ready_since or 0.0) + grace:
        return ()
    return (DeletePod(pod, "Slurm node is not registered but pod is healthy"),)


def adopt(nodeset: NodeSet, pod: WorkerPod, record: SlurmNode | None) -> tuple[Action, ...]:
    """Write where the pod is into the record's comment; a pod that moved makes the node IDLE, unasked.

    IDLE clears DRAIN, DOWN and the reason, whoever set them.
    """
    if record is None or not pod.healthy:
        return ()
    old, new = parse_pod_info(record.comment), pod_info(nodeset, pod)
    if old == new:
        return ()
    actions: list[Action] = [SetSlurm(record.name, comment=json.dumps(new, separators=(",", ":")))]
    if old.get("node"):
        actions.append(SetSlurm(record.name, state="IDLE"))
    return tuple(actions)


def pod_info(nodeset: NodeSet, pod: WorkerPod) -> dict[str, str]:
    """The comment of a Slurm node, in the operator's field order."""
    return {
        "namespace": pod.namespace,
        "podName": pod.name,
        "node": pod.node,
        "nodeSetName": nodeset.name,
        "nodeSetUID": nodeset.uid,
    }


def parse_pod_info(comment: str) -> dict[str, str]:
    """Reads a comment back; anything else than a JSON object of strings is an empty one."""
    try:
        found = json.loads(comment)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)}


def conditions(record: SlurmNode | None) -> Mapping[str, str]:
    """The pod conditions of a Slurm state: one base state, any flags; the message is the reason."""
    if record is None:
        return {}
    base = next(([s] for s in _BASE if s in record.state), [])
    shown = base + [s for s in _FLAGS if s in record.state]
    return {CONDITION_PREFIX + s.title().replace("_", ""): record.reason for s in shown}


def shows_busy(shown: Iterable[str]) -> bool:
    """Whether pod conditions say that work is going on; this, not slurmctld, sets pod-protect."""
    return bool({CONDITION_PREFIX + s.title() for s in _BUSY} & set(shown))


def missing_ordinals(pods: Collection[WorkerPod], replicas: int) -> list[int]:
    """The lowest free ordinals that bring the pods, terminating ones included, up to `replicas`."""
    used = {pod.ordinal for pod in pods}
    free = (n for n in range(len(pods) + replicas) if n not in used)
    return [next(free) for _ in range(replicas - len(pods))]


def condemned(pods: Collection[WorkerPod], replicas: int) -> list[WorkerPod]:
    """The pods above `replicas`, those first whose loss costs least."""

    def cost(pod: WorkerPod) -> tuple[bool, int, bool, int, bool, int]:
        phase = _PHASE_ORDER.get(pod.phase, 1)
        unready = pod.ready_since is not None
        return (bool(pod.node), phase, unready, pod.deletion_cost, not pod.cordoned, -pod.ordinal)

    return sorted(pods, key=cost)[: max(0, len(pods) - replicas)]


def outdated(pods: Collection[WorkerPod], revision: str, total: int, lost: int) -> list[WorkerPod]:
    """The pods a rolling update takes away now: old ones that are unhealthy, and as many others as a quarter
    of `total` allows beside the new ones that are not Ready yet and the `lost` ones that are not there.
    """
    living = [pod for pod in pods if not pod.terminating]
    old = [pod for pod in living if pod.revision != revision]
    unready = sum(pod.ready_since is None for pod in living if pod.revision == revision)
    healthy = [pod for pod in old if pod.healthy]
    spared = len(healthy) - max(0, math.ceil(total / 4) - unready - lost)
    return [pod for pod in old if not pod.healthy] + condemned(healthy, max(0, spared))


def sanitize(text: str) -> str:
    """A reason from outside as one line of at most 256 characters without control characters."""
    spaced = "".join(" " if c in "\t\n\r" else c for c in text)
    clean = "".join(c for c in spaced if unicodedata.category(c) != "Cc").strip()
    return clean[:MAX_REASON].strip()


def _unresponsive(record: SlurmNode) -> bool:
    return "DOWN" in record.state and "Not responding" in record.reason


def _cordon_text(pod: WorkerPod, node: KubeNode, propagated: Collection[str]) -> str:
    if node.cordon_reason is not None:
        return sanitize(node.cordon_reason)
    told = [f"({reason}: {message})" for kind, reason, message in node.conditions if kind in propagated]
    return "; ".join(told) or f"Node ({node.name}) was cordoned, Pod ({pod.key}) must be cordoned"


def _drain(pod: WorkerPod, record: SlurmNode, text: str, override: bool = False) -> tuple[Action, ...]:
    reason = REASON_PREFIX + (text or "unknown")
    if record.reason and not override:
        reason = record.reason
    actions: list[Action] = [] if pod.cordoned else [SetCordon(pod, True)]
    if "DRAIN" not in record.state or record.reason != reason:
        actions.append(SetSlurm(record.name, state="DRAIN", reason=reason))
    return tuple(actions)


def _undrain(pod: WorkerPod, record: SlurmNode | None, reason: str) -> tuple[Action, ...]:
    actions: list[Action] = [SetCordon(pod, False)] if pod.cordoned else []
    if record is not None and "DRAIN" in record.state and "UNDRAIN" not in record.state:
        actions.append(SetSlurm(record.name, state="UNDRAIN", reason=reason))
    return tuple(actions)
