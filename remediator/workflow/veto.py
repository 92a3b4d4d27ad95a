"""A veto is a veto: read again right before every step it forbids, and unreadable means vetoed."""

from __future__ import annotations

from remediator.errors import Blocked, GiveUp, Retry
from remediator.policy.vetoes import Veto, unreadable, veto
from remediator.workflow.context import Context


def standing_veto(context: Context) -> Veto | None:
    """What forbids touching the incident's Kubernetes node now."""
    name, conduct = context.incident.node, context.conduct
    try:
        node = context.nodes.node(name)
        if node is None:
            return None
        pods = context.nodes.pods_on(name)
    except (Retry, GiveUp) as error:
        return unreadable(name, error, now=context.now)
    return veto(node, pods, conduct.no_replace_label, conduct.protected, now=context.now)


def demand_no_veto(context: Context) -> None:
    """Blocked, naming what vetoes; the step looks again by itself and goes on once it is lifted."""
    found = standing_veto(context)
    if found is not None:
        raise Blocked(f"vetoed by {found}")
