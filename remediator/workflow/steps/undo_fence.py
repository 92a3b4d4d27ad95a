"""undo-fence: a person resumed the node in Slurm, so taint, cordon and reason of ours are taken back."""

from __future__ import annotations

from remediator.actuators.nodes import bears_fence
from remediator.kube.fence import overridden
from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.step import Writing


class UndoFence(Writing):
    """Exactly what was set and is still there; a node that a person has touched as well stays as it is."""

    name = "undo-fence"
    bound_s = 30.0

    def check(self, context: Context) -> Outcome | None:
        """Done when nothing of this incident is on the node."""
        incident = context.incident
        node = context.nodes.node(incident.node)
        if node is None or node.uid != incident.node_uid:
            return Done(
                f"{incident.node} is not the machine of this incident any more: nothing is taken back"
            )
        lifted = overridden(node, incident.id)
        if lifted:
            return Done(f"{lifted}: it stays as it is")
        if not bears_fence(node, incident) and not _is_tested(context):
            return Done(f"nothing of ours is on {incident.node}")
        return None

    def intention(self, incident: Incident, run: JobRun | None) -> str:
        """From which node."""
        return f"take our taint, and the cordon and its reason where we set them, off {incident.node}"

    def act(self, context: Context) -> Outcome | None:
        """Its acceptance test is ended, and it is back in its pool, while the fence still stands."""
        incident = context.incident
        if _is_tested(context):
            context.acceptance.clear(incident.node, incident.node_uid, incident.id)
        if context.spares.is_detached(context.incident):
            context.spares.attach(context.incident)
        context.nodes.unfence(context.incident)
        return None


def _is_tested(context: Context) -> bool:
    """Whether a test of this incident is still on the machine: it was suspected and nothing more."""
    incident = context.incident
    return context.acceptance.look(incident.node, incident.node_uid, incident.id).pod
