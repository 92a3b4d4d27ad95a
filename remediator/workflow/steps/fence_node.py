"""fence-node: our NoSchedule taint, the operator's cordon reason if absent, and the cordon."""

from __future__ import annotations

from remediator.actuators.nodes import fenced
from remediator.errors import GiveUp
from remediator.kube.errors import Conflict
from remediator.kube.fence import overridden
from remediator.kube.nodes import NodeView
from remediator.model.incident import Incident
from remediator.model.plan import Again, Done, Outcome, Yield
from remediator.model.run import JobRun
from remediator.policy.vetoes import Veto
from remediator.workflow.context import Context
from remediator.workflow.step import Writing
from remediator.workflow.veto import judged, standing_veto

CORDONED = "cordoned"
RACE_S = 0.02


class FenceNode(Writing):
    """New GPU pods stay away. Comes after the DRAIN: with our reason in place the operator stands aside.

    The engine looks again whenever the watch shows a node without the fence.
    """

    name = "fence-node"
    bound_s = 5.0
    judges = True

    def check(self, context: Context) -> Outcome | None:
        """Done when taint and cordon are seen; GiveUp when the name now belongs to another machine.

        A fence that stood and is gone was lifted by a person: the API server forgets nothing.
        """
        node = self._machine(context)
        lifted = _lifted(node, context)
        if lifted:
            return Yield(lifted, "kubernetes")
        if not fenced(node, context.incident, cordon=False):
            return None
        vetoed = standing_veto(context)
        return _done(node, vetoed) if node.unschedulable or vetoed else None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """Which node."""
        return f"taint and cordon {incident.node}"

    def act(self, context: Context) -> Outcome | None:
        """One PATCH of the very version that was judged; a veto leaves out the cordon. Done: the driver has
        read the node back and refuses when the fence does not show.
        """
        seen = judged(context)
        lifted = _lifted(seen.node, context)
        if lifted:
            return Yield(lifted, "kubernetes")
        try:
            written = context.nodes.fence(context.incident, seen.node, cordon=seen.veto is None)
        except Conflict as error:  # lost a race, most often with the kubelet's own report
            return Again(str(error), after=RACE_S)
        return _done(written.node, seen.veto)

    def _machine(self, context: Context) -> NodeView:
        node = context.nodes.node(context.incident.node)
        if node is None or node.uid != context.incident.node_uid:
            raise GiveUp(
                f"{context.incident.node} is not the machine of this incident any more: nothing is fenced"
            )
        return node

    def foresee(self, context: Context) -> Outcome:
        """Blocked as ever; a veto says what it leaves out."""
        seen, vetoed = self.check(context), standing_veto(context)
        if seen is None and vetoed is not None:
            return Done(f"would taint {context.incident.node}, not cordon it: vetoed by {vetoed}")
        return seen or super().foresee(context)


def _lifted(node: NodeView, context: Context) -> str | None:
    """What a person took off the node, by its own note or by what this step saw before."""
    before = context.row.facts.get(CORDONED)
    noted = overridden(node, context.incident.id)
    if noted or before is None or fenced(node, context.incident, cordon=before):
        return noted
    return f"somebody took our fence off {node.name}"


def _done(node: NodeView, vetoed: Veto | None) -> Done:
    facts = {CORDONED: node.unschedulable}
    if vetoed is not None and not node.unschedulable:
        return Done(f"{node.name} is tainted, not cordoned: vetoed by {vetoed}", facts)
    return Done(f"{node.name} is tainted and cordoned", facts)
