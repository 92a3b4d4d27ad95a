"""Drain and fence are kept true until close: read again before each step that interrupts or removes."""

from __future__ import annotations

from collections.abc import Iterable

from remediator.actuators.nodes import fenced
from remediator.kube.fence import overridden
from remediator.model.plan import Wait
from remediator.workflow.context import Context
from remediator.workflow.ownership import still_drained


def lost_condition(context: Context, slurm_nodes: Iterable[str]) -> Wait | None:
    """None while both stand. Else the step waits for drain-slurm or fence-node to look again: they know
    whether the condition was forgotten or lifted by a person.
    """
    incident = context.incident
    for name in slurm_nodes:
        seen = context.slurm.node(name)
        if not still_drained(seen.is_drain, seen.reason, incident.id):
            return _look_again("drain-slurm", f"{name} is no longer drained by this incident")
    node = context.nodes.node(incident.node)
    if node is None or not fenced(node, incident, cordon=False) or overridden(node, incident.id):
        return _look_again("fence-node", f"{incident.node} is no longer fenced by this incident")
    return None


def demand_slurm(context: Context) -> None:
    """Retry while Slurm does not answer: what is unknown is never safe, in Kubernetes either."""
    context.slurm.config()


def _look_again(step: str, why: str) -> Wait:
    return Wait(f"{why}: looking again before anything is done", after=0.2, facts={"again": step})
