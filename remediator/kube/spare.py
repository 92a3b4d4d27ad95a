"""A spare behind its taint and a sick node taken out of the pool: patches and their undoing. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from remediator.errors import Blocked, GiveUp, Overridden
from remediator.kube.acceptance import PROOF
from remediator.kube.errors import Json, clean
from remediator.kube.fence import EFFECT, is_fenced, overridden
from remediator.kube.nodes import NodeView
from remediator.kube.patch import preconditioned, raw_taints

CLAIM = "remediator.dev/claimed-by"
ADMITTED = "remediator.dev/admitted-by"
RETIRED = "remediator.dev/retired"
DETACHED = "remediator.dev/detached"
HOLDING = ("NoSchedule", "NoExecute")


class Unfit(GiveUp):
    """This node cannot be the spare: take another one."""


@dataclass(frozen=True, slots=True)
class SpareKeys:
    """`spare`: label and taint of a spare. `worker`: the taint of the pool's nodes, which only workers
    tolerate. `leaf`: the label that names a node's leaf switch. `tolerated`: other taints workers bear.
    """

    spare: str = "remediator.dev/spare"
    worker: str = "remediator.dev/worker"
    leaf: str = "network.topology.nvidia.com/leaf"
    value: str = "true"
    tolerated: tuple[str, ...] = ("nvidia.com/gpu",)


def unfit(node: NodeView, keys: SpareKeys) -> str:
    """Why the node cannot be taken as a spare now, as a sentence; empty when it can."""
    if node.labels.get(keys.spare) != keys.value or not _has(node, keys.spare):
        return f"{node.name} does not carry both the label and the taint {keys.spare}"
    if RETIRED in node.annotations or _has(node, RETIRED):
        said = clean(node.annotations.get(RETIRED, ""))
        return f"{node.name} is retired ({said}); remove annotation and taint {RETIRED} once it is good again"
    if node.ready is not True:
        return f"{node.name} is not Ready"
    if node.unschedulable:
        return f"{node.name} is cordoned"
    known = {keys.spare, keys.worker, *keys.tolerated}
    other = [taint.key for taint in node.taints if taint.effect in HOLDING and taint.key not in known]
    return f"{node.name} bears taint {other[0]}, which keeps workers off" if other else ""


def claim_patch(node: NodeView, keys: SpareKeys, incident: str) -> Json | None:
    """Write down for people whose spare this is; Unfit when it is another incident's or cannot be taken."""
    holder = node.annotations.get(CLAIM)
    if holder is not None and holder != incident:
        raise Unfit(f"{node.name} is claimed by incident {clean(holder)} (annotation {CLAIM})")
    problem = unfit(node, keys)
    if problem:
        raise Unfit(problem)
    return None if holder else preconditioned(node, annotations={CLAIM: incident})


def is_claimed(node: NodeView, incident: str) -> bool:
    """Whether the node says that it is this incident's spare."""
    return node.annotations.get(CLAIM) == incident


def release_patch(node: NodeView, incident: str) -> Json | None:
    """Undo this incident's claim."""
    return preconditioned(node, annotations={CLAIM: None}) if is_claimed(node, incident) else None


def retire_patch(node: NodeView, keys: SpareKeys, incident: str, reason: str) -> Json | None:
    """Put this incident's spare aside: it keeps its taint and gets one that says so; nobody takes it."""
    if node.annotations.get(CLAIM) is None and RETIRED in node.annotations:
        return None
    if not is_claimed(node, incident):
        raise Blocked(f"{node.name} is not claimed by {incident}: it is not retired")
    if not _has(node, keys.spare):
        raise Blocked(f"{node.name} is no spare any more: it is not retired")
    said = node.annotations.get(RETIRED, f"{incident}: {clean(reason)}")
    taints = raw_taints(node.taints)
    if not _has(node, RETIRED):
        taints.append({"key": RETIRED, "value": incident, "effect": EFFECT})
    marks = {CLAIM: None, PROOF: None, RETIRED: said}
    return preconditioned(node, annotations=marks, spec={"taints": taints})


def is_admitted(node: NodeView, keys: SpareKeys, incident: str) -> bool:
    """Whether this incident let workers onto the node, and it still stands."""
    ours = node.annotations.get(ADMITTED) == incident
    return ours and _has(node, keys.worker) and not _has(node, keys.spare) and keys.spare not in node.labels


