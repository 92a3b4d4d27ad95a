"""The fence on a node: one PATCH to set it, one to take back exactly what we set. Pure."""

from __future__ import annotations

from remediator.errors import Blocked, Overridden
from remediator.kube.acceptance import PROOF
from remediator.kube.errors import Json
from remediator.kube.nodes import NodeView, Taint
from remediator.kube.patch import preconditioned, raw_taints
from remediator.model.incident import reason_prefix

FENCED = "remediator.dev/fenced"
INCIDENT = "remediator.dev/incident"
DID = "remediator.dev/fence-did"
CORDON_REASON = "nodeset.slinky.slurm.net/node-cordon-reason"
EFFECT = "NoSchedule"
MAX_REASON = 256
CORDON, REASON = "cordon", "cordon-reason"


def is_fenced(node: NodeView, incident: str) -> bool:
    """Whether our NoSchedule taint for this incident is on the node."""
    taint = _fence(node)
    return taint is not None and taint.value == incident


def did(node: NodeView, incident: str) -> frozenset[str]:
    """What our fence changed besides the taint: CORDON, REASON. Empty when the fence is not this one."""
    if node.annotations.get(INCIDENT) != incident:
        return frozenset()
    return frozenset(filter(None, node.annotations.get(DID, "").split(",")))


def overridden(node: NodeView, incident: str) -> str | None:
    """What somebody else undid of our fence, as a sentence; None when it stands or never was."""
    if node.annotations.get(INCIDENT) != incident:
        return None
    if not is_fenced(node, incident):
        return f"our taint {FENCED} on {node.name} was removed by somebody else"
    if CORDON in did(node, incident) and not node.unschedulable:
        return f"node {node.name} was uncordoned by somebody else"
    return None


def fence_patch(node: NodeView, incident: str, reason: str, *, cordon: bool) -> Json | None:
    """Merge patch that fences `node`; None when nothing is missing. Blocked when another incident
    holds the fence or somebody undid ours: it is never put back over a person's hand.
    """
    _refuse_foreign(node, incident)
    done = did(node, incident)
    annotations: dict[str, str | None] = {}
    spec: Json = {}
    if cordon and not node.unschedulable:
        spec["unschedulable"] = True
        done |= {CORDON}
    if cordon and not node.annotations.get(CORDON_REASON):
        annotations[CORDON_REASON] = reason[:MAX_REASON]
        done |= {REASON}
    if not is_fenced(node, incident):
        spec["taints"] = [*raw_taints(node.taints), {"key": FENCED, "value": incident, "effect": EFFECT}]
        annotations |= dict.fromkeys(node.annotations.keys() & {PROOF})  # a sick machine is proven no more
    if not spec and not annotations:
        return None
    annotations |= {INCIDENT: incident, DID: ",".join(sorted(done))}
    return preconditioned(node, annotations=annotations, spec=spec)


def unfence_patch(node: NodeView, incident: str) -> Json | None:
    """Merge patch that takes back exactly what this incident's fence set; None when nothing is left."""
    done = did(node, incident)
    annotations: dict[str, str | None] = {}
    spec: Json = {}
    if node.annotations.get(INCIDENT) == incident:
        annotations = {INCIDENT: None, DID: None}
    if REASON in done and node.annotations.get(CORDON_REASON, "").startswith(reason_prefix(incident)):
        annotations[CORDON_REASON] = None
    if CORDON in done and node.unschedulable:
        spec["unschedulable"] = None
    if is_fenced(node, incident):
        spec["taints"] = raw_taints(taint for taint in node.taints if taint.key != FENCED) or None
    if not spec and not annotations:
        return None
    return preconditioned(node, annotations=annotations, spec=spec)


def bears(node: NodeView, incident: str) -> bool:
    """Whether something that this incident's fence set is still on the node."""
    return unfence_patch(node, incident) is not None


def _refuse_foreign(node: NodeView, incident: str) -> None:
    taint = _fence(node)
    if taint is not None and taint.value != incident:
        raise Blocked(f"node {node.name} is fenced by incident {taint.value or 'unknown'}")
    undone = overridden(node, incident)
    if undone:
        raise Overridden(undone, "kubernetes")


def _fence(node: NodeView) -> Taint | None:
    return next((taint for taint in node.taints if taint.key == FENCED), None)
