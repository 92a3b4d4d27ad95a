"""A veto is a veto: read again right before every step it forbids, and unreadable means vetoed."""

from __future__ import annotations

from remediator.errors import BadInput, Blocked, GiveUp, Retry
from remediator.kube.nodesets import owners
from remediator.kube.pods import PodView
from remediator.policy.vetoes import Veto, maintenance, rollout, unreadable, veto
from remediator.workflow.clocks import slurms_now
from remediator.workflow.context import Context, Watched
from remediator.workflow.judged import Judged


def judged(context: Context) -> Judged:
    """Read the incident's machine now. GiveUp when its name belongs to another one by now, or to none. A step
    that goes straight on takes the node from the watch: it is written as that version or not at all.
    """
    watched = context.watched if context.straight_on else Watched()
    name, conduct, now = context.incident.node, context.conduct, context.now
    node = watched.node(name)
    if node is not None and node.uid == context.incident.node_uid:
        others = _others(context, watched)
    else:
        others, node = context.together(lambda: _others(context, watched), lambda: context.nodes.node(name))
    if node is None or node.uid != context.incident.node_uid:
        raise GiveUp(f"{name} is not the machine of this incident any more: nothing is touched")
    if isinstance(others, Veto):
        return Judged(node, (), others)
    pods, rolling, planned = others
    found = veto(node, pods, conduct.no_replace_label, conduct.protected, now=now)
    return Judged(node, pods, found or planned or rollout(name, rolling, now=now))


def _others(context: Context, watched: Watched) -> tuple[tuple[PodView, ...], str, Veto | None] | Veto:
    """The machine's pods, the rollout they are in, and planned maintenance; unreadable is a veto."""
    try:
        (pods, rolling), planned = context.together(
            lambda: _pods(context, watched), lambda: _planned(context)
        )
    except (Retry, GiveUp, BadInput) as error:
        return unreadable(context.incident.node, error, now=context.now)
    return pods, rolling, planned


def _planned(context: Context) -> Veto | None:
    reservations = [one for one in context.slurm.reservations() if one.is_maintenance]
    if not reservations:
        return None
    names, soon_s = context.incident.slurm_nodes, context.conduct.maintenance_soon_s
    return maintenance(reservations, names, soon_s, now=slurms_now(context))


def _pods(context: Context, watched: Watched) -> tuple[tuple[PodView, ...], str]:
    """Of the NodeSets that the watch makes us expect it is asked side by side with the pods."""
    name, nodes = context.incident.node, context.nodes
    expected = watched.workers(name)
    pods, rolling = context.together(lambda: nodes.pods_on(name), lambda: nodes.rollout(expected))
    return pods, rolling if owners(pods) == owners(expected) else nodes.rollout(pods)


def standing_veto(context: Context) -> Veto | None:
    """What forbids touching the incident's Kubernetes node now."""
    return judged(context).veto


def demand_no_veto(context: Context) -> Judged:
    """What was judged; Blocked, naming what vetoes: the step looks again by itself and goes on without it."""
    found = judged(context)
    if found.veto is not None:
        raise Blocked(f"vetoed by {found.veto}")
    return found