def admit_patch(node: NodeView, keys: SpareKeys, incident: str) -> Json | None:
    """Swap the spare taint for the worker taint and drop the spare label, all at once. Unfit when the
    node is not this incident's or cannot be taken; Blocked when somebody undid it.
    """
    if is_admitted(node, keys, incident):
        return None
    if node.annotations.get(ADMITTED) == incident:
        raise Blocked(f"{node.name} was admitted by {incident}; somebody changed its taints or label since")
    if not is_claimed(node, incident):
        raise Unfit(f"{node.name} is not claimed by {incident}")
    problem = unfit(node, keys)
    if problem:
        raise Unfit(problem)
    taints = raw_taints(taint for taint in node.taints if taint.key != keys.spare)
    if not _has(node, keys.worker):
        taints.append({"key": keys.worker, "value": keys.value, "effect": EFFECT})
    return preconditioned(
        node,
        annotations={CLAIM: None, PROOF: None, ADMITTED: incident},
        labels={keys.spare: None},
        spec={"taints": taints},
    )


def is_detached(node: NodeView, incident: str) -> bool:
    """Whether our taint of this incident keeps workers off for good."""
    return any(taint.key == RETIRED and taint.value == incident for taint in node.taints)


def detach_patch(node: NodeView, keys: SpareKeys, incident: str) -> Json | None:
    """Swap the worker taint for one that no worker tolerates, and note it for `attach_patch`. Blocked
    unless this incident's fence stands, or when somebody undid the detaching.
    """
    undone = overridden(node, incident)
    if undone:
        raise Overridden(undone, "kubernetes")
    if not is_fenced(node, incident):
        raise Blocked(f"{node.name} is not fenced by {incident}: it stays in its pool")
    if is_detached(node, incident):
        return None
    if _has(node, RETIRED):
        raise Blocked(f"{node.name} bears taint {RETIRED} of somebody else")
    if _owner(node) == incident:
        raise Overridden(f"our taint {RETIRED} on {node.name} was removed by somebody else", "kubernetes")
    taken = raw_taints(taint for taint in node.taints if taint.key == keys.worker)
    kept = raw_taints(taint for taint in node.taints if taint.key != keys.worker)
    note = json.dumps({"incident": incident, "taints": taken}, sort_keys=True, separators=(",", ":"))
    retired = {"key": RETIRED, "value": incident, "effect": EFFECT}
    return preconditioned(node, annotations={DETACHED: note}, spec={"taints": [*kept, retired]})


def spare_patch(node: NodeView, keys: SpareKeys, incident: str) -> Json | None:
    """Make a spare of the node that this incident took out of its pool, all at once."""
    if not is_detached(node, incident):
        return None
    other = (RETIRED, keys.worker, keys.spare)
    kept = raw_taints(taint for taint in node.taints if taint.key not in other)
    return preconditioned(
        node,
        annotations={DETACHED: None, ADMITTED: None},
        labels={keys.spare: keys.value},
        spec={"taints": [*kept, {"key": keys.spare, "value": keys.value, "effect": EFFECT}]},
    )


def attach_patch(node: NodeView, incident: str) -> Json | None:
    """Take back exactly what `detach_patch` did and is still there; Blocked when its note is unreadable."""
    if not is_detached(node, incident):
        mine = _owner(node) == incident
        return preconditioned(node, annotations={DETACHED: None}) if mine else None
    if _owner(node) != incident:
        raise Blocked(
            f"annotation {DETACHED} on {node.name} cannot be read: put its worker taint back by hand"
        )
    kept = [taint for taint in node.taints if taint.key != RETIRED]
    keys = {(taint.key, taint.effect) for taint in kept}
    back = [taint for taint in _taken(node) if (taint.get("key"), taint.get("effect")) not in keys]
    taints = [*raw_taints(kept), *back]
    return preconditioned(node, annotations={DETACHED: None}, spec={"taints": taints or None})


def _has(node: NodeView, key: str) -> bool:
    return any(taint.key == key and taint.effect in HOLDING for taint in node.taints)


def _note(node: NodeView) -> Json:
    try:
        note = json.loads(node.annotations.get(DETACHED, ""))
    except (ValueError, RecursionError):
        return {}
    readable = isinstance(note, dict) and isinstance(note.get("taints"), list)
    return note if readable and all(isinstance(row, dict) for row in note["taints"]) else {}


def _owner(node: NodeView) -> object:
    return _note(node).get("incident")


def _taken(node: NodeView) -> list[Json]:
    return list(_note(node).get("taints", ()))
