"""undo-drain: a person uncordoned the node, so the DRAIN that bears our reason is lifted."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.ownership import is_left_by_restart, is_our_drain
from remediator.workflow.step import Writing
from slurm_bridge.model import SlurmNode

SETTLE_S = 30.0  # the operator may drain again for a moment 27 s after an undrain
PLACED_S = 60.0  # how long a worker that we evicted may take to come back
EVICTED = "evicted"


class UndoDrain(Writing):
    """Verified at once and again after 30 s. RESUME would also lift DOWN: it is sent only if that is ours."""

    name = "undo-drain"
    bound_s = 120.0

    def check(self, context: Context) -> Outcome | None:
        """Done when no Slurm node bears a DRAIN of this incident that may be lifted."""
        nodes = [context.slurm.node(name) for name in context.incident.slurm_nodes]
        if any(_liftable(node, context) for node in nodes):
            return None
        since = context.now - (context.row.acted_at or 0.0)
        if since < SETTLE_S:
            return Wait("our DRAIN is lifted; looked at once more", after=SETTLE_S - since)
        awaited = [node.name for node in nodes if _evicted(node, context)]
        if awaited and context.now - (context.row.started_at or context.now) < PLACED_S:
            return Wait(f"the worker of {', '.join(awaited)} was evicted and is not back yet")
        if awaited:
            return Done(f"{', '.join(awaited)} has no worker: it stays DOWN until one is back")
        down = [node.name for node in nodes if is_our_drain(node, context.incident)]
        if down:
            return Done(f"{', '.join(down)} is DOWN, which is not ours to lift: it stays drained")
        return Done("no DRAIN of ours is left")

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """On which nodes."""
        return f"resume {', '.join(incident.slurm_nodes)} where the reason is ours"

    def act(self, context: Context) -> Outcome | None:
        """RESUME on each literal node, its reason read right before."""
        for name in context.incident.slurm_nodes:
            if _liftable(context.slurm.node(name), context):
                context.slurm.resume(name)
        return None


def _liftable(node: SlurmNode, context: Context) -> bool:
    if _evicted(node, context):
        pod = context.nodes.worker(node.name)
        return pod is not None and bool(pod.node) and not pod.terminating
    ours = is_our_drain(node, context.incident)
    return ours and (not node.is_down or bool(context.row.facts.get("down")))


def _evicted(node: SlurmNode, context: Context) -> bool:
    """Our eviction left it DOWN; back on the same Kubernetes node nobody else resumes it."""
    return is_left_by_restart(node) and bool(context.row.facts.get(EVICTED))
