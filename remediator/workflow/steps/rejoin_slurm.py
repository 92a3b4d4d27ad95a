"""rejoin-slurm: the worker runs on the admitted spare and Slurm gives it jobs again."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.ownership import ours_or_systems
from remediator.workflow.step import Writing


class RejoinSlurm(Writing):
    """Slinky sets a moved worker IDLE by itself; one that came back DOWN wants a RESUME."""

    name = "rejoin-slurm"
    bound_s = 120.0

    def check(self, context: Context) -> Outcome | None:
        """Done when every worker is up on the spare; None when a DOWN or DRAIN of ours is in the way."""
        if context.spare is None:
            return Done("no spare: nothing rejoins")
        for name in context.incident.slurm_nodes:
            pod = context.nodes.worker(name)
            if pod is None or pod.node != context.spare.node:
                where = f"on {pod.node}" if pod and pod.node else "waiting for a node"
                return Wait(f"worker {name} is {where}", after=1.0)
            node = context.slurm.node(name)
            if (node.slurmd_start_time or 0.0) < context.incident.opened_at or node.is_silent:
                return Wait(f"slurmd of {name} has not registered yet", after=1.0)
            if node.is_down or node.is_drain:
                return self._in_the_way(context, name)
        names = ", ".join(context.incident.slurm_nodes)
        return Done(f"{names} takes jobs again on {context.spare.node}")

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which Slurm nodes."""
        return f"resume {', '.join(incident.slurm_nodes)} on the replacement"

    def act(self, context: Context) -> Outcome | None:
        """RESUME what is DOWN or drained by us or by the system."""
        for name in context.incident.slurm_nodes:
            node = context.slurm.node(name)
            if (node.is_down or node.is_drain) and ours_or_systems(node, context.incident):
                context.slurm.resume(name)
        return None

    def _in_the_way(self, context: Context, name: str) -> Outcome | None:
        node = context.slurm.node(name)
        if not ours_or_systems(node, context.incident):
            return Wait(f"{name} carries somebody else's reason {node.reason!r}", after=10.0)
        since = context.now - (node.slurmd_start_time or context.now)
        # The operator sets IDLE 4 to 6 s after the pod runs; before that a RESUME would race with it.
        return Wait(f"{name} is not IDLE yet", after=1.0) if since < 10.0 else None
