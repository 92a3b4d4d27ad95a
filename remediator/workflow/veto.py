"""A veto is a veto: read again right before every step it forbids, and unreadable means vetoed."""

from __future__ import annotations

from remediator.errors import BadInput, Blocked, GiveUp, Retry
from remediator.kube.pods import PodView
from remediator.policy.vetoes import Veto, maintenance, unreadable, veto
from remediator.workflow.context import Context


def judged(context: Context) -> tuple[Veto | None, tuple[PodView, ...]]:
    """What forbids touching the incident's machine now, and the very pods that were judged.

    GiveUp when the name belongs to another machine by now, or to none.
    """
    name, conduct, now = context.incident.node, context.conduct, context.now
    try:
        node = context.nodes.node(name)
        pods = context.nodes.pods_on(name)
        reservations = context.slurm.reservations()
    except (Retry, GiveUp, BadInput) as error:
        return unreadable(name, error, now=now), ()
    if node is None or node.uid != context.incident.node_uid:
        raise GiveUp(f"{name} is not the machine of this incident any more: nothing is touched")
    found = veto(node, pods, conduct.no_replace_label, conduct.protected, now=now)
    planned = maintenance(reservations, context.incident.slurm_nodes, conduct.maintenance_soon_s, now=now)
    return found or planned, pods


def standing_veto(context: Context) -> Veto | None:
    """What forbids touching the incident's Kubernetes node now."""
    return judged(context)[0]


def demand_no_veto(context: Context) -> tuple[PodView, ...]:
    """The judged pods; Blocked, naming what vetoes: the step looks again by itself and goes on without it."""
    found, pods = judged(context)
    if found is not None:
        raise Blocked(f"vetoed by {found}")
    return pods
