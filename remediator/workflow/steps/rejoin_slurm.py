"""rejoin-slurm: the worker runs on the admitted spare and Slurm gives it jobs again."""

from __future__ import annotations

from remediator.kube.pods import slurm_node
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome, Wait
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.ownership import ours_or_systems
from remediator.workflow.step import Writing
from slurm_bridge.reasons import quoted


class RejoinSlurm(Writing):
    """Slinky sets a moved worker IDLE by itself; one that came back DOWN wants a RESUME."""

    name = "rejoin-slurm"
    bound_s = 120.0

    def check(self, context: Context) -> Outcome | None:
        """Done when every worker is up on the spare; None when a DOWN or DRAIN of ours is in the way."""
        if context.spare is None:
            return Done("no spare: nothing rejoins")
        places = []
        for name in context.incident.slurm_nodes:
            pod = context.nodes.worker(name)
            if pod is None or pod.node in {"", context.incident.node}:
                return self._not_placed(context, name, context.spare.node)
            node = context.slurm.node(name)
            started = node.slurmd_start_time or 0.0
            if started < context.incident.opened_at or node.is_silent or node.is_powering:
                return Wait(f"slurmd of {name} has not registered yet", after=1.0)
            if node.is_down or node.is_drain:
                return self._in_the_way(context, name)
            places.append(f"{name} takes jobs again on {pod.node}")
        return Done("; ".join(places) or f"no worker was on {context.incident.node}")

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

    def _not_placed(self, context: Context, name: str, spare: str) -> Outcome:
        """Workers go where there is room: two that wait at once may take each other's spare."""
        others = [slurm_node(pod) for pod in context.nodes.pods_on(spare) if not pod.finished]
        taken_by = [other for other in others if other and other not in context.incident.slurm_nodes]
        if taken_by:
            return Done(f"{spare} runs worker {taken_by[0]} in its stead: {name} waits for a node")
        return Wait(f"worker {name} waits for a node", after=1.0)

    def _in_the_way(self, context: Context, name: str) -> Outcome | None:
        node = context.slurm.node(name)
        if not ours_or_systems(node, context.incident):
            return Wait(f"{name} carries somebody else's reason {quoted(node.reason)}", after=10.0)
        since = context.now - (node.slurmd_start_time or context.now)
        # The operator sets IDLE 4 to 6 s after the pod runs; before that a RESUME would race with it.
        return Wait(f"{name} is not IDLE yet", after=1.0) if since < 10.0 else None
