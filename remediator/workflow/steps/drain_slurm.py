"""drain-slurm: DRAIN with our reason on every Slurm node of the machine, one literal name per request."""

from __future__ import annotations

from remediator.model.incident import Incident
from remediator.model.plan import Done, Outcome
from remediator.model.run import JobRun
from remediator.workflow.context import Context
from remediator.workflow.ownership import check_owner, is_our_drain
from remediator.workflow.step import Writing


class DrainSlurm(Writing):
    """No new job may start there; running jobs go on."""

    name = "drain-slurm"
    bound_s = 5.0

    def check(self, context: Context) -> Outcome | None:
        """Done once every Slurm node has DRAIN and our reason; Blocked on somebody else's."""
        if self._undrained(context):
            return None
        names = ", ".join(context.incident.slurm_nodes)
        return Done(f"Slurm drains {names}" if names else "no Slurm worker on this node: nothing to drain")

    def intention(self, incident: Incident, run: JobRun | None) -> str:  # noqa: ARG002 - a node's step
        """Which nodes, and the reason they get."""
        return f"set DRAIN on {', '.join(incident.slurm_nodes)}, reason {incident.drain_reason!r}"

    def act(self, context: Context) -> None:
        """One DRAIN per node that lacks it."""
        for name in self._undrained(context):
            context.slurm.drain(name, context.incident.drain_reason)

    def _undrained(self, context: Context) -> list[str]:
        missing = []
        for name in context.incident.slurm_nodes:
            node = context.slurm.node(name)
            check_owner(node, context.incident)
            if not is_our_drain(node, context.incident):
                missing.append(name)
        return missing
