"""A veto is a veto: read again right before every step it forbids, and unreadable means vetoed."""

from __future__ import annotations

from dataclasses import dataclass

from remediator.errors import BadInput, Blocked, GiveUp, Retry
from remediator.kube.nodes import NodeView
from remediator.kube.pods import PodView
from remediator.policy.vetoes import Veto, maintenance, rollout, unreadable, veto
from remediator.workflow.clocks import slurms_now
from remediator.workflow.context import Context


@dataclass(frozen=True)
class Judged:
    """The very versions of a machine and its pods that were looked at, and what forbids touching them."""

    node: NodeView
    pods: tuple[PodView, ...]
    veto: Veto | None


def judged(context: Context) -> Judged:
    """Read the incident's machine now. GiveUp when its name belongs to another one by now, or to none."""
    name, conduct, now = context.incident.node, context.conduct, context.now
    others, node = context.together(lambda: _others(context), lambda: context.nodes.node(name))
    if node is None or node.uid != context.incident.node_uid:
        raise GiveUp(f"{name} is not the machine of this incident any more: nothing is touched")
    if isinstance(others, Veto):
        return Judged(node, (), others)
    pods, rolling, planned = others
    found = veto(node, pods, conduct.no_replace_label, conduct.protected, now=now)
    return Judged(node, pods, found or planned or rollout(name, rolling, now=now))


def _others(context: Context) -> tuple[tuple[PodView, ...], str, Veto | None] | Veto:
    """The machine's pods, the rollout they are in, and planned maintenance; unreadable is a veto."""
    try:
        (pods, rolling), planned = context.together(lambda: _pods(context), lambda: _planned(context))
    except (Retry, GiveUp, BadInput) as error:
        return unreadable(context.incident.node, error, now=context.now)
    return pods, rolling, planned


def _planned(context: Context) -> Veto | None:
    reservations = [one for one in context.slurm.reservations() if one.is_maintenance]
    if not reservations:
        return None
    names, soon_s = context.incident.slurm_nodes, context.conduct.maintenance_soon_s
    return maintenance(reservations, names, soon_s, now=slurms_now(context))


def _pods(context: Context) -> tuple[tuple[PodView, ...], str]:
    pods = context.nodes.pods_on(context.incident.node)
    return pods, context.nodes.rollout(pods)


def standing_veto(context: Context) -> Veto | None:
    """What forbids touching the incident's Kubernetes node now."""
    return judged(context).veto


def demand_no_veto(context: Context) -> Judged:
    """What was judged; Blocked, naming what vetoes: the step looks again by itself and goes on without it."""
    found = judged(context)
    if found.veto is not None:
        raise Blocked(f"vetoed by {found.veto}")
    return found
