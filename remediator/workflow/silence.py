"""A silent machine: DOWN instead of a requeue, and what proves that nothing runs on it any more."""

from __future__ import annotations

from math import inf

from remediator.errors import GiveUp
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView, is_slurm_worker
from remediator.model.plan import Hold
from remediator.workflow.context import Context
from remediator.workflow.occupants import jobs_on
from remediator.workflow.veto import demand_no_veto
from slurm_bridge.kinds import classify

UNFENCED = "unfenced"
"""Fact of a run's steps: Slurm nodes that it lost while its processes there may have lived on."""

HELD = "held_until_fenced"
"""Fact of a run's steps: the job is held in Slurm by us; the value is when that slurmctld had started."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
SKEW_S = 5.0  # between the API server's clock and ours
KUBELET_GRACE_S = 60.0  # a kubelet that died with the node is not Ready any more after that


def refuse_down(context: Context) -> Hold | None:
    """Why the machine is not set DOWN; None when it may be. Blocked when it is vetoed.

    DOWN takes every run off the node, so each of them must be one that may be requeued.
    """
    sick = frozenset(context.incident.slurm_nodes)
    for name in sorted(sick):
        node = context.slurm.node(name)
        if not (node.is_silent or node.is_down):
            return Hold(f"slurmd of {name} answers again: silence is no proof any more, its jobs are left")
    for job in jobs_on(context):
        release = classify(job, sick)
        if release.keeps_the_node or release.kind == "unknown":
            return Hold(f"DOWN would end job {job.address}, which is left alone ({release.why})")
        if job.is_expedited:
            return Hold(f"DOWN would start expedited job {job.address} beside its old processes")
    demand_no_veto(context)
    return None


def set_machine_down(context: Context) -> None:
    """DOWN on each of its Slurm nodes that is silent and not DOWN yet: Slurm then requeues their runs."""
    for name in context.incident.slurm_nodes:
        node = context.slurm.node(name)
        if node.is_silent and not node.is_down:
            context.slurm.set_down(name, context.incident.drain_reason)


def lost_nodes(context: Context) -> list[str]:
    """Nodes of the run whose slurmd may never have told Slurm that the processes there are gone."""
    return [name for name in context.the_run.nodes if _is_lost(context, name)]


def fencing_proof(context: Context) -> str | None:
    """What proves that the run's old processes are gone, as half a sentence; None without proof."""
    incident = context.incident
    if not set(context.row.facts.get(UNFENCED, ())) <= set(incident.slurm_nodes):
        return None
    node = context.nodes.node(incident.node)
    if node is None:
        return f"{incident.node} was deleted"
    if any(taint.key == OUT_OF_SERVICE for taint in node.taints):
        return f"{incident.node} is off: it bears {OUT_OF_SERVICE}"
    if incident.boot_id and node.boot_id not in {"", incident.boot_id}:
        return f"{incident.node} has booted anew"
    if _is_emptied(context, node):
        return f"the kubelet of {incident.node} lives and the pod of its worker is gone"
    return None


def _is_lost(context: Context, name: str) -> bool:
    try:
        node = context.slurm.node(name)
    except GiveUp:  # a node that Slurm forgot tells nothing
        return True
    # Slurm waits for a node that is only silent, say after a resume, before a run counts as ended there.
    mute = node.is_silent or node.is_powering
    return node.is_down or (mute and name in context.incident.slurm_nodes)


def _is_emptied(context: Context, node: NodeView) -> bool:
    incident = context.incident
    if node.uid != incident.node_uid or node.ready is not True:
        return False
    if context.now - incident.fault_at < KUBELET_GRACE_S:
        return False
    return not any(_is_of_old(pod, incident.fault_at) for pod in context.nodes.pods_on(node.name))


def _is_of_old(pod: PodView, since: float) -> bool:
    """A worker's pod that is not surely younger: the operator makes the next of its name within seconds."""
    is_younger = pod.created is not None and since + SKEW_S < pod.created < inf
    return is_slurm_worker(pod) and not is_younger
